// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// tracked is the node of shop, where connections of every kind are opened one after the other.
type tracked struct {
	*wire
	plane *nft.Dataplane
	at    dptest.State
	port  uint16
}

func newTracked(t *testing.T, classes render.ClassesConfig, s dptest.State) *tracked {
	t.Helper()
	b := &tracked{wire: shopWire(t), at: dptest.NewState()}
	b.plane = open(t, b.node, render.Config{Classes: classes})
	b.become(t, s)
	return b
}

// become applies a state to the node.
func (b *tracked) become(t *testing.T, s dptest.State) {
	t.Helper()
	require.NoError(t, b.plane.Apply(t.Context(), dptest.Transition(b.at, s)))
	b.at = s
}

// kinds returns new connections between two workloads, one of each protocol and family.
func (b *tracked) kinds(from, to int) (flows []wireFlow) {
	for family := range 2 {
		for _, proto := range []policy.Protocol{
			policy.ProtocolTCP, policy.ProtocolUDP, policy.ProtocolSCTP, policy.ProtocolICMP,
		} {
			b.port++
			f := verdict.Flow{Protocol: proto, SrcPort: 1000 + b.port, DstPort: 80}
			switch {
			case proto == policy.ProtocolICMP && family == 0:
				f.ICMPType = 8
			case proto == policy.ProtocolICMP:
				f.Protocol, f.ICMPType = policy.ProtocolICMPv6, 128
			}
			flows = append(flows, pairFlow(from, to, family, f))
		}
	}
	return flows
}

// requireNew requires that all new connections pass, or none.
func (b *tracked) requireNew(t *testing.T, from, to int, pass bool, why string) {
	t.Helper()
	for _, w := range b.kinds(from, to) {
		require.Equal(t, pass, w.passes(t, b.wire), "%s: %s", why, w.Flow)
	}
}

// opened opens connections of every kind, which policy allows.
func (b *tracked) opened(t *testing.T, from, to int) []wireFlow {
	t.Helper()
	flows := b.kinds(from, to)
	for i := range flows {
		flows[i].State = verdict.StateEstablished
		flows[i].establish(t, b.wire)
	}
	return flows
}

// requireOpen requires that packets of open connections pass in both directions, or in none.
func (b *tracked) requireOpen(t *testing.T, flows []wireFlow, pass bool, why string) {
	t.Helper()
	for _, w := range flows {
		require.Equal(t, pass, w.passes(t, b.wire), "%s: %s", why, w.Flow)
		back := w.answered()
		require.Equal(t, pass, back.passes(t, b.wire), "%s: %s", why, back.Flow)
	}
}

// answered returns the packet in the other direction.
func (w wireFlow) answered() wireFlow {
	w.Src, w.Dst, w.SrcPort, w.DstPort, w.from, w.to, w.reply = w.Dst, w.Src, w.DstPort, w.SrcPort, w.to, w.from, true
	switch w.Protocol {
	case policy.ProtocolICMP:
		w.ICMPType, w.SrcPort = 0, w.DstPort
	case policy.ProtocolICMPv6:
		w.ICMPType, w.SrcPort = 129, w.DstPort
	}
	return w
}

// closedFrom is shop with policy that denies new connections of a workload.
func closedFrom(name string) dptest.State {
	s, tiers := denied(shop())
	return edit(s, name, func(e *dataplane.Endpoint) { e.Egress = tiers })
}

// closedTo is shop with policy that denies new connections to a workload.
func closedTo(name string) dptest.State {
	s, tiers := denied(shop())
	return edit(s, name, func(e *dataplane.Endpoint) { e.Ingress = tiers })
}

// denied adds a policy that denies everything to a state, and returns tiers with this policy.
func denied(s dptest.State) (dptest.State, []dataplane.TierPolicies) {
	all := []dataplane.Rule{{ID: "all", Action: policy.Deny}}
	key := policy.Key{Kind: policy.KindPolicy, Name: "denied"}
	s.Policies[key] = &dataplane.Policy{Tier: "default", Ingress: all, Egress: all}
	return s, []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key}}}
}

// S118: replies pass, although policy denies new connections in their direction.
func TestWireRepliesPass(t *testing.T) { nfttest.EachForm(t, testWireRepliesPass) }

func testWireRepliesPass(t *testing.T, classes render.ClassesConfig) {
	b := newTracked(t, classes, closedFrom("way2"))
	b.requireOpen(t, b.opened(t, 0, 1), true, "an answer")
	b.requireNew(t, 1, 0, false, "a new connection in the denied direction")
	b.requireNew(t, 0, 1, true, "in the allowed direction")
}

// ICMP errors about a connection that passes, from its other end or from a router on the path, pass
// although policy would deny them. Errors about no connection drop.
func TestWireRelatedErrors(t *testing.T) { nfttest.EachForm(t, testWireRelatedErrors) }

func testWireRelatedErrors(t *testing.T, classes render.ClassesConfig) {
	b := newTracked(t, classes, closedFrom("way2"))
	b.connect(t, "eth0")
	for family, router := range addrs("203.0.113.1", "2001:db8:1::1") {
		about := pairFlow(0, 1, family, verdict.Flow{
			Protocol: policy.ProtocolUDP, SrcPort: relatedPort, DstPort: relatedPort,
		})
		fail := pairFlow(1, 0, family, verdict.Flow{
			Protocol: policy.ProtocolICMP, State: verdict.StateEstablished, ICMPType: 3, ICMPCode: 1,
		})
		if family == 1 {
			fail.Protocol = policy.ProtocolICMPv6
		}
		fail.related = true
		require.False(t, fail.passes(t, b.wire), "about nothing: %s", fail.Flow)
		require.True(t, about.passes(t, b.wire))
		require.True(t, fail.passes(t, b.wire), "%s", fail.Flow)

		// A router reports a packet that it did not deliver.
		outside := fail
		outside.from, outside.Src = endOf("eth0", router), router
		f := outside.frame()
		f.inner = frame{
			src: about.Src, dst: about.Dst, proto: policy.ProtocolUDP, sport: relatedPort, dport: relatedPort,
		}.bytes()
		require.True(t, b.pass(t, f, outside.from, outside.to), "a router's")
		f.inner = frame{
			src: about.Src, dst: about.Dst, proto: policy.ProtocolUDP, sport: relatedPort, dport: relatedPort + 1,
		}.bytes()
		require.False(t, b.pass(t, f, outside.from, outside.to), "a router's error about no connection")
	}
}

// S116: established connections continue after policy begins to deny them, in both directions and
// for every protocol. New ones do not begin.
func TestWireEstablishedSurvivesDeny(t *testing.T) {
	nfttest.EachForm(t, testWireEstablishedSurvivesDeny)
}

func testWireEstablishedSurvivesDeny(t *testing.T, classes render.ClassesConfig) {
	for _, closed := range []dptest.State{closedTo("way2"), closedFrom("way1")} {
		b := newTracked(t, classes, shop())
		flows := b.opened(t, 0, 1)
		b.become(t, closed)
		b.requireOpen(t, flows, true, "established")
		b.requireNew(t, 0, 1, false, "new")
		b.become(t, shop())
		b.requireNew(t, 0, 1, true, "allowed again")
		b.requireOpen(t, flows, true, "established")
	}
}

// S124: when an interface is removed and added with the same name and another index, its policy
// applies at once, and no other. Connections continue.
func TestWireInterfaceRecreated(t *testing.T) { nfttest.EachForm(t, testWireInterfaceRecreated) }

func testWireInterfaceRecreated(t *testing.T, classes render.ClassesConfig) {
	b := newTracked(t, classes, closedTo("way2"))
	b.requireNew(t, 0, 1, false, "before")
	flows := b.opened(t, 1, 0)
	written := generation(t, b.node)
	index := b.links["way2"].node
	b.disconnect(t, "way2")
	b.connect(t, "way2")
	require.NotEqual(t, index, b.links["way2"].node)
	b.requireOpen(t, flows, true, "after")
	b.requireNew(t, 0, 1, false, "after")
	b.requireNew(t, 1, 0, true, "after")
	require.Equal(t, written, generation(t, b.node))

	// An interface without an endpoint, then with one.
	b.connect(t, "way9")
	stray := b.kinds(0, 2)[0]
	stray.from = endOf("way9", stray.Src)
	require.False(t, stray.passes(t, b.wire), "an interface without an endpoint")
	known := closedTo("way2")
	known.Endpoints[endpointKey("way9")] = &dataplane.Endpoint{
		Interface: "way9", Addresses: addrs("10.99.0.9"), Profiles: []string{"all"},
	}
	b.become(t, known)
	require.False(t, stray.passes(t, b.wire), "not its address")
	stray.from, stray.Src = endOf("way9", netip.MustParseAddr("10.99.0.9")), netip.MustParseAddr("10.99.0.9")
	require.True(t, stray.passes(t, b.wire))
}

// When an address moves from one endpoint to another, the policy of the new one applies at once, in
// both directions. The old one may no longer use the address, not even in an open connection. The
// new one receives no packets of that connection (S168).
func TestWireAddressMoved(t *testing.T) { nfttest.EachForm(t, testWireAddressMoved) }

func testWireAddressMoved(t *testing.T, classes render.ClassesConfig) {
	b := newTracked(t, classes, shop())
	flows := b.opened(t, 0, 1)
	moved := workloadAddrs(1)
	next := closedTo("way3")
	next = edit(next, "way2", func(e *dataplane.Endpoint) { e.Addresses = addrs("10.99.0.22") })
	next = edit(next, "way3", func(e *dataplane.Endpoint) { e.Addresses = append(workloadAddrs(2), moved...) })
	b.become(t, next)
	for _, w := range flows {
		back := w.answered()
		require.False(t, back.passes(t, b.wire), "from the former owner: %s", back.Flow)
		w.to = endOf("way3", w.Dst)
		require.False(t, w.passes(t, b.wire), "to the new owner: %s", w.Flow)
	}
	for _, w := range b.kinds(0, 1) {
		w.to = endOf("way3", w.Dst)
		require.False(t, w.passes(t, b.wire), "a new connection to the address: %s", w.Flow)
	}
	for _, w := range b.kinds(1, 0) {
		require.False(t, w.passes(t, b.wire), "a new connection from the former owner: %s", w.Flow)
	}
	for _, w := range b.kinds(1, 0) {
		w.from = endOf("way3", w.Src)
		require.True(t, w.passes(t, b.wire), "a new connection from the new owner: %s", w.Flow)
	}
}
