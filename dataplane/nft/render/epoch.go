// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/outcome"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// A packet in a base chain uses the rules of the generation in which it entered, but the current
// elements of sets and maps. So during a transaction it may use a mix of the old and the new state.
// A base chain with policy ends with a check:
//
//	forward ──▶ sender, receiver ──┬── in set epoch ──▶ verdict
//	                               └── stale ──▶ forward-again
//
// The set matches every packet. A transaction that a packet could use in part replaces the set and the
// rules that look into it. A packet that entered before uses the old rule, and the old set is empty:
// the packet is stale. The base chain forward-again evaluates a stale packet from the beginning, by
// the current rules. The applier replaces the set: see applier.Epoch.
const (
	setEpoch = "epoch"
	// suffixAgain ends the names of the base chains that evaluate stale packets.
	suffixAgain = "-again"
)

// notStale matches packets that are not recorded as stale.
func notStale() ruleset.Match {
	bit := ruleset.Uint32(priorityStale)
	return ruleset.Compare{Field: outcome.Register, Not: true, Value: bit, Mask: bit}
}

// checkEpoch returns the last rules of a base chain with policy. The first takes a packet that is not stale
// to the chain that carries out the decision. The second is the given rule for stale packets.
func checkEpoch(verdict string, stale ruleset.Rule) []ruleset.Rule {
	return []ruleset.Rule{build.When(build.Goto(verdict), build.InSet(setEpoch, ruleset.NFProto)), stale}
}

// The chains in which policy of host endpoints decides. They leave stale packets to the base chains that
// evaluate them again, and drop packets that are stale there, too. host-passed returns other packets.
const (
	chainHostAllowed   = "host-allowed"
	chainHostUntracked = "host-untracked"
	chainHostPassed    = "host-passed"
	chainHostDenied    = "host-denied"
	chainHostRejected  = "host-rejected"
	chainHostStale     = "host-stale"
)

// priorityHostStale records that a packet is stale for policy of host endpoints. Nothing in the same
// hook clears it: each base chain with such policy evaluates the packet again. The -again chains of
// workloads ignore it, because bit 30 is clear.
const priorityHostStale uint32 = 1<<30 - 3

// hostDecisions returns the chains in which policy of host endpoints decides.
func (b *baseChains) hostDecisions() []*ruleset.Chain {
	again := build.Equals(outcome.Register, ruleset.Uint32(priorityHostStale))
	record := build.Always(ruleset.Assign{Field: outcome.Register, Value: priorityHostStale}, build.Accept())
	record.Matches = []ruleset.Match{notStale()}
	chains := []*ruleset.Chain{
		{Name: chainHostStale, Rules: []ruleset.Rule{
			b.statements.refusal("policy changed twice", again),
			record,
			b.statements.refusal("policy changed twice"),
		}},
		hostDecision(chainHostAllowed, build.Always(build.Accept())),
		hostDecision(chainHostUntracked, build.Always(ruleset.Notrack{}, build.Accept())),
		hostDecision(chainHostPassed),
		hostDecision(chainHostDenied, build.Always(build.Drop())),
	}
	if b.cfg.Reject {
		chains = append(chains, hostDecision(chainHostRejected, rejections()...))
	}
	return chains
}

// hostDecision returns a chain in which policy of host endpoints decides.
func hostDecision(name string, decision ...ruleset.Rule) *ruleset.Chain {
	return &ruleset.Chain{
		Name: name, Rules: append([]ruleset.Rule{build.When(build.Goto(chainHostStale), stale())}, decision...),
	}
}

// hostAgain returns the base chain that evaluates packets again that are stale at another one.
func hostAgain(c *ruleset.Chain) *ruleset.Chain {
	first := ruleset.Compare{Field: outcome.Register, Not: true, Value: ruleset.Uint32(priorityHostStale)}
	rules := append([]ruleset.Rule{build.When(build.Accept(), first)}, c.Rules...)
	return base(c.Name+suffixAgain, c.Hook.Point, c.Hook.Priority+1, rules...)
}

// stale matches stale packets.
func stale() ruleset.Match {
	return ruleset.Lookup{Fields: []ruleset.Field{ruleset.NFProto}, Not: true, Set: setEpoch}
}

// epochSet returns the set epoch, which matches every packet.
func epochSet() *sets.ElementSet {
	return sets.NewElementSet(ruleset.Set{Name: setEpoch, Key: []ruleset.Type{ruleset.TypeNFProto}},
		sets.Element(nil, ruleset.Byte(ruleset.NFProtoIPv4)), sets.Element(nil, ruleset.Byte(ruleset.NFProtoIPv6)))
}

// Epoch names the set by which packets become stale, and the chains that look into it: see
// applier.Epoch.
type Epoch struct {
	Set    string
	Chains []string
}

// Epoch returns the names of the set and of all chains that look into it.
func (r *Renderer) Epoch() (e Epoch) {
	e.Set = setEpoch
	for _, c := range r.base.all() {
		if slices.ContainsFunc(c.Rules, looksIntoEpoch) {
			e.Chains = append(e.Chains, c.Name)
		}
	}
	return e
}

func looksIntoEpoch(rule ruleset.Rule) bool {
	return slices.ContainsFunc(rule.Matches, func(m ruleset.Match) bool {
		in, ok := m.(ruleset.Lookup)
		return ok && in.Set == setEpoch
	})
}
