// SPDX-License-Identifier: Apache-2.0

package felix_test

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// sentState returns the parts of a state that the protocol can send, as a driver's messages
// translate back.
func sentState(s dptest.State) dptest.State {
	out := s.Clone()
	out.InSync = false
	clear(out.Services)
	clear(out.Policies)
	clear(out.Pools)
	for key, p := range s.Policies {
		if !p.Staged {
			out.Policies[key] = &dataplane.Policy{
				Tier: p.Tier, Untracked: p.Untracked, PreDNAT: p.PreDNAT,
				Ingress: closed(p.Ingress), Egress: closed(p.Egress),
			}
		}
	}
	for name, p := range s.Profiles {
		out.Profiles[name] = &dataplane.Profile{Ingress: final(closed(p.Ingress)), Egress: final(closed(p.Egress))}
	}
	for key, e := range s.Endpoints {
		c := *e
		c.Ingress, c.Egress = enforced(s, e.Ingress), enforced(s, e.Egress)
		if e.Down {
			c.Ingress, c.Egress, c.Profiles = nil, nil, nil
		}
		out.Endpoints[key] = &c
	}
	for key, h := range s.HostEndpoints {
		c := *h
		for _, list := range []*[]dataplane.TierPolicies{
			&c.Ingress, &c.Egress, &c.ForwardIngress, &c.ForwardEgress, &c.UntrackedIngress, &c.UntrackedEgress,
			&c.PreDNATIngress,
		} {
			*list = enforced(s, *list)
		}
		out.HostEndpoints[key] = &c
	}
	maps.DeleteFunc(out.Tunnels, func(k dataplane.TunnelKey, _ *dataplane.Tunnel) bool {
		return k.Encapsulation == dataplane.EncapIPIP
	})
	for key, t := range out.Tunnels {
		c := *t
		c.Local = false
		out.Tunnels[key] = &c
	}
	for dst, r := range s.Routes {
		c := *r
		if c.Type == dataplane.RouteRemoteUnreachable {
			delete(out.Routes, dst)
			continue
		}
		switch c.Pool {
		case dataplane.PoolVXLANCrossSubnet:
			c.Pool = dataplane.PoolVXLAN
		case dataplane.PoolIPIPCrossSubnet:
			c.Pool = dataplane.PoolIPIP
		}
		out.Routes[dst] = &c
	}
	for name, n := range s.Nodes {
		c := &dataplane.Node{Name: name, Labels: n.Labels}
		for _, is4 := range []bool{true, false} {
			family := func(p netip.Prefix) bool { return p.Addr().Is4() == is4 }
			if i := slices.IndexFunc(n.Addresses, family); i >= 0 {
				c.Addresses = append(c.Addresses, n.Addresses[i])
			}
		}
		out.Nodes[name] = c
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(s.Pools))) {
		c := *s.Pools[name]
		c.Name, c.Disabled = c.CIDR.String(), false
		out.Pools[c.Name] = &c
	}
	return out
}

// enforced returns the tiers without policies that are staged.
func enforced(s dptest.State, tiers []dataplane.TierPolicies) (out []dataplane.TierPolicies) {
	for _, t := range tiers {
		var policies []policy.Key
		for _, key := range t.Policies {
			if !s.Policies[key].Staged {
				policies = append(policies, key)
			}
		}
		if len(policies) > 0 {
			out = append(out, dataplane.TierPolicies{Tier: t.Tier, DefaultAction: t.DefaultAction, Policies: policies})
		}
	}
	return out
}

// closed returns the rules as a driver gets them: rules that Felix does not have let no packet
// pass.
func closed(rules []dataplane.Rule) (out []dataplane.Rule) {
	for _, r := range rules {
		if contradictory(r) {
			continue
		}
		if family := familyOf(r); family != 0 {
			r.IPVersion = family
		}
		if missing(r) {
			if r.Action == policy.Allow || r.Action == policy.Log {
				continue
			}
			r.Action, r.DSCP, r.NotDSCP = policy.Deny, nil, nil
		}
		out = append(out, r)
	}
	return out
}

// final returns the rules of a profile as a driver gets them: Pass denies.
func final(rules []dataplane.Rule) []dataplane.Rule {
	for i := range rules {
		if rules[i].Action == policy.Pass {
			rules[i].Action = policy.Deny
		}
	}
	return rules
}

func familyOf(r dataplane.Rule) int {
	return map[policy.Protocol]int{policy.ProtocolICMP: 4, policy.ProtocolICMPv6: 6}[r.Protocol]
}

// contradictory reports whether a rule matches no packet, because its IP version does not have its
// protocol.
func contradictory(r dataplane.Rule) bool {
	return familyOf(r) != 0 && r.IPVersion != 0 && r.IPVersion != familyOf(r)
}

// missing reports whether Felix has no field for a match of a rule.
func missing(r dataplane.Rule) bool { return len(r.DSCP)+len(r.NotDSCP) > 0 && !contradictory(r) }

// withMissing returns the policies and profiles that have such rules.
func withMissing(s dptest.State) map[policy.Key]bool {
	out := map[policy.Key]bool{}
	for key, p := range s.Policies {
		out[key] = !p.Staged && (slices.ContainsFunc(p.Ingress, missing) || slices.ContainsFunc(p.Egress, missing))
	}
	for name, p := range s.Profiles {
		key := policy.Key{Kind: policy.KindProfile, Name: name}
		out[key] = slices.ContainsFunc(p.Ingress, missing) || slices.ContainsFunc(p.Egress, missing)
	}
	maps.DeleteFunc(out, func(_ policy.Key, there bool) bool { return !there })
	return out
}
