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
// elements of sets and maps. So if a transaction comes in between, the packet may see a mix of the
// old and the new state. Each base chain with policy ends with a check that detects this:
//
//	forward ──▶ sender, receiver ──┬── in set epoch ──▶ verdict
//	                               └── stale ──▶ forward-again
//
// The set epoch matches every packet. A transaction that could show packets a mix replaces the set,
// and the rules that reference it. A packet that entered the base chain before the transaction uses
// the old rule, which references the old set. The old set is then empty, so the packet is stale:
// forward-again evaluates it from the beginning. The applier replaces the set: see ruleset.Epoch.
const (
	setEpoch = "epoch"
	// suffixAgain is the end of the names of base chains that evaluate stale packets.
	suffixAgain = "-again"
)

// basePolicy describes a base chain with policy.
type basePolicy struct {
	name  string
	point ruleset.HookPoint
	// priority is the priority of the base chain. againPriority is that of the base chain that
	// evaluates its stale packets.
	priority, againPriority int
	// verdict is the name of the chain that carries out decisions.
	verdict string
	// untracked is set if the connections of allowed packets are not tracked.
	untracked bool
	// before has the rules before policy. jumps has the rules that jump to policy.
	before, jumps []ruleset.Rule
}

// policed returns a base chain with policy, the base chain that evaluates its stale packets, and
// the chains for packets with a nonzero priority.
func (v *verdicts) policed(p basePolicy) []*ruleset.Chain {
	rules, chains := v.byPriority(&p)
	stale := build.Always(record(priorityStale), build.Accept())
	rules = slices.Concat(p.before, rules, p.jumps, checkEpoch(p.verdict, stale))
	notStale := ruleset.Compare{
		Field: outcome.Register, Not: true,
		Value: ruleset.Uint32(priorityStale), Mask: ruleset.Uint32(priorityStale),
	}
	second := slices.Concat(
		[]ruleset.Rule{build.When(build.Accept(), notStale)}, p.before, []ruleset.Rule{forget()}, p.jumps,
		checkEpoch(p.verdict, v.statements.refusal("policy changed twice")),
	)
	return append(chains,
		base(p.name, p.point, p.priority, rules...), base(p.name+suffixAgain, p.point, p.againPriority, second...))
}

// checkEpoch returns the last rules of a base chain with policy. If a packet is not stale, the
// first rule leads to the chain that carries out the decision. The second rule is the given one for
// stale packets.
func checkEpoch(verdict string, stale ruleset.Rule) []ruleset.Rule {
	return []ruleset.Rule{build.When(build.Goto(verdict), build.InSet(setEpoch, ruleset.NFProto)), stale}
}

// epochSet returns the set "epoch", which matches every packet.
func epochSet() *sets.ElementSet {
	return sets.NewElementSet(ruleset.Set{Name: setEpoch, Key: []ruleset.Type{ruleset.TypeNFProto}},
		sets.Element(nil, ruleset.Byte(ruleset.NFProtoIPv4)), sets.Element(nil, ruleset.Byte(ruleset.NFProtoIPv6)))
}

// Epoch returns the name of the set "epoch", and the names of all chains that may reference this
// set.
func (r *Renderer) Epoch() (e ruleset.Epoch) {
	e.Set = setEpoch
	all := *r.base
	for l := range hostListCount {
		all.host.enforced[l] = true
	}
	chains := all.all()
	for l := range hostListCount {
		if l.partial() {
			chains = append(chains, r.endpoints.hosts.to.base(l)...)
		}
	}
	for _, c := range chains {
		if slices.ContainsFunc(c.Rules, referencesEpoch) {
			e.Chains = append(e.Chains, c.Name)
		}
	}
	return e
}

// Stages returns the base chains of untracked and pre-DNAT policy. A packet passes these base
// chains before those of normal policy, which is all other policy.
func Stages() (all []ruleset.Stage) {
	for l := range hostListCount {
		if l.partial() {
			p := l.partialBase()
			all = append(all, ruleset.Stage{Chain: p.name, Behind: p.againPriority + 1})
		}
	}
	return all
}

func referencesEpoch(rule ruleset.Rule) bool {
	return slices.ContainsFunc(rule.Matches, func(m ruleset.Match) bool {
		in, ok := m.(ruleset.Lookup)
		return ok && in.Set == setEpoch
	})
}
