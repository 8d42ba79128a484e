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

// become leads the node to a state.
func (b *tracked) become(t *testing.T, s dptest.State) {
	t.Helper()
	require.NoError(t, b.plane.Apply(t.Context(), dptest.Transition(b.at, s)))
	b.at = s
}

// kinds are new connections between two workloads, one of each protocol and family.
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

// new holds that new connections pass, or that none does.
func (b *tracked) new(t *testing.T, from, to int, pass bool, why string) {
	t.Helper()
	for _, w := range b.kinds(from, to) {
		require.Equal(t, pass, w.passes(t, b.wire), "%s: %s", why, w.Flow)
	}
}

// opened are connections of every kind that policy let through.
func (b *tracked) opened(t *testing.T, from, to int) []wireFlow {
	t.Helper()
	flows := b.kinds(from, to)
	for i := range flows {
		flows[i].State = verdict.StateEstablished
		flows[i].establish(t, b.wire)
	}
	return flows
}

// goOn holds that packets of open connections pass in both directions, or that none does.
func (b *tracked) goOn(t *testing.T, flows []wireFlow, pass bool, why string) {
	t.Helper()
	for _, w := range flows {
		require.Equal(t, pass, w.passes(t, b.wire), "%s: %s", why, w.Flow)
		back := w.answered()
		require.Equal(t, pass, back.passes(t, b.wire), "%s: %s", why, back.Flow)
	}
}

// answered is a packet the other way.
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

// closedFrom is shop, where a workload may send nothing of its own accord.
func closedFrom(name string) dptest.State {
	s, tiers := denied(shop())
	return edit(s, name, func(e *dataplane.Endpoint) { e.Egress = tiers })
}

// closedTo is shop with policy that denies new connections to a workload.
func closedTo(name string) dptest.State {
	s, tiers := denied(shop())
	return edit(s, name, func(e *dataplane.Endpoint) { e.Ingress = tiers })
}

// denied adds a policy that denies everything to a state, and returns the tiers that hold it.
func denied(s dptest.State) (dptest.State, []dataplane.TierPolicies) {
	all := []dataplane.Rule{{ID: "all", Action: policy.Deny}}
	key := policy.Key{Kind: policy.KindPolicy, Name: "denied"}
	s.Policies[key] = &dataplane.Policy{Tier: "default", Ingress: all, Egress: all}
	return s, []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key}}}
}

// S118: what answers passes though it could not begin.
func TestWireRepliesPass(t *testing.T) { nfttest.EachForm(t, testWireRepliesPass) }

func testWireRepliesPass(t *testing.T, classes render.ClassesConfig) {
	b := newTracked(t, classes, closedFrom("way2"))
	b.goOn(t, b.opened(t, 0, 1), true, "an answer")
	b.new(t, 1, 0, false, "of its own accord")
	b.new(t, 0, 1, true, "the way that is allowed")
}

// ICMP errors about a connection that passes, from its other end or from a router on the way, pass
// though policy would deny them; those about nothing that is there do not.
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
		outside.from, outside.Src = placeOf("eth0", router), router
		f := outside.frame()
		f.inner = frame{
			src: about.Src, dst: about.Dst, proto: policy.ProtocolUDP, sport: relatedPort, dport: relatedPort,
		}.bytes()
		require.True(t, b.pass(t, f, outside.from, outside.to), "a router's")
		f.inner = frame{
			src: about.Src, dst: about.Dst, proto: policy.ProtocolUDP, sport: relatedPort, dport: relatedPort + 1,
		}.bytes()
		require.False(t, b.pass(t, f, outside.from, outside.to), "a router's about nothing")
	}
}

// S116: what is established goes on after policy turned to deny, in both directions and for every
// protocol; what is new does not begin.
func TestWireEstablishedSurvivesDeny(t *testing.T) {
	nfttest.EachForm(t, testWireEstablishedSurvivesDeny)
}

func testWireEstablishedSurvivesDeny(t *testing.T, classes render.ClassesConfig) {
	for _, closed := range []dptest.State{closedTo("way2"), closedFrom("way1")} {
		b := newTracked(t, classes, shop())
		flows := b.opened(t, 0, 1)
		b.become(t, closed)
		b.goOn(t, flows, true, "established")
		b.new(t, 0, 1, false, "new")
		b.become(t, shop())
		b.new(t, 0, 1, true, "allowed again")
		b.goOn(t, flows, true, "established")
	}
}

// S124: an interface that goes and comes back under its name, with another index, has its policy at
// once and no other; connections go on.
func TestWireInterfaceRecreated(t *testing.T) { nfttest.EachForm(t, testWireInterfaceRecreated) }

func testWireInterfaceRecreated(t *testing.T, classes render.ClassesConfig) {
	b := newTracked(t, classes, closedTo("way2"))
	b.new(t, 0, 1, false, "before")
	flows := b.opened(t, 1, 0)
	written := generation(t, b.node)
	index := b.links["way2"].node
	b.disconnect(t, "way2")
	b.connect(t, "way2")
	require.NotEqual(t, index, b.links["way2"].node)
	b.goOn(t, flows, true, "after")
	b.new(t, 0, 1, false, "after")
	b.new(t, 1, 0, true, "after")
	require.Equal(t, written, generation(t, b.node))

	// An interface without an endpoint, then with one.
	b.connect(t, "way9")
	stray := b.kinds(0, 2)[0]
	stray.from = placeOf("way9", stray.Src)
	require.False(t, stray.passes(t, b.wire), "nobody's interface")
	known := closedTo("way2")
	known.Endpoints[endpointKey("way9")] = &dataplane.Endpoint{
		Interface: "way9", Addresses: addrs("10.99.0.9"), Profiles: []string{"all"},
	}
	b.become(t, known)
	require.False(t, stray.passes(t, b.wire), "not its address")
	stray.from, stray.Src = placeOf("way9", netip.MustParseAddr("10.99.0.9")), netip.MustParseAddr("10.99.0.9")
	require.True(t, stray.passes(t, b.wire))
}

// An address that goes from one endpoint to another takes its policy from the new one at once, for
// what is sent and what is received. The old one may not use it any more, not even in a connection
// that is open; nor does the new one receive anything of that (S168).
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
		require.False(t, back.passes(t, b.wire), "from where the address was: %s", back.Flow)
		w.to = placeOf("way3", w.Dst)
		require.False(t, w.passes(t, b.wire), "to where it is: %s", w.Flow)
	}
	for _, w := range b.kinds(0, 1) {
		w.to = placeOf("way3", w.Dst)
		require.False(t, w.passes(t, b.wire), "a new connection to the address: %s", w.Flow)
	}
	for _, w := range b.kinds(1, 0) {
		require.False(t, w.passes(t, b.wire), "a new connection from where the address was: %s", w.Flow)
	}
	for _, w := range b.kinds(1, 0) {
		w.from = placeOf("way3", w.Src)
		require.True(t, w.passes(t, b.wire), "a new connection from where it is: %s", w.Flow)
	}
}
