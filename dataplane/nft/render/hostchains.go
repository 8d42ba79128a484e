// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/outcome"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// hostChains makes the chains that jump to the chains of host endpoints.
type hostChains struct {
	cfg        *Config
	statements *statements
	verdicts   *verdicts
	failsafes  *failsafes
}

// hostOrder has the host endpoints for which hostChains makes chains.
type hostOrder struct {
	// subjects are in the order of their keys.
	subjects []*subject
	// byAddress is set if one of them governs interfaces by their addresses: it has no interface
	// name.
	byAddress bool
}

// hostState has the values of host endpoints on which base chains depend.
type hostState struct {
	enforced  [hostListCount]bool
	byAddress bool
}

// state returns the values on which base chains depend.
func (h hostOrder) state() (out hostState) {
	out.byAddress = h.byAddress
	for l := range hostListCount {
		out.enforced[l] = h.byAddress && !l.partial() ||
			slices.ContainsFunc(h.subjects, func(s *subject) bool { return s.enforced[l] })
	}
	return out
}

// sharesAddresses reports whether policy of host endpoints may look up an address of a packet that
// other policy also looks up. The other policy is policy of workloads, or of another stage.
func (h hostState) sharesAddresses() bool {
	return slices.Contains(h.enforced[hostForwardIn:], true)
}

// forAll returns the first host endpoint for all interfaces, or nil. Any others of this kind are
// ignored (S123).
func (h hostOrder) forAll() *subject {
	for _, s := range h.subjects {
		if s.host.Interface == policy.AllInterfaces {
			return s
		}
	}
	return nil
}

// dispatch returns the chain of a list, which leads a packet to the chain of the host endpoint that
// governs its interface. A packet returns with a decision of policy, or without one if no host
// endpoint governs its interface.
func (b *hostChains) dispatch(l hostList, order hostOrder) *ruleset.Chain {
	star := order.forAll()
	rules := []ruleset.Rule{build.When(build.Return(), denied()), forget()}
	if l == hostIn || l == hostOut {
		rules = append(rules, b.discovery(build.Goto(chainAllowed))...)
	}
	if l == hostPreDNAT && star != nil && star.enforced[l] { // S105
		rules = append(rules, b.atWorkloads(l, build.Goto(l.chain(star)))...)
	}
	if l.partial() {
		rules = append(rules, b.failsafes.raw(l, build.Return())...)
	}
	rules = append(rules, build.Dispatch(hostMap(l), l.field()), returnDecided())
	if l.partial() {
		rules = append(rules, build.When(build.Return(), undecided()))
	}
	// Only a packet on the previous generation reaches this rule: to that packet, a new chain is
	// empty.
	governed := build.InSet(setHostGoverned, l.field())
	rules = append(rules, b.statements.recordRefusal("host endpoint being changed", governed))
	if star != nil && star.enforced[l] || order.byAddress {
		other := build.Return()
		if (l == hostForwardIn || l == hostForwardOut) && star != nil && star.enforced[l] { // S110
			other = build.Goto(l.chain(star))
		}
		rules = append(rules, build.When(build.Return(), build.Equals(l.field(), ruleset.Ifname(loopback))))
		rules = append(rules, b.atWorkloads(l, other)...)
	}
	if order.byAddress {
		rules = append(rules, b.statements.recordRefusal("addresses of the interface are not known",
			ruleset.Lookup{Fields: []ruleset.Field{l.field()}, Not: true, Set: setHostInterfaces}))
	}
	if star != nil && star.enforced[l] {
		rules = append(rules, build.Always(build.Goto(l.entry(star))))
	}
	return &ruleset.Chain{Name: l.name(), Rules: rules}
}

// undecided matches packets that untracked or pre-DNAT policy leaves to later stages.
func undecided() ruleset.Match {
	return build.Equals(outcome.Register, ruleset.Uint32(priorityUndecided))
}

// base returns the base chains of a partial list.
func (b *hostChains) base(l hostList) []*ruleset.Chain {
	p := l.partialBase()
	if p.verdict == "" {
		p.verdict = b.verdicts.silent()
	}
	if l == hostRawOutDNAT {
		p.before = append(ownTranslated(), build.When(build.Accept(), build.Equals(
			ruleset.CtDirection, ruleset.Byte(ruleset.DirectionReply),
		)))
	} else {
		p.before = b.discovery(build.Accept())
		if !l.out() && len(p.before) > 0 {
			p.before[0].Matches = append(p.before[0].Matches, build.OneOf(
				ruleset.FibDaddrType, ruleset.Uint32(ruleset.FibTypeLocal), ruleset.Uint32(ruleset.FibTypeMulticast),
			))
		}
	}
	p.jumps = []ruleset.Rule{build.Always(build.Jump(l.name()))}
	return b.verdicts.policed(p)
}

// atWorkloads returns rules with the given verdict for interfaces of workloads. For unknown
// interfaces with the prefix, they return.
func (b *hostChains) atWorkloads(l hostList, v ruleset.Verdict) []ruleset.Rule {
	return []ruleset.Rule{
		build.When(v, build.InSet(setEndpoints, l.field())),
		build.When(build.Return(), build.Equals(l.field(), ruleset.IfnamePrefix(b.cfg.InterfacePrefix))),
	}
}

// discovery returns the rule with the given verdict for neighbour discovery of the host, in both
// directions.
func (b *hostChains) discovery(v ruleset.Verdict) []ruleset.Rule {
	if b.cfg.DenyNeighbourDiscovery {
		return nil
	}
	return []ruleset.Rule{discovery(
		v, routerSolicitation, routerAdvertisement, neighborSolicitation, neighborAdvertisement,
	)}
}
