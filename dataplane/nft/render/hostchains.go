// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/outcome"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// hostChains makes the chains that lead to the chains of host endpoints.
type hostChains struct {
	cfg        *Config
	statements *statements
	verdicts   *verdicts
	failsafes  *failsafes
}

// hostScope has the host endpoints that the chains are for.
type hostScope struct {
	// subjects are in the order of their keys.
	subjects []*subject
	// byAddress is set if one of them is found by address.
	byAddress bool
}

// hostState says which lists of host endpoints base chains jump to. byAddress is that of hostScope.
type hostState struct {
	governed  [hostListCount]bool
	byAddress bool
}

// state returns what base chains depend on.
func (h hostScope) state() (out hostState) {
	out.byAddress = h.byAddress
	for _, l := range hostLists() {
		out.governed[l] = h.byAddress && !l.early() ||
			slices.ContainsFunc(h.subjects, func(s *subject) bool { return s.governed[l] })
	}
	return out
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

// list returns the chain that leads packets to the chain of the host endpoint that governs their
// interface. It returns for packets that policy decides about, and for those that none governs.
func (b *hostChains) list(l hostList, scope hostScope) *ruleset.Chain {
	star := scope.forAll()
	rules := []ruleset.Rule{build.When(build.Return(), denied()), forget()}
	if l == hostIn || l == hostOut {
		rules = append(rules, b.discovery(build.Goto(chainAllowed))...)
	}
	if l == hostPreDNAT && star != nil && star.governed[l] { // S105
		rules = append(rules, b.atWorkloads(l, build.Goto(l.chain(star)))...)
	}
	if l.early() {
		rules = append(rules, b.failsafes.raw(l, build.Return())...)
	}
	rules = append(rules, build.Dispatch(hostMap(l), l.field()), returnDecided())
	if l.early() {
		rules = append(rules, build.When(build.Return(), passedOn()))
	}
	// Only packets on the previous generation get here, as when a new chain is empty to them.
	rules = append(rules, b.statements.refusal("host endpoint being changed", build.InSet(setHostGoverned, l.field())))
	if star != nil && star.governed[l] || scope.byAddress {
		other := build.Return()
		if (l == hostForwardIn || l == hostForwardOut) && star != nil && star.governed[l] { // S110
			other = build.Goto(l.chain(star))
		}
		rules = append(rules, build.When(build.Return(), build.Equals(l.field(), ruleset.Ifname(loopback))))
		rules = append(rules, b.atWorkloads(l, other)...)
	}
	if scope.byAddress {
		rules = append(rules, b.statements.refusal("addresses of the interface are not known",
			ruleset.Lookup{Fields: []ruleset.Field{l.field()}, Not: true, Set: setHostInterfaces}))
	}
	if star != nil && star.governed[l] {
		rules = append(rules, build.Always(build.Goto(l.entry(star))))
	}
	return &ruleset.Chain{Name: l.name(), Rules: rules}
}

// passedOn matches packets that early policy leaves to later stages.
func passedOn() ruleset.Match { return build.Equals(outcome.Register, ruleset.Uint32(priorityPassed)) }

// base returns the base chains of an early list.
func (b *hostChains) base(l hostList) []*ruleset.Chain {
	p := l.earlyBase()
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

// atWorkloads decides for the interfaces of workloads.
func (b *hostChains) atWorkloads(l hostList, v ruleset.Verdict) []ruleset.Rule {
	return []ruleset.Rule{
		build.When(v, build.InSet(setEndpoints, l.field())),
		build.When(build.Return(), build.Equals(l.field(), ruleset.IfnamePrefix(b.cfg.InterfacePrefix))),
	}
}

// discovery decides about neighbour discovery between the host and its neighbours, in either direction.
func (b *hostChains) discovery(v ruleset.Verdict) []ruleset.Rule {
	if b.cfg.DenyNeighbourDiscovery {
		return nil
	}
	return []ruleset.Rule{discovery(
		v, routerSolicitation, routerAdvertisement, neighborSolicitation, neighborAdvertisement,
	)}
}
