// SPDX-License-Identifier: Apache-2.0

package render

import (
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// hostBaseChains makes the base chains of host endpoints.
type hostBaseChains struct {
	cfg        *Config
	statements *statements
	failsafes  *failsafes
}

// hostScope has the host endpoints that the base chains are for.
type hostScope struct {
	// subjects are in the order of their keys.
	subjects []*subject
	// byAddress is set if one of them is found by address.
	byAddress bool
}

// chain returns the base chain of one list, or nil if no host endpoint has policy there. It
// dispatches packets to the chain of the host endpoint that governs their interface.
func (b *hostBaseChains) chain(l hostList, scope hostScope) *ruleset.Chain {
	star := scope.forAll()
	governed := scope.byAddress && !l.early()
	for _, s := range scope.subjects {
		governed = governed || s.governed[l]
	}
	if !governed {
		return nil
	}
	rules := b.before(l)
	if l == hostPreDNAT && star != nil && star.governed[l] { // S105
		rules = append(rules, b.atWorkloads(l, build.Goto(l.chain(star)))...)
	}
	if l.early() {
		rules = append(rules, b.failsafes.raw(l)...)
	}
	rules = append(rules, build.Dispatch(hostMap(l), l.field()),
		// Only packets on the previous generation get here, as when a new chain is empty to them.
		b.statements.refusal("host endpoint being changed", build.InSet(setHostGoverned, l.field())))
	if star != nil && star.governed[l] || scope.byAddress {
		other := build.Accept()
		if (l == hostForwardIn || l == hostForwardOut) && star != nil && star.governed[l] { // S110
			other = build.Goto(l.chain(star))
		}
		rules = append(rules, build.When(build.Accept(), build.Equals(l.field(), ruleset.Ifname(loopback))))
		rules = append(rules, b.atWorkloads(l, other)...)
	}
	if scope.byAddress {
		rules = append(rules, b.statements.refusal("addresses of the interface are not known",
			ruleset.Lookup{Fields: []ruleset.Field{l.field()}, Not: true, Set: setHostInterfaces}))
	}
	switch {
	case star == nil: // matches only on the previous generation, while such an endpoint is added
		added := build.InSet(setHostAll, ruleset.NFProto)
		rules = append(rules, b.statements.refusal("host endpoint being changed", added))
	case star.governed[l]:
		rules = append(rules, build.Always(build.Goto(l.entry(star))))
	}
	point, priority := l.hook(b.cfg)
	return base(l.name(), point, priority, rules...)
}

// before is what comes before the policy of all host endpoints.
func (b *hostBaseChains) before(l hostList) []ruleset.Rule {
	if l == hostRawOutDNAT {
		return append(ownTranslated(), build.When(build.Accept(), build.Equals(
			ruleset.CtDirection, ruleset.Byte(ruleset.DirectionReply),
		)))
	}
	rules := b.allowances(l)
	if l == hostOut {
		rules = append(rules, translated(build.Accept()))
	}
	return rules
}

// atWorkloads decides for the interfaces of workloads.
func (b *hostBaseChains) atWorkloads(l hostList, v ruleset.Verdict) []ruleset.Rule {
	return []ruleset.Rule{
		build.When(v, build.InSet(setEndpoints, l.field())),
		build.When(build.Accept(), build.Equals(l.field(), ruleset.IfnamePrefix(b.cfg.InterfacePrefix))),
	}
}

// outDNAT returns the base chain that does the same as that of hostOut, for packets whose
// destination was translated: the outgoing interface is known only after routing.
func (b *hostBaseChains) outDNAT(out *ruleset.Chain) *ruleset.Chain {
	if out == nil {
		return nil
	}
	rules := append(ownTranslated(), out.Rules[len(b.before(hostOut)):]...)
	return base(chainHostOutDNAT, ruleset.Postrouting, b.cfg.IngressPriority, rules...)
}

// allowances lets through what the host and its neighbours need to find each other, in either
// direction: nothing that is forwarded, as far as that is known.
func (b *hostBaseChains) allowances(l hostList) []ruleset.Rule {
	if b.cfg.DenyNeighbourDiscovery || l == hostForwardIn || l == hostForwardOut {
		return nil
	}
	rule := discovery(
		build.Accept(), routerSolicitation, routerAdvertisement, neighborSolicitation, neighborAdvertisement,
	)
	if l == hostRawIn || l == hostPreDNAT {
		rule.Matches = append(rule.Matches, build.OneOf(
			ruleset.FibDaddrType, ruleset.Uint32(ruleset.FibTypeLocal), ruleset.Uint32(ruleset.FibTypeMulticast),
		))
	}
	return []ruleset.Rule{rule}
}

// forAll returns the host endpoint for all interfaces that counts, or nil (S123).
func (h hostScope) forAll() *subject {
	for _, s := range h.subjects {
		if s.host.Interface == policy.AllInterfaces {
			return s
		}
	}
	return nil
}
