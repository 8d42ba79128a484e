// SPDX-License-Identifier: Apache-2.0

package render

import (
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

const (
	// chainRelated decides about related packets: ICMP errors about a connection, and first packets
	// of expected connections. It checks the sender, and chainRelatedReceiver the receiver.
	chainRelated         = "related"
	chainRelatedReceiver = "related-receiver"
	// chainInvalid drops the invalid packets that policy must not see. It exists with KeepInvalid.
	chainInvalid = "invalid"
)

// ctStates maps the states of connections to verdicts, for packets that are decided before policy
// (S116, S117, S118, S169).
func ctStates(cfg *Config) *sets.ElementSet {
	s := sets.NewElementSet(ruleset.Set{Name: mapCtState, Key: []ruleset.Type{ruleset.TypeCtState}, Verdicts: true})
	add := func(state uint32, v ruleset.Verdict) { s.Put(sets.Element(&v, ruleset.Uint32(state))) }
	if cfg.Host.KeepInvalid {
		add(ruleset.CtInvalid, build.Jump(chainInvalid))
	} else {
		add(ruleset.CtInvalid, build.Drop())
	}
	add(ruleset.CtEstablished, build.Goto(chainAllowed))
	add(ruleset.CtRelated, build.Jump(chainRelated))
	return s
}

// invalidChain returns the chain for invalid packets that KeepInvalid leaves to policy.
func (b *baseChains) invalidChain() *ruleset.Chain {
	return &ruleset.Chain{Name: chainInvalid, Rules: []ruleset.Rule{b.statements.noFragments()}}
}

// relatedChains returns the chains for related packets (S169): ICMP errors about a connection, and
// first packets of connections that a helper expects.
//
// If a workload sends or receives a related packet, the workload must have one of the connection's
// addresses. Otherwise the packet returns, and policy decides. So no workload can inject errors
// into connections of others, even if its policy allows ICMP. At other interfaces, related packets
// are accepted, because any router on the way may send them.
//
// At a bridge, the connection's address must belong to the same endpoint as an address of the
// packet. For the sender, that is the packet's source, and for the receiver the packet's
// destination.
func (b *baseChains) relatedChains() []*ruleset.Chain {
	next, known := chainRelatedReceiver, build.Goto(chainAllowed)
	sender := []ruleset.Rule{build.When(build.Goto(next), noEndpoint(ruleset.IIFName))}
	receiver := []ruleset.Rule{build.When(known, noEndpoint(ruleset.OIFName))}
	for _, f := range sets.Families() {
		for _, end := range connectionAddrs(f) {
			from, to := build.InSet(sourceSet(f), ruleset.IIFName, end), build.InSet(sourceSet(f), ruleset.OIFName, end)
			sender = append(sender, build.When(build.Goto(next), append(b.exceptBridges(ruleset.IIFName), from)...))
			receiver = append(receiver, build.When(known, append(b.exceptBridges(ruleset.OIFName), to)...))
			if len(b.cfg.Bridges) == 0 {
				continue
			}
			own := func(field, address ruleset.Field) []ruleset.Match {
				return []ruleset.Match{match.OfFamily(f), build.InSet(setBridgeOwn(f), field, address, end)}
			}
			sender = append(sender, build.When(build.Goto(next), own(ruleset.IIFName, match.Saddr(f))...))
			receiver = append(receiver, build.When(known, own(ruleset.OIFName, match.Daddr(f))...))
		}
	}
	return []*ruleset.Chain{{Name: chainRelated, Rules: sender}, {Name: next, Rules: receiver}}
}

// noEndpoint matches interfaces that no workload has. It also matches packets without an interface.
func noEndpoint(field ruleset.Field) ruleset.Match {
	return ruleset.Lookup{Fields: []ruleset.Field{field}, Not: true, Set: setEndpoints}
}

// connectionAddrs returns the addresses of a connection in both directions. With NAT, these differ.
func connectionAddrs(f sets.Family) []ruleset.Field {
	if f == sets.IPv4 {
		return []ruleset.Field{
			ruleset.CtOriginalSaddr, ruleset.CtOriginalDaddr, ruleset.CtReplySaddr, ruleset.CtReplyDaddr,
		}
	}
	return []ruleset.Field{
		ruleset.CtOriginalSaddr6, ruleset.CtOriginalDaddr6, ruleset.CtReplySaddr6, ruleset.CtReplyDaddr6,
	}
}
