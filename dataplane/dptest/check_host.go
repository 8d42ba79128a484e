// SPDX-License-Identifier: Apache-2.0

package dptest

import (
	"cmp"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// listsOf returns all lists of tiers of a host endpoint.
func listsOf(h *dataplane.HostEndpoint) [][]dataplane.TierPolicies {
	return [][]dataplane.TierPolicies{
		h.Ingress, h.Egress, h.ForwardIngress, h.ForwardEgress, h.UntrackedIngress, h.UntrackedEgress, h.PreDNATIngress,
	}
}

// checkStages checks that each policy is in the lists of its flags (S39, S40). All policies
// must exist.
func (s *State) checkStages(e dataplane.Event) string {
	tracked := func(p *dataplane.Policy) bool { return !p.Untracked && !p.PreDNAT }
	check := func(fault string, fits func(p *dataplane.Policy) bool, lists ...[]dataplane.TierPolicies) string {
		for k := range policiesOf(lists) {
			if !fits(s.Policies[k]) {
				return "policy " + k.String() + " " + fault
			}
		}
		return ""
	}
	switch e := e.(type) {
	case *dataplane.EndpointUpdate:
		return check("applies to host endpoints only", tracked, e.Endpoint.Ingress, e.Endpoint.Egress)
	case *dataplane.HostEndpointUpdate:
		h := e.HostEndpoint
		forward := func(p *dataplane.Policy) bool { return p.Forward && tracked(p) }
		untracked := func(p *dataplane.Policy) bool { return p.Untracked }
		preDNAT := func(p *dataplane.Policy) bool { return p.PreDNAT }
		return cmp.Or(
			check("does not belong in the tracked list", tracked, h.Ingress, h.Egress),
			check("does not belong in the forward list", forward, h.ForwardIngress, h.ForwardEgress),
			check("does not belong in the untracked list", untracked, h.UntrackedIngress, h.UntrackedEgress),
			check("does not belong in the pre-DNAT list", preDNAT, h.PreDNATIngress),
		)
	}
	return ""
}

func checkHostEndpoint(k policy.Key, h *dataplane.HostEndpoint) string {
	switch {
	case h == nil:
		return "no host endpoint"
	case k.Kind != policy.KindHostEndpoint || k.Name == "":
		return "the key is not that of a " + string(policy.KindHostEndpoint)
	case h.Interface == "" && len(h.Addresses) == 0:
		return "neither an interface nor addresses" // S102
	}
	if msg := checkAddresses(h.Addresses); msg != "" {
		return msg
	}
	if repeated(h.Profiles) {
		return "duplicate profile"
	}
	for _, tiers := range listsOf(h) {
		if msg := checkTiers(tiers); msg != "" {
			return msg
		}
	}
	for _, tiers := range [][]dataplane.TierPolicies{h.UntrackedIngress, h.UntrackedEgress, h.PreDNATIngress} {
		for _, t := range tiers {
			if t.DefaultAction != policy.Pass {
				return "tier " + t.Tier + ": its default action is not Pass" // S36
			}
		}
	}
	return ""
}

// checkAddresses checks that addresses are canonical, sorted and distinct.
func checkAddresses(addrs []netip.Addr) string {
	for _, a := range addrs {
		if msg := checkAddr(a, a.Is4()); msg != "" {
			return msg
		}
	}
	return checkSorted("address", addrs, netip.Addr.Compare)
}

// checkSources checks the floating addresses and the AllowedSources of an endpoint.
func checkSources(e *dataplane.Endpoint) string {
	for _, n := range e.NATs {
		for _, a := range []netip.Addr{n.ExternalIP, n.InternalIP} {
			if msg := checkAddr(a, a.Is4()); msg != "" {
				return msg
			}
		}
	}
	for _, p := range e.AllowedSources {
		if msg := checkPrefix(p); msg != "" {
			return p.String() + ": " + msg
		}
	}
	return cmp.Or(
		checkSorted("floating address", e.NATs, func(a, b policy.IPNAT) int {
			return cmp.Or(a.ExternalIP.Compare(b.ExternalIP), a.InternalIP.Compare(b.InternalIP))
		}),
		checkSorted("source", e.AllowedSources, dataplane.ComparePrefixes),
	)
}
