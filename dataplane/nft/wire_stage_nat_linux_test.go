// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/policy"
)

// S173: like TestWireOneMomentBetweenStages, for packets to a service that another table
// translates. Packets of the node itself traverse both stages after routing.
func TestWireOneMomentBetweenStagesOfService(t *testing.T) {
	nfttest.EachForm(t, testWireOneMomentBetweenStagesOfService)
}

func testWireOneMomentBetweenStagesOfService(t *testing.T, classes render.ClassesConfig) {
	for _, m := range hostMoments()[5:] {
		for family, name := range []string{"IPv4", "IPv6"} {
			t.Run(m.name+" "+name, func(t *testing.T) {
				n := newFloodRouter(t)
				n.uplink(t)
				own(t, n.node, nodeAddr(family))
				n.delayBetweenStages(t)
				n.delayAfterRouting(t)
				n.floodService(t, m, family)
				first, second := deniedInStage(m, family, true), deniedInStage(m, family, false)
				n.oneMoment(t, render.Config{Classes: classes}, first, second, false, wireRounds(3, 2500), nil)
			})
		}
	}
}

// floodService is flood to a service whose backend is the target of the hostMoment.
func (n *floodNet) floodService(t *testing.T, m hostMoment, family int) {
	t.Helper()
	service, backend := addrs("10.96.0.1", "fd00:96::1")[family], n.workloads[1]
	n.route(t, service, 0)
	translate(t, n.node, service, m.to(family))
	if m.from(family) == nodeAddr(family) {
		backend = n.workloads[2]
		n.send = fromNode(t, n.node, m.from(family), service)
	} else {
		b := n.frames(t, 2, floodFrames(m.from(family), service))
		n.send = func() error { return b.send(len(b.list)) }
	}
	n.count(t, backend.NS, "netdev", fmt.Sprintf("ingress device %q", backend.Link.Name))
}

// delayAfterRouting adds a chain of another table after the untracked policy for translated packets
// of the node.
func (n *floodNet) delayAfterRouting(t *testing.T) {
	t.Helper()
	load(t, n.node, "table inet slow { chain routed { type filter hook postrouting priority -290; "+
		strings.Repeat("udp dport 11 counter; ", 300)+" }; }")
}

// translate makes another table translate a service to a backend.
func translate(t *testing.T, node *netns.NS, service, backend netip.Addr) {
	t.Helper()
	ip := "ip"
	if service.Is6() {
		ip = "ip6"
	}
	var text strings.Builder
	for _, hook := range []string{"prerouting", "output"} {
		fmt.Fprintf(&text, "table %[1]s services { chain %[2]s { type nat hook %[2]s priority -100; "+
			"%[1]s daddr %[3]s dnat to %[4]s; }; }\n", ip, hook, service, backend)
	}
	load(t, node, text.String())
}

// S105, S173: a denial moves between two policies. One is pre-DNAT policy of a host endpoint for
// all interfaces. The other is the policy of a workload that sends to its host.
func TestWireOneMomentOfPreDNATAndSender(t *testing.T) {
	nfttest.EachForm(t, testWireOneMomentOfPreDNATAndSender)
}

func testWireOneMomentOfPreDNATAndSender(t *testing.T, classes render.ClassesConfig) {
	for family, name := range []string{"IPv4", "IPv6"} {
		t.Run(name, func(t *testing.T) {
			n := newFloodRouter(t)
			own(t, n.node, nodeAddr(family))
			n.delayBetweenStages(t)
			n.flood(t, floodSource(family), nodeAddr(family), family)
			cfg := render.Config{Classes: classes, Host: policy.HostConfig{EndpointToHostAction: policy.HostAccept}}
			first, second := deniedToHost(family, true), deniedToHost(family, false)
			n.oneMoment(t, cfg, first, second, false, wireRounds(6, 2500), nil)
		})
	}
}

// deniedToHost is a state where pre-DNAT policy for all interfaces or the policy of way1 denies the
// forbidden port.
func deniedToHost(family int, stage bool) dptest.State {
	m := hostMoments()[7]
	m.from = floodSource
	s := deniedInStage(m, family, stage)
	key := policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}
	normal := s.HostEndpoints[key].Ingress
	s.HostEndpoints[key] = &dataplane.HostEndpoint{
		Interface: policy.AllInterfaces, PreDNATIngress: s.HostEndpoints[key].PreDNATIngress, Profiles: []string{"all"},
	}
	return edit(s, "way1", func(e *dataplane.Endpoint) { e.Egress = normal })
}

// S173: a denial moves between normal policy and the only untracked or pre-DNAT policy, so the base
// chain of that policy is added and deleted. At last, the host endpoint is added and removed.
func TestWireOneMomentOfOnlyStage(t *testing.T) { nfttest.EachForm(t, testWireOneMomentOfOnlyStage) }

func testWireOneMomentOfOnlyStage(t *testing.T, classes render.ClassesConfig) {
	eachStage(t, func(t *testing.T, n *floodNet, m hostMoment, family int) {
		n.delayBetweenStages(t)
		first, second := withStage(m, family, 9, floodForbidden), withStage(m, family, floodForbidden)
		if wireWhole() && family == 0 { // then the change uses shadows
			first.Sets["s:other"] = netMembers(otherNets(20)...)
		}
		n.oneMoment(t, render.Config{Classes: classes}, first, second, false, wireRounds(3, 1250), nil)
	})
	for family, name := range []string{"IPv4", "IPv6"} {
		t.Run("host endpoint "+name, func(t *testing.T) {
			n := newFloodRouter(t)
			n.uplink(t)
			n.delayBetweenStages(t)
			n.flood(t, uplinkAddr(family), floodTarget(family), family)
			first, second := deniedByOnlyStage(family, true), deniedByOnlyStage(family, false)
			n.oneMoment(t, render.Config{Classes: classes}, first, second, false, wireRounds(3, 1250), nil)
		})
	}
}

// deniedByOnlyStage is a state where untracked policy of a host endpoint denies the forbidden port,
// or one without host endpoints, where way2 denies it.
func deniedByOnlyStage(family int, stage bool) dptest.State {
	s := withStage(hostMoments()[5], family, floodForbidden, floodForbidden)
	key := policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}
	h := *s.HostEndpoints[key]
	if stage {
		h.Ingress, h.Egress, h.ForwardIngress, h.ForwardEgress = nil, nil, nil, nil
		s.HostEndpoints[key] = &h
		delete(s.Policies, nfttest.PolicyKey("normal"))
		delete(s.Sets, "s:other")
		return s
	}
	delete(s.HostEndpoints, key)
	delete(s.Policies, nfttest.PolicyKey("stage"))
	return edit(s, "way2", func(e *dataplane.Endpoint) { e.Ingress = h.Ingress })
}
