// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// S173: the only host endpoint with untracked or pre-DNAT policy loses this policy and gets it
// again. So the base chain of the policy is deleted and added. The policy decides about neither
// flow: in both states, normal policy allows one and denies the other. No allowed packet is lost.
func TestWireLastPolicyOfHookLosesNothing(t *testing.T) {
	nfttest.EachForm(t, testWireLastPolicyOfHookLosesNothing)
}

func testWireLastPolicyOfHookLosesNothing(t *testing.T, classes render.ClassesConfig) {
	for _, prefixes := range []bool{false, true} { // then the change uses shadows
		t.Run(fmt.Sprintf("prefixes %t", prefixes), func(t *testing.T) {
			eachStage(t, func(t *testing.T, n *floodNet, m hostMoment, family int) {
				first, second := withStage(m, family, floodForbidden, 9, 10), withStage(m, family, floodForbidden)
				if prefixes {
					first.Sets["s:other"] = netMembers(otherNets(20)...)
					second.Sets["s:other"] = netMembers(otherNets(21)...)
				}
				n.oneMoment(t, render.Config{Classes: classes}, first, second, false, wireRounds(6, 300), nil)
			})
		})
	}
}

// withStage is the shop with a host endpoint, whose normal policy denies a port. If other ports are
// given, it also has the policy of the hostMoment, which denies these.
func withStage(m hostMoment, family int, normalPort uint16, stagePorts ...uint16) dptest.State {
	s := shop()
	port := func(port uint16) dataplane.Rule {
		r := dataplane.Rule{
			ID: "port", Action: policy.Deny, Protocol: policy.ProtocolUDP, Source: set("s:from"),
		}
		r.Destination.Ports = nfttest.PortList(policy.PortNumber(port))
		return r
	}
	put := func(name string, rules ...dataplane.Rule) (*dataplane.Policy, []dataplane.TierPolicies) {
		p := &dataplane.Policy{Tier: "default", Ingress: rules, Egress: rules}
		s.Policies[nfttest.PolicyKey(name)] = p
		return p, []dataplane.TierPolicies{{
			Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{nfttest.PolicyKey(name)},
		}}
	}
	s.Sets["s:from"] = members(m.from(family).String(), "192.0.2.7", "2001:db8::7")
	s.Sets["s:other"] = netMembers(otherNets(22)...)
	other := port(11)
	other.Source = set("s:other")
	_, normal := put("normal", port(normalPort), other, nfttest.AllowAll("rest"))
	h := &dataplane.HostEndpoint{
		Interface: "eth0", Ingress: normal, Egress: normal, ForwardIngress: normal, ForwardEgress: normal,
	}
	if len(stagePorts) > 0 {
		var rules []dataplane.Rule
		for _, p := range stagePorts {
			rules = append(rules, port(p))
		}
		p, tiers := put("stage", rules...)
		m.apply(h, p, tiers)
	}
	s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}] = h
	return s
}

// otherNets returns prefixes of both families that do not contain the addresses of the flow.
func otherNets(third byte) []netip.Prefix {
	return []netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, third, 0}), 24),
		netip.MustParsePrefix(fmt.Sprintf("2001:db8:%x::/48", third)),
	}
}
