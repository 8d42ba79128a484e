// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// icmpKind is the type and code of an ICMP error.
type icmpKind struct{ typ, code uint8 }

// icmpErrors returns the errors of a family that connection tracking relates to connections. These
// are unreachable, fragmentation needed or packet too big, time exceeded, parameter problem, and
// for IPv4 source quench and redirect.
func icmpErrors(family int) []icmpKind {
	if family == 0 {
		return []icmpKind{{3, 1}, {3, 3}, {3, 4}, {4, 0}, {5, 1}, {11, 0}, {12, 0}}
	}
	return []icmpKind{{1, 0}, {1, 4}, {2, 0}, {3, 0}, {4, 0}}
}

// relatedRig is a node with the workloads of shop, a network behind eth0, and addresses of its own.
type relatedRig struct {
	*tracked
	sent int
}

func (relatedRig) outside() []netip.Addr { return addrs("203.0.113.9", "2001:db8:1::9") }
func (relatedRig) router() []netip.Addr  { return addrs("203.0.113.1", "2001:db8:1::1") }
func (relatedRig) host() []netip.Addr    { return addrs("192.0.2.1", "2001:db8::1") }

func newRelatedRig(t *testing.T, cfg render.Config) *relatedRig {
	t.Helper()
	b := &relatedRig{tracked: &tracked{wire: shopWire(t), at: dptest.NewState()}}
	b.connect(t, "eth0")
	for family, a := range b.host() {
		b.own(t, "lo", netip.PrefixFrom(a, a.BitLen()).String())
		b.setRoute(t, b.outside()[family], "eth0")
	}
	b.plane = open(t, b.node, cfg)
	b.become(t, shop())
	return b
}

// opened returns open TCP and UDP connections between two places.
func (b *relatedRig) opened(t *testing.T, from, to nfttest.FlowEnd) (flows []wireFlow) {
	t.Helper()
	for _, proto := range []policy.Protocol{policy.ProtocolTCP, policy.ProtocolUDP} {
		b.port++
		w := wireFlow{from: from, to: to, Flow: verdict.Flow{
			Src: from.Addr, Dst: to.Addr, Protocol: proto, SrcPort: 1000 + b.port, DstPort: 80,
			State: verdict.StateEstablished,
		}}
		w.establish(t, b.wire)
		flows = append(flows, w)
	}
	return flows
}

// reports sends an ICMP error about a packet of the connection to the sender of that packet, and
// returns whether it arrives.
func (b *relatedRig) reports(t *testing.T, from nfttest.FlowEnd, src netip.Addr, about wireFlow, kind icmpKind) bool {
	t.Helper()
	f := frame{src: src, dst: about.Src, proto: policy.ProtocolICMP, typ: kind.typ, code: kind.code}
	if src.Is6() {
		f.proto = policy.ProtocolICMPv6
	}
	f.inner = about.frame().bytes()
	b.sent++
	return b.pass(t, f, from, about.from)
}

// each sends errors of all kinds about both directions of the connections, and requires that all
// arrive, or none.
func (b *relatedRig) each(
	t *testing.T, from nfttest.FlowEnd, src netip.Addr, family int, pass bool, why string, connections ...wireFlow,
) {
	t.Helper()
	for _, w := range connections {
		for _, kind := range icmpErrors(family) {
			require.Equal(t, pass, b.reports(t, from, src, w, kind), "%s: from %s about %s: %v", why, src, w.Flow, kind)
		}
	}
}

func bothEnds(flows []wireFlow) (out []wireFlow) {
	for _, w := range flows {
		out = append(out, w, w.answered())
	}
	return out
}

// S169: a workload sends ICMP errors of every kind about connections of others, from its own and
// from false addresses. It sends them to both ends of a connection between workloads, and to a
// workload about a connection to the outside. It also sends them to the outside, and to its host.
// None arrives, whether its own policy or the receiver's denies them.
func TestWireErrorsIntoConnectionsOfOthers(t *testing.T) {
	nfttest.EachForm(t, testWireErrorsIntoConnectionsOfOthers)
}

func testWireErrorsIntoConnectionsOfOthers(t *testing.T, classes render.ClassesConfig) {
	for _, action := range []policy.HostAction{policy.HostAccept, policy.HostDrop} {
		cfg := render.Config{Classes: classes, Host: policy.HostConfig{
			EndpointToHostAction: action, HostToEndpointAction: policy.HostReturn,
		}}
		b := newRelatedRig(t, cfg)
		for family := range 2 {
			attacker, victim, peer := workloadAddrs(0)[family], workloadAddrs(1)[family], workloadAddrs(2)[family]
			remote, host := b.outside()[family], b.host()[family]
			way1, way2 := endOf("way1", attacker), endOf("way2", victim)
			way3, eth0 := endOf("way3", peer), endOf("eth0", remote)
			b.become(t, shop())
			between := bothEnds(b.opened(t, way2, way3))
			outward := b.opened(t, way2, eth0)
			hosts := b.opened(t, nfttest.FlowEnd{Addr: host, Own: true}, eth0)
			all := append(append(between, bothEnds(outward)...), hosts...)

			b.become(t, closedFrom("way1"))
			for _, src := range []netip.Addr{attacker, victim, peer, remote, host, b.router()[family]} {
				b.each(t, way1, src, family, false, "the sender's policy denies", all...)
			}
			closed, tiers := denied(shop())
			for _, name := range []string{"way2", "way3"} {
				closed = edit(closed, name, func(e *dataplane.Endpoint) { e.Ingress = tiers })
			}
			b.become(t, closed)
			b.each(t, way1, attacker, family, false, "the receiver's policy denies", append(between, outward...)...)
			b.requireOpen(t, append(outward, between[0], between[2]), true, fmt.Sprintf("family %d", family))
		}
		t.Logf("%d errors sent", b.sent)
	}
}

// S169: errors that a connection needs arrive, whatever policy denies. An endpoint receives errors
// about its own connection from a router outside and from the host. The peer and the outside
// receive them from an endpoint about its own connection.
func TestWireErrorsAboutOwnConnections(t *testing.T) {
	nfttest.EachForm(t, testWireErrorsAboutOwnConnections)
}

func testWireErrorsAboutOwnConnections(t *testing.T, classes render.ClassesConfig) {
	b := newRelatedRig(t, render.Config{Classes: classes, Host: policy.HostConfig{
		HostToEndpointAction: policy.HostDrop,
	}})
	for family := range 2 {
		way2, way3 := endOf("way2", workloadAddrs(1)[family]), endOf("way3", workloadAddrs(2)[family])
		eth0, router := endOf("eth0", b.outside()[family]), b.router()[family]
		host := nfttest.FlowEnd{Addr: b.host()[family], Own: true}
		b.become(t, shop())
		between, outward, inward := b.opened(t, way2, way3), b.opened(t, way2, eth0), b.opened(t, eth0, way2)

		closed, tiers := denied(shop())
		for _, name := range []string{"way2", "way3"} {
			closed = edit(closed, name, func(e *dataplane.Endpoint) { e.Ingress, e.Egress = tiers, tiers })
		}
		b.become(t, closed)
		for _, w := range append(outward, inward...) {
			own := w
			if w.from.Iface == "eth0" {
				own = w.answered()
			}
			b.each(t, endOf("eth0", router), router, family, true, "from a router to the endpoint", own)
			b.each(t, host, host.Addr, family, true, "from the host to the endpoint", own)
			b.each(t, way2, way2.Addr, family, true, "from the endpoint to the outside", own.answered())
		}
		b.each(t, way3, way3.Addr, family, true, "from the endpoint to its peer", between...)
		b.each(t, host, host.Addr, family, true, "from the host to a workload about another", bothEnds(between)...)
	}
	t.Logf("%d errors sent", b.sent)
}

// S169: the connection of an endpoint behind NAT is its own: an error that a router sends to the
// translated address arrives.
func TestWireErrorsThroughNAT(t *testing.T) { nfttest.EachForm(t, testWireErrorsThroughNAT) }

func testWireErrorsThroughNAT(t *testing.T, classes render.ClassesConfig) {
	b := newRelatedRig(t, render.Config{Classes: classes})
	for family := range 2 {
		way2, eth0 := endOf("way2", workloadAddrs(1)[family]), endOf("eth0", b.outside()[family])
		router := b.router()[family]
		host, name := b.host()[family], "ip"
		if family == 1 {
			name = "ip6"
		}
		b.become(t, shop())
		load(t, b.node, fmt.Sprintf(
			"table %s masq {\nchain post {\ntype nat hook postrouting priority 100\noifname eth0 snat to %s\n}\n}\n",
			name, host,
		))
		b.port++
		w := wireFlow{from: way2, to: eth0, Flow: verdict.Flow{
			Src: way2.Addr, Dst: eth0.Addr, Protocol: policy.ProtocolUDP, SrcPort: 1000 + b.port, DstPort: 80,
		}}
		require.True(t, w.passes(t, b.wire))

		closed := closedTo("way2")
		b.become(t, closed)
		w.Src, w.State = host, verdict.StateEstablished // the connection as the router sees it
		for _, kind := range icmpErrors(family) {
			if kind.typ == 5 {
				continue // the kernel translates no redirects
			}
			require.True(t, b.reports(t, endOf("eth0", router), router, w, kind), "%v", kind)
			require.False(
				t, b.reports(t, endOf("way1", workloadAddrs(0)[family]), workloadAddrs(0)[family], w, kind),
				"another workload's: %v", kind,
			)
		}
	}
	t.Logf("%d errors sent", b.sent)
}
