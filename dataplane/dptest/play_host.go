// SPDX-License-Identifier: Apache-2.0

package dptest

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

func (p *player) hostEndpointUpdate(e *dataplane.HostEndpointUpdate) string {
	if !p.complete {
		return "a host endpoint before the batch that carries in-sync" // S97
	}
	if msg := checkHostEndpoint(e.Key, e.HostEndpoint); msg != "" {
		return msg
	}
	h := e.HostEndpoint
	if msg := p.checkRefs(h.Profiles, listsOf(h)...); msg != "" {
		return msg
	}
	if msg := p.checkStages(h); msg != "" {
		return msg
	}
	if old, ok := p.state.HostEndpoints[e.Key]; ok {
		p.refs.host(old, -1)
	}
	p.refs.host(h, 1)
	p.state.HostEndpoints[e.Key] = h
	return ""
}

// listsOf returns all lists of tiers of a host endpoint.
func listsOf(h *dataplane.HostEndpoint) [][]dataplane.TierPolicies {
	return [][]dataplane.TierPolicies{
		h.Ingress, h.Egress, h.ForwardIngress, h.ForwardEgress, h.UntrackedIngress, h.UntrackedEgress, h.PreDNATIngress,
	}
}

// checkRefs checks that the policies and profiles exist that an endpoint refers to.
func (p *player) checkRefs(profiles []string, lists ...[]dataplane.TierPolicies) string {
	for k := range policiesOf(lists) {
		if _, ok := p.state.Policies[k]; !ok {
			return "refers to the absent policy " + k.String()
		}
	}
	for _, name := range profiles {
		if _, ok := p.state.Profiles[name]; !ok {
			return "refers to the absent profile " + name
		}
	}
	return ""
}

// checkStages checks that each policy is in the lists that it says it is for (S39).
func (p *player) checkStages(h *dataplane.HostEndpoint) string {
	for _, stage := range []struct {
		name  string
		lists [][]dataplane.TierPolicies
		fits  func(p *dataplane.Policy) bool
	}{
		{
			"tracked",
			[][]dataplane.TierPolicies{h.Ingress, h.Egress},
			func(p *dataplane.Policy) bool { return !p.Untracked && !p.PreDNAT },
		},
		{
			"forward",
			[][]dataplane.TierPolicies{h.ForwardIngress, h.ForwardEgress},
			func(p *dataplane.Policy) bool { return p.Forward && !p.Untracked && !p.PreDNAT },
		},
		{
			"untracked",
			[][]dataplane.TierPolicies{h.UntrackedIngress, h.UntrackedEgress},
			func(p *dataplane.Policy) bool { return p.Untracked },
		},
		{
			"pre-DNAT",
			[][]dataplane.TierPolicies{h.PreDNATIngress},
			func(p *dataplane.Policy) bool { return p.PreDNAT },
		},
	} {
		for k := range policiesOf(stage.lists) {
			if !stage.fits(p.state.Policies[k]) {
				return fmt.Sprintf("policy %s is not one for the %s list", k, stage.name)
			}
		}
	}
	return ""
}

func checkHostEndpoint(k policy.Key, h *dataplane.HostEndpoint) string {
	switch {
	case h == nil:
		return "no host endpoint"
	case k.Kind != policy.KindHostEndpoint || k.Name == "":
		return "the key is not one of a " + string(policy.KindHostEndpoint)
	case h.Interface == "" && len(h.Addresses) == 0:
		return "neither an interface nor addresses" // S102
	}
	if msg := checkAddresses(h.Addresses); msg != "" {
		return msg
	}
	if repeated(h.Profiles) {
		return "a profile twice"
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
	for i, a := range addrs {
		if !a.IsValid() || a.Is4In6() || a.Zone() != "" {
			return fmt.Sprintf("address %s is not canonical", a)
		}
		if i > 0 && addrs[i-1].Compare(a) >= 0 {
			return fmt.Sprintf("address %s: not sorted or not distinct", a)
		}
	}
	return ""
}

// checkSources checks the floating addresses of an endpoint and what else it may send from.
func checkSources(e *dataplane.Endpoint) string {
	for i, n := range e.NATs {
		if msg := checkAddresses([]netip.Addr{n.ExternalIP}) + checkAddresses([]netip.Addr{n.InternalIP}); msg != "" {
			return msg
		}
		if i > 0 &&
			cmp.Or(e.NATs[i-1].ExternalIP.Compare(n.ExternalIP), e.NATs[i-1].InternalIP.Compare(n.InternalIP)) >= 0 {
			return fmt.Sprintf("floating address %s: not sorted or not distinct", n.ExternalIP)
		}
	}
	for i, p := range e.AllowedSources {
		if msg := checkPrefix(p); msg != "" {
			return p.String() + ": " + msg
		}
		m := dataplane.Member{Prefix: p}
		if i > 0 && (dataplane.Member{Prefix: e.AllowedSources[i-1]}).Compare(m) >= 0 {
			return fmt.Sprintf("source %s: not sorted or not distinct", p)
		}
	}
	return ""
}
