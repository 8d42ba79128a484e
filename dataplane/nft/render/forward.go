// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// The policy of workloads is in one base chain of each hook, so one check of the epoch at its end
// covers sender and receiver. Only the rules of the base chain itself are fixed when a packet enters.
//
//	forward ──▶ jump sender ──▶ jump from/...    policy of the workload that sends, if one does
//	        ──▶ jump receiver ──▶ jump to/...    policy of the workload that receives, if one does
//	        ──▶ in set epoch: goto verdict       carries out the decision
//
// The hooks input and output have the same with one of the jumps. Policy that decides about a packet
// records that in the packet's priority (priorityAllowed, chain denied) and returns. Chains that jump to
// policy return as well (returnDecided), up to the base chain. No chain below it has a verdict of
// policy, because a delayed packet may use newer rules there. The chain sender or receiver drops
// packets that return without a decision: to a packet on the previous generation a new from/... chain
// is empty.
const (
	chainForward        = "forward"
	chainSender         = "sender"
	chainReceiver       = "receiver"
	chainKnown          = "known-connection"
	chainKnownForwarded = "known-forwarded"
	chainDenied         = "denied"
)

// deniedChain returns the chain that records in a packet that workload policy denies it.
func (b *baseChains) deniedChain() *ruleset.Chain {
	return &ruleset.Chain{Name: chainDenied, Rules: []ruleset.Rule{
		build.Always(record(priorityDenied), build.Return()),
	}}
}

// forwardChains returns the base chains for forwarded packets and the chains that all hooks share.
func (b *baseChains) forwardChains() []*ruleset.Chain {
	before := b.dropBlocked(ruleset.IIFName, ruleset.OIFName)
	others := b.others(ruleset.IIFName, ruleset.OIFName)
	if len(before) == 0 && !b.oddNames {
		before = []ruleset.Rule{
			others,
			build.When(
				build.Jump(chainKnownForwarded), build.Equals(ruleset.CtState, ruleset.CtStates(ruleset.CtEstablished)),
			),
		}
	} else { // several lookups lead here, which could use two states
		others.Matches = append(others.Matches, build.InSet(setEpoch, ruleset.NFProto))
		before = append(before, others)
	}
	chains := b.policed(chainForward, ruleset.Forward, chainVerdict, before, b.sideJumps())
	// The chain is always there, so that the first odd name only replaces the rule that jumps to it.
	chains = append(chains, &ruleset.Chain{Name: chainKnownForwarded, Rules: b.knownForwarded()})
	return slices.Concat(chains, b.sideChains(), []*ruleset.Chain{b.deniedChain()}, b.verdicts.chains())
}

// knownForwarded returns the rules that accept packets of established connections without the
// workload's chains. They accept packets to a workload that is up, and packets from a workload's own
// address unless ReversePath is set. They accept none between two workloads, whose two lookups could
// use two states.
func (b *baseChains) knownForwarded() []ruleset.Rule {
	rules := []ruleset.Rule{build.When(
		build.Accept(), append(b.noWorkload(ruleset.IIFName), build.InSet(setUp, ruleset.OIFName))...,
	)}
	if b.cfg.ReversePath {
		return rules
	}
	for _, f := range sets.Families() {
		matches := append(
			b.noWorkload(ruleset.OIFName), match.OfFamily(f),
			build.InSet(sourceSet(f), ruleset.IIFName, match.Saddr(f)),
		)
		rules = append(rules, build.When(build.Accept(), matches...))
	}
	return rules
}

// sideJumps are the jumps to the policy of the sender and of the receiver.
func (b *baseChains) sideJumps() []ruleset.Rule {
	if b.oddNames {
		return []ruleset.Rule{build.Always(build.Jump(chainSender)), build.Always(build.Jump(chainReceiver))}
	}
	prefix := ruleset.IfnamePrefix(b.cfg.InterfacePrefix)
	return []ruleset.Rule{
		build.When(build.Jump(chainSender), build.Equals(ruleset.IIFName, prefix)),
		build.When(build.Jump(chainReceiver), build.Equals(ruleset.OIFName, prefix)),
	}
}

// noWorkload matches an interface that no workload has, nor may have by its name.
func (b *baseChains) noWorkload(field ruleset.Field) []ruleset.Match {
	prefix := ruleset.IfnamePrefix(b.cfg.InterfacePrefix)
	matches := []ruleset.Match{ruleset.Compare{Field: field, Not: true, Value: prefix}}
	if b.oddNames {
		matches = append(matches, noEndpoint(field))
	}
	return matches
}

// sideChains returns the chains that lead to the policy of the sender and of the receiver. They
// return for packets that policy decides about and, where interfaces have any names, for those of no
// workload.
func (b *baseChains) sideChains() []*ruleset.Chain {
	side := func(name, endpoints string, field ruleset.Field, before ...ruleset.Rule) *ruleset.Chain {
		rules := append(before, build.Dispatch(endpoints, field))
		return &ruleset.Chain{Name: name, Rules: append(append(rules, returnDecided()), b.notUp(field)...)}
	}
	var before []ruleset.Rule
	if b.cfg.ReversePath {
		noRoute := build.Equals(ruleset.FibSource, ruleset.Byte(0))
		ours := build.InSet(setEndpoints, ruleset.IIFName)
		before = append(before, b.statements.refusal("false way back", ours, noRoute))
	}
	return []*ruleset.Chain{
		side(chainSender, mapFrom, ruleset.IIFName, before...),
		side(chainReceiver, mapTo, ruleset.OIFName,
			build.When(build.Return(), denied()), forget()),
		{Name: chainKnown, Rules: []ruleset.Rule{build.Always(record(priorityAllowed))}},
	}
}

// policed returns a base chain with policy, the one that evaluates stale packets again, and the
// chains for packets with a nonzero priority. verdict is the chain that carries out the decision, before
// are the rules before policy, jumps the rules that jump to policy.
func (b *baseChains) policed(
	name string, point ruleset.HookPoint, verdict string, before, jumps []ruleset.Rule,
) []*ruleset.Chain {
	rules, chains := b.verdicts.byPriority(name, verdict, jumps)
	stale := build.Always(record(priorityStale), build.Accept())
	rules = slices.Concat(before, rules, jumps, checkEpoch(verdict, stale))
	second := slices.Concat(
		[]ruleset.Rule{build.When(build.Accept(), notStale())}, before, []ruleset.Rule{forget()}, jumps,
		checkEpoch(verdict, b.statements.refusal("policy changed twice")),
	)
	return append(chains,
		base(name, point, b.cfg.EgressPriority, rules...),
		base(name+suffixAgain, point, b.cfg.IngressPriority, second...))
}

// others accepts packets whose interfaces are not workloads', by their names.
func (b *baseChains) others(fields ...ruleset.Field) ruleset.Rule {
	var matches []ruleset.Match
	for _, f := range fields {
		matches = append(matches, b.noWorkload(f)...)
	}
	return build.When(build.Accept(), matches...)
}

// dropBlocked returns rules that drop packets from blocked addresses (for IIFName) and to them (for
// OIFName), established connections included. The policy of an endpoint that is up and has the same
// address decides about packets through its own interface. A master is no such interface: its
// packets are those of its ports.
func (b *baseChains) dropBlocked(fields ...ruleset.Field) (out []ruleset.Rule) {
	for _, f := range b.ports.families {
		for _, field := range fields {
			address := match.Saddr(f)
			if field == ruleset.OIFName {
				address = match.Daddr(f)
			}
			drops := func(through ruleset.Match) {
				out = append(out, b.statements.refusal(
					"interface of the endpoint is a port", match.OfFamily(f), build.InSet(setBlocked(f), address),
					through,
				))
			}
			drops(ruleset.Lookup{Fields: []ruleset.Field{field}, Not: true, Set: setUp})
			if len(b.ports.uppers) > 0 {
				drops(build.OneOf(field, ifnames(b.ports.uppers)...))
			}
		}
	}
	return out
}

func ifnames(names []string) (out []ruleset.Value) {
	for _, name := range names {
		out = append(out, ruleset.Ifname(name))
	}
	return out
}
