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
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// hostMoment is a kind of policy of a host endpoint, and the two ends of its flow.
type hostMoment struct {
	name     string
	from, to func(family int) netip.Addr
	// apply gives the policy to the host endpoint.
	apply func(*dataplane.HostEndpoint, *dataplane.Policy, []dataplane.TierPolicies)
}

func uplinkAddr(family int) netip.Addr { return workloadAddrs(4)[family] }

// exitAddr is behind another interface, whose host endpoint allows everything.
func exitAddr(family int) netip.Addr { return workloadAddrs(5)[family] }

func nodeAddr(family int) netip.Addr { return addrs("10.97.0.1", "fd00:97::1")[family] }

func hostMoments() []hostMoment {
	type tiers = []dataplane.TierPolicies
	return []hostMoment{
		{"in", uplinkAddr, nodeAddr, func(h *dataplane.HostEndpoint, _ *dataplane.Policy, t tiers) { h.Ingress = t }},
		{"out", nodeAddr, uplinkAddr, func(h *dataplane.HostEndpoint, _ *dataplane.Policy, t tiers) { h.Egress = t }},
		{
			"forward in", uplinkAddr, floodTarget,
			func(h *dataplane.HostEndpoint, _ *dataplane.Policy, t tiers) { h.ForwardIngress = t },
		},
		{
			"forward in and out", uplinkAddr, exitAddr,
			func(h *dataplane.HostEndpoint, _ *dataplane.Policy, t tiers) { h.ForwardIngress = t },
		},
		{
			"forward out", floodSource, uplinkAddr,
			func(h *dataplane.HostEndpoint, _ *dataplane.Policy, t tiers) { h.ForwardEgress = t },
		},
		{
			"untracked in", uplinkAddr, floodTarget,
			func(h *dataplane.HostEndpoint, p *dataplane.Policy, t tiers) {
				h.UntrackedIngress, p.Untracked = t, true
			},
		},
		{
			"untracked out", nodeAddr, uplinkAddr,
			func(h *dataplane.HostEndpoint, p *dataplane.Policy, t tiers) {
				h.UntrackedEgress, p.Untracked = t, true
			},
		},
		{
			"pre-DNAT", uplinkAddr, floodTarget, func(h *dataplane.HostEndpoint, p *dataplane.Policy, t tiers) {
				h.PreDNATIngress, p.PreDNAT, p.Egress = t, true, nil
			},
		},
	}
}

// S173 for policy of host endpoints: two rules deny an address, which moves from the set of one to
// the set of the other. In the same way, two rules allow the allowed packets.
func TestWireOneMomentOfHost(t *testing.T) { nfttest.EachForm(t, testWireOneMomentOfHost) }

func testWireOneMomentOfHost(t *testing.T, classes render.ClassesConfig) {
	for _, m := range hostMoments() {
		for family, name := range []string{"IPv4", "IPv6"} {
			t.Run(m.name+" "+name, func(t *testing.T) {
				n := newFloodRouter(t)
				for i, addr := range []func(int) netip.Addr{uplinkAddr, exitAddr} {
					name := fmt.Sprintf("eth%d", i)
					w := nstest.NewWorkload(t, n.node, name, addr(0).String(), addr(1).String())
					n.workloads = append(n.workloads, w)
					n.route(t, addr(0), 2+i)
					n.route(t, addr(1), 2+i)
				}
				own(t, n.node, nodeAddr(family))
				n.flood(t, m.from(family), m.to(family), family)
				first, second := deniedAtHost(m, family, true), deniedAtHost(m, family, false)
				n.oneMoment(t, render.Config{Classes: classes}, first, second, false, wireRounds(20, 5000), nil)
			})
		}
	}
}

// S173: a denial moves between the policy of a host endpoint for forwarded packets and the policy
// of the workload that receives them.
func TestWireOneMomentOfHostAndWorkload(t *testing.T) {
	nfttest.EachForm(t, func(t *testing.T, classes render.ClassesConfig) {
		for family, name := range []string{"IPv4", "IPv6"} {
			t.Run(name, func(t *testing.T) {
				n := newFloodRouter(t)
				n.uplink(t)
				n.flood(t, uplinkAddr(family), floodTarget(family), family)
				first, second := deniedByEither(true), deniedByEither(false)
				n.oneMoment(t, render.Config{Classes: classes}, first, second, false, momentChanges(), nil)
			})
		}
	})
}

// deniedByEither is the shop, where the host endpoint or the workload way2 denies the forbidden
// port.
func deniedByEither(host bool) dptest.State {
	s := shop()
	deny := dataplane.Rule{ID: "deny", Action: policy.Deny, Protocol: policy.ProtocolUDP}
	deny.Destination.Ports = nfttest.PortList(policy.PortNumber(floodForbidden))
	tiers := func(name string, denies bool) []dataplane.TierPolicies {
		rules := []dataplane.Rule{nfttest.AllowAll("rest")}
		if denies {
			rules = append([]dataplane.Rule{deny}, rules...)
		}
		s.Policies[nfttest.PolicyKey(name)] = &dataplane.Policy{Tier: "default", Ingress: rules}
		return []dataplane.TierPolicies{
			{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{nfttest.PolicyKey(name)}},
		}
	}
	s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}] = &dataplane.HostEndpoint{
		Interface: "eth0", ForwardIngress: tiers("host", host),
	}
	workload := tiers("workload", !host)
	return edit(s, "way2", func(e *dataplane.Endpoint) { e.Ingress = workload })
}

// flood makes the flood between two addresses: of way1, way2, the node, or a workload behind eth0
// or eth1.
func (n *floodNet) flood(t *testing.T, src, dst netip.Addr, family int) {
	t.Helper()
	workloads := map[netip.Addr]int{
		floodSource(family): 0, floodTarget(family): 1, uplinkAddr(family): 2, exitAddr(family): 3,
	}
	if at, ok := workloads[dst]; ok {
		w := n.workloads[at]
		n.count(t, w.NS, "netdev", fmt.Sprintf("ingress device %q", w.Link.Name))
	} else {
		n.count(t, n.node, "inet", "input")
	}
	if from, ok := workloads[src]; ok {
		b := n.frames(t, from, floodFrames(src, dst))
		n.send = func() error { return b.send(len(b.list)) }
	} else {
		n.send = fromNode(t, n.node, src, dst)
	}
}

// deniedAtHost is the shop with a host endpoint. The policy of the host endpoint denies the flow at
// the forbidden port by the first or the second of two sets. It allows the flow in the same way at
// the allowed port.
func deniedAtHost(m hostMoment, family int, first bool) dptest.State {
	s := shop()
	with, without := dataplane.IPSetID("s:one"), dataplane.IPSetID("s:two")
	if !first {
		with, without = without, with
	}
	s.Sets[with], s.Sets[without] = withMembers(others(), m.from(family).String()), others()
	rule := func(action policy.Action, id dataplane.IPSetID, port uint16) dataplane.Rule {
		r := dataplane.Rule{
			ID: string(action) + string(id), Action: action, Protocol: policy.ProtocolUDP, Source: set(id),
		}
		r.Destination.Ports = nfttest.PortList(policy.PortNumber(port))
		return r
	}
	var rules []dataplane.Rule
	for _, id := range []dataplane.IPSetID{"s:one", "s:two"} {
		rules = append(rules, rule(policy.Deny, id, floodForbidden), rule(policy.Allow, id, floodAllowed))
		for range 25 { // the packet needs some time for them
			rules = append(rules, rule(policy.Deny, id, 9))
		}
	}
	rest := dataplane.Rule{ID: "rest", Action: policy.Deny, Protocol: policy.ProtocolUDP}
	rest.Destination.Ports = nfttest.PortList(policy.PortNumber(floodAllowed))
	p := &dataplane.Policy{Tier: "default", Ingress: append(rules, rest, nfttest.AllowAll("others"))}
	p.Egress = p.Ingress
	h := &dataplane.HostEndpoint{Interface: "eth0"}
	key := nfttest.PolicyKey("host")
	m.apply(h, p, []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key}}})
	s.Policies[key] = p
	s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}] = h
	exit := nfttest.PolicyKey("exit")
	s.Policies[exit] = &dataplane.Policy{Tier: "default", Egress: []dataplane.Rule{nfttest.AllowAll("exit")}}
	s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "exit"}] = &dataplane.HostEndpoint{
		Interface: "eth1", ForwardEgress: []dataplane.TierPolicies{{
			Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{exit},
		}},
	}
	return s
}
