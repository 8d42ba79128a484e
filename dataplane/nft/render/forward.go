// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/outcome"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// All normal policy of a hook is in one base chain. So one check of the epoch at its end covers all
// of this policy: of sender and receiver, of workloads and host endpoints.
//
//	forward ──▶ jump sender ──▶ jump from/...    policy of the workload that sends, if one does
//	        ──▶ jump receiver ──▶ jump to/...    policy of the workload that receives, if one does
//	        ──▶ jump host-forward-in, host-forward-out    policy of host endpoints, if any
//	        ──▶ in set epoch: goto verdict       carries out the decision
//
// The hooks input and output have the same structure with fewer jumps.
//
// No chain below the base chain drops or accepts by policy, because a delayed packet may use newer
// rules there than in the base chain. A chain that decides records the decision in the packet's
// priority (priorityAllowed, chain denied) and returns. Chains that jump to policy return as well
// (returnDecided), up to the base chain.
//
// To a packet on the previous generation, a new from/... chain is empty, so the packet returns
// without a decision. The chain sender or receiver then records that it is denied. This has no
// effect, because the packet is stale. The base chain does not carry the decision out, and its
// -again chain evaluates the packet again.
const (
	chainForward  = "forward"
	chainSender   = "sender"
	chainReceiver = "receiver"
	chainAllowed  = "allowed"
	chainDenied   = "denied"
	// chainRefused records that a packet is denied for a reason other than policy, so it is not
	// answered. The chain exists if Config.Reject is set. Otherwise chainDenied takes its place.
	chainRefused = "refused"
)

// decisionChains returns the chains that record in a packet that it is allowed, denied or refused.
func (b *baseChains) decisionChains() []*ruleset.Chain {
	chains := []*ruleset.Chain{
		{Name: chainAllowed, Rules: []ruleset.Rule{build.Always(record(priorityAllowed))}},
		{Name: chainDenied, Rules: []ruleset.Rule{build.Always(record(priorityDenied), build.Return())}},
	}
	if b.cfg.Reject {
		chains = append(chains, &ruleset.Chain{
			Name: chainRefused, Rules: []ruleset.Rule{build.Always(record(priorityRefused), build.Return())},
		})
	}
	return chains
}

// forwardChains returns the base chains for forwarded packets and the chains that all hooks share.
func (b *baseChains) forwardChains() []*ruleset.Chain {
	hosts := b.hostJumps(hostForwardIn, hostForwardOut)
	before := b.dropBlocked(ruleset.IIFName, ruleset.OIFName)
	known := b.acceptsKnown()
	if known {
		before = append(before, b.known()...)
	}
	others := b.others(ruleset.IIFName, ruleset.OIFName)
	switch {
	case len(hosts) > 0: // the policy of host endpoints allows known connections
		others.Matches = append(others.Matches, established())
	case !known: // the rules up to this one look up several sets, which could be of two states
		others.Matches = append(others.Matches, build.InSet(setEpoch, ruleset.NFProto))
	}
	if known || len(hosts) == 0 {
		before = append(before, others)
	}
	before = append(before, b.discoveryOnBridges()...)
	chains := b.policed(basePolicy{
		name: chainForward, point: ruleset.Forward, verdict: chainVerdict, before: before,
		jumps: slices.Concat(
			b.jumpsTo(chainSender, ruleset.IIFName), b.jumpsTo(chainReceiver, ruleset.OIFName), hosts,
		),
	})
	return slices.Concat(chains, b.sideChains(), b.decisionChains(), b.verdicts.chains())
}

// acceptsKnown reports whether the base chain forward begins with the rules of known.
func (b *baseChains) acceptsKnown() bool {
	return len(b.ports.families) == 0 && !b.unprefixed && !b.host.byAddress
}

// known returns the rules that accept packets of established connections without the chains of
// endpoints. There are rules for packets to a workload that is up, from one, and between two. They
// come first and make few lookups. Their sets could be of different states, or of a newer state
// than the rules. So each rule also checks the epoch; only a rule of a base chain can do that.
func (b *baseChains) known() (rules []ruleset.Rule) {
	accept := func(parts ...[]ruleset.Match) {
		matches := slices.Concat(append([][]ruleset.Match{{established()}}, parts...)...)
		rules = append(rules, build.When(build.Accept(), append(matches, build.InSet(setEpoch, ruleset.NFProto))...))
	}
	up := []ruleset.Match{build.InSet(setUp, ruleset.OIFName)}
	toBridged := func(from func(sets.Family) []ruleset.Match) {
		for _, f := range sets.Families() {
			if len(b.cfg.Bridges) > 0 {
				accept(b.bridged(f), from(f))
			}
		}
	}
	accept(b.noWorkload(ruleset.IIFName), up)
	toBridged(func(sets.Family) []ruleset.Match { return b.noWorkload(ruleset.IIFName) })
	if b.cfg.ReversePath {
		return rules
	}
	for _, f := range sets.Families() { // the match on the family comes first because it is the cheapest
		accept([]ruleset.Match{match.OfFamily(f)}, b.noWorkload(ruleset.OIFName), []ruleset.Match{ownAddress(f)})
	}
	for _, f := range sets.Families() {
		accept([]ruleset.Match{match.OfFamily(f), ownAddress(f)}, up)
	}
	toBridged(func(f sets.Family) []ruleset.Match { return []ruleset.Match{ownAddress(f)} })
	return rules
}

// established matches packets of established connections.
func established() ruleset.Match {
	return build.State(ruleset.CtEstablished)
}

// ownAddress matches packets of a family from a workload that is up, with an own address as source.
func ownAddress(f sets.Family) ruleset.Match {
	return build.InSet(sourceSet(f), ruleset.IIFName, match.Saddr(f))
}

// jumpsTo returns the jump to policy of the workload at one side of a packet.
func (b *baseChains) jumpsTo(chain string, field ruleset.Field) []ruleset.Rule {
	if b.unprefixed {
		return []ruleset.Rule{build.Always(build.Jump(chain))}
	}
	prefix := ruleset.IfnamePrefix(b.cfg.InterfacePrefix)
	rules := []ruleset.Rule{build.When(build.Jump(chain), build.Equals(field, prefix))}
	if len(b.cfg.Bridges) > 0 {
		rules = append(rules, build.When(build.Jump(chain), b.onBridge(field)))
	}
	return rules
}

// noWorkload matches interfaces that no workload has and whose names lack the prefix of workloads.
func (b *baseChains) noWorkload(field ruleset.Field) []ruleset.Match {
	prefix := ruleset.IfnamePrefix(b.cfg.InterfacePrefix)
	matches := []ruleset.Match{ruleset.Compare{Field: field, Not: true, Value: prefix}}
	matches = append(matches, b.exceptBridges(field)...)
	if b.unprefixed {
		matches = append(matches, noEndpoint(field))
	}
	return matches
}

// sideChains returns the chains sender and receiver, which jump to the policy of the workload on
// that side. A packet returns with a decision, unless its interface is not a workload's. Such a
// packet enters these chains only if some endpoint's interface lacks the prefix.
func (b *baseChains) sideChains() []*ruleset.Chain {
	side := func(
		name, endpoints string, dir match.Direction, field ruleset.Field, before ...ruleset.Rule,
	) *ruleset.Chain {
		rules := append(append(before, build.Dispatch(endpoints, field)), b.dispatchBridged(field)...)
		rules = append(rules, outcome.Dispatch(dir), returnDecided())
		rules = append(rules, b.refuseUnowned(b.statements.recordRefusal, field)...)
		rules = append(rules, b.notUp(b.statements.recordRefusal, field)...)
		return &ruleset.Chain{Name: name, Rules: rules}
	}
	var before []ruleset.Rule
	if b.cfg.ReversePath {
		noRoute := build.Equals(ruleset.FibSource, ruleset.Byte(0))
		ours := build.InSet(setEndpoints, ruleset.IIFName)
		before = append(before, b.statements.refusal("false way back", ours, noRoute))
	}
	return []*ruleset.Chain{
		side(chainSender, mapFrom, match.Egress, ruleset.IIFName, before...),
		side(chainReceiver, mapTo, match.Ingress, ruleset.OIFName,
			build.When(build.Return(), denied()), forget()),
	}
}

// policed returns a base chain with policy, at the configured priority: see verdicts.policed.
func (b *baseChains) policed(p basePolicy) []*ruleset.Chain {
	p.priority, p.againPriority = b.cfg.EgressPriority, b.cfg.IngressPriority
	return b.verdicts.policed(p)
}

// hostJumps returns the jumps to those of the lists in which a host endpoint enforces policy.
func (b *baseChains) hostJumps(lists ...hostList) (rules []ruleset.Rule) {
	for _, l := range lists {
		if b.host.enforced[l] {
			rules = append(rules, build.Always(build.Jump(l.name())))
		}
	}
	return rules
}

// ofHost accepts packets of the host itself whose interface is no workload's. The parameter hosts
// has the jumps to policy of host endpoints. If there are none, ofHost accepts all such packets.
// Otherwise ofHost accepts only such packets of known connections. With hosts, it returns no rule
// if the name of the interface does not show which endpoint's policy applies.
func (b *baseChains) ofHost(field ruleset.Field, hosts []ruleset.Rule) []ruleset.Rule {
	others := b.others(field)
	if len(hosts) > 0 {
		if b.host.byAddress || b.unprefixed {
			return nil
		}
		others.Matches = append(others.Matches, established())
	}
	return []ruleset.Rule{others}
}

// others accepts packets none of whose given interfaces is a workload's.
func (b *baseChains) others(fields ...ruleset.Field) ruleset.Rule {
	var matches []ruleset.Match
	for _, f := range fields {
		matches = append(matches, b.noWorkload(f)...)
	}
	return build.When(build.Accept(), matches...)
}

// dropBlocked returns rules that drop packets from blocked addresses (for IIFName) and to them (for
// OIFName), including established connections. If an endpoint that is up has the same address,
// packets through its own interface or bridge are left to its policy. Packets through any other
// master drop, because they are those of its ports.
func (b *baseChains) dropBlocked(fields ...ruleset.Field) (out []ruleset.Rule) {
	for _, f := range b.ports.families {
		for _, field := range fields {
			address := match.Saddr(f)
			if field == ruleset.OIFName {
				address = match.Daddr(f)
			}
			drops := func(through ...ruleset.Match) {
				matches := []ruleset.Match{match.OfFamily(f), build.InSet(setBlocked(f), address)}
				out = append(out, b.statements.refusal(
					"interface of the endpoint is a port", append(matches, through...)...,
				))
			}
			notUp := ruleset.Lookup{Fields: []ruleset.Field{field}, Not: true, Set: setUp}
			drops(append([]ruleset.Match{notUp}, b.exceptBridges(field)...)...)
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
