// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// S173: a denial moves between untracked or pre-DNAT policy of a host endpoint and normal policy. A
// packet traverses them in two base chains. Between these, a chain of another table delays it.
func TestWireOneMomentBetweenStages(t *testing.T) {
	nfttest.EachForm(t, testWireOneMomentBetweenStages)
}

func testWireOneMomentBetweenStages(t *testing.T, classes render.ClassesConfig) {
	for _, prefixes := range []bool{false, true} { // then the change uses shadows
		t.Run(fmt.Sprintf("prefixes %t", prefixes), func(t *testing.T) {
			eachStage(t, func(t *testing.T, n *floodNet, m hostMoment, family int) {
				n.delayBetweenStages(t)
				first, second := deniedInStage(m, family, true), deniedInStage(m, family, false)
				if prefixes {
					first.Sets["s:other"] = netMembers(otherNets(20)...)
					second.Sets["s:other"] = netMembers(otherNets(21)...)
				}
				n.oneMoment(t, render.Config{Classes: classes}, first, second, false, wireRounds(8, 2500), nil)
			})
		})
	}
}

// eachStage runs a subtest for each kind of untracked and pre-DNAT policy and each family, with a
// flood that traverses this policy.
func eachStage(t *testing.T, run func(t *testing.T, n *floodNet, m hostMoment, family int)) {
	for _, m := range hostMoments()[5:] {
		for family, name := range []string{"IPv4", "IPv6"} {
			t.Run(m.name+" "+name, func(t *testing.T) {
				n := newFloodRouter(t)
				n.uplink(t)
				own(t, n.node, nodeAddr(family))
				n.flood(t, m.from(family), m.to(family), family)
				run(t, n, m, family)
			})
		}
	}
}

// setRules gives a policy other rules, in each direction that it may have.
func setRules(s dptest.State, name string, rules ...dataplane.Rule) {
	key := nfttest.PolicyKey(name)
	p := *s.Policies[key]
	p.Ingress = rules
	if p.Egress = rules; p.PreDNAT {
		p.Egress = nil
	}
	s.Policies[key] = &p
}

// S173: a denial moves from untracked to pre-DNAT policy and back.
func TestWireOneMomentOfUntrackedAndPreDNAT(t *testing.T) {
	stages := hostMoments()
	for family, name := range []string{"IPv4", "IPv6"} {
		t.Run(name, func(t *testing.T) {
			n := newFloodRouter(t)
			n.uplink(t)
			n.flood(t, uplinkAddr(family), floodTarget(family), family)
			both := func(untracked bool) dptest.State {
				s := deniedInStage(stages[5], family, untracked)
				other := deniedInStage(stages[7], family, !untracked)
				key := policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}
				h := *s.HostEndpoints[key]
				stage := nfttest.PolicyKey("pre-DNAT")
				s.Policies[stage] = other.Policies[nfttest.PolicyKey("stage")]
				s.Policies[nfttest.PolicyKey("normal")] = &dataplane.Policy{
					Tier: "default", Ingress: []dataplane.Rule{nfttest.AllowAll("rest")},
				}
				h.PreDNATIngress = []dataplane.TierPolicies{
					{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{stage}},
				}
				s.HostEndpoints[key] = &h
				return s
			}
			n.oneMoment(t, render.Config{}, both(true), both(false), false, wireRounds(8, 2500), nil)
		})
	}
}

// uplink adds the interface eth0, with the uplinkAddr of both families behind it.
func (n *floodNet) uplink(t *testing.T) {
	t.Helper()
	w := nstest.NewWorkload(t, n.node, "eth0", uplinkAddr(0).String(), uplinkAddr(1).String())
	n.workloads = append(n.workloads, w)
	n.route(t, uplinkAddr(0), 2)
	n.route(t, uplinkAddr(1), 2)
}

// delayBetweenStages adds chains of another table behind each stage of policy except the last one.
// Each chain is a transaction: an ordinary user's may not be large.
func (n *floodNet) delayBetweenStages(t *testing.T) {
	t.Helper()
	for i, hook := range []string{"prerouting priority -290", "prerouting priority -110", "output priority -290"} {
		nstest.NFT(t, n.node, fmt.Sprintf(
			"table inet slow { chain c%d { type filter hook %s; %s }; }", i, hook,
			strings.Repeat("udp dport 11 counter; ", 300),
		), "-f", "-")
	}
}

// deniedInStage is withStage, where the policy of the hostMoment or normal policy denies the
// forbidden port.
func deniedInStage(m hostMoment, family int, stage bool) dptest.State {
	if stage {
		return withStage(m, family, 9, floodForbidden)
	}
	return withStage(m, family, floodForbidden, 9)
}

// S173: a permission moves between untracked or pre-DNAT policy of a host endpoint and normal
// policy. A permission that moves to untracked policy does not help packets that have passed that
// stage.
func TestWirePermissionBetweenStages(t *testing.T) {
	nfttest.EachForm(t, testWirePermissionBetweenStages)
}

func testWirePermissionBetweenStages(t *testing.T, classes render.ClassesConfig) {
	eachStage(t, func(t *testing.T, n *floodNet, m hostMoment, family int) {
		n.delayBetweenStages(t)
		first, second := allowedInStage(m, family, true), allowedInStage(m, family, false)
		loses := m.name != "pre-DNAT"
		n.oneMoment(t, render.Config{Classes: classes}, first, second, loses, wireRounds(8, 2500), nil)
	})
}

// allowedInStage is withStage without a rule for the forbidden port, which normal policy denies.
// The policy of the hostMoment or normal policy allows the allowed port.
func allowedInStage(m hostMoment, family int, stage bool) dptest.State {
	s := withStage(m, family, 9, 9)
	allow := dataplane.Rule{ID: "allow", Action: policy.Allow, Protocol: policy.ProtocolUDP, Source: set("s:from")}
	allow.Destination.Ports = nfttest.PortList(policy.PortNumber(floodAllowed))
	deny := dataplane.Rule{ID: "rest", Action: policy.Deny, Protocol: policy.ProtocolUDP}
	rules := func(name string, rules ...dataplane.Rule) {
		first := s.Policies[nfttest.PolicyKey(name)].Ingress[:1]
		setRules(s, name, slices.Concat(first, rules)...)
	}
	if stage {
		rules("stage", allow)
		rules("normal", deny, nfttest.AllowAll("others"))
	} else {
		rules("stage")
		rules("normal", allow, deny, nfttest.AllowAll("others"))
	}
	return s
}
