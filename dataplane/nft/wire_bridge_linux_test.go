// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// onBridge is the configuration of a node whose bridge is for workloads.
func onBridge(classes render.ClassesConfig) nft.Config {
	return nft.Config{Renderer: render.Config{
		Classes: classes, Bridges: []string{"br0"},
		Host: policy.HostConfig{EndpointToHostAction: policy.HostAccept},
	}}
}

// newOnBridge makes a node of which way1 and way2 are ports of the bridge.
func newOnBridge(t *testing.T, cfg nft.Config) *bridged {
	t.Helper()
	b := newBridgedWith(t, cfg)
	b.enslave(t, "way1", true)
	b.enslave(t, "way2", true)
	return b
}

// facing makes the frames of one workload go to the MAC address of another instead of the node's.
func (b *bridged) facing(one, other string) (back func()) {
	link := b.links[one]
	b.links[one] = wireLink{peer: link.peer, mac: b.peers[other], node: link.node}
	return func() { b.links[one] = link }
}

// stranger is an address at way1 that no endpoint has.
func stranger(family int) nfttest.FlowEnd {
	return endOf("way1", addrs("10.99.0.77", "fd00:99::77")[family])
}

// ofWorkloads returns the connections that workloads opened: the node itself sends to groups.
func (b *bridged) ofWorkloads(t *testing.T) (flows []string) {
	t.Helper()
	for f := range trackedFlows(t, b.node) {
		if strings.HasPrefix(f, "10.99.") || strings.HasPrefix(f, "[fd00:99:") {
			flows = append(flows, f)
		}
	}
	return flows
}

// S171: policy applies to packets that are routed to and from the ports of a bridge, and to packets
// of the host, in both families. Packets of an address without an endpoint drop.
func TestWireBridged(t *testing.T) { nfttest.EachForm(t, testWireBridged) }

func testWireBridged(t *testing.T, classes render.ClassesConfig) {
	b := newOnBridge(t, onBridge(classes))
	for _, to := range []func(int) nfttest.FlowEnd{at(1), at(2), b.out, b.host} {
		b.all(t, at(0), to, true, "without policy, all packets arrive")
	}
	for family := range 2 {
		b.setRoute(t, stranger(family).Addr, "way1")
	}
	b.enslave(t, "way1", true) // adds a route for the stranger's address too
	b.all(t, stranger, b.out, true, "without policy")
	b.resetConntrack(t)
	b.become(t, shop())
	sent := 0
	for _, to := range []func(int) nfttest.FlowEnd{at(1), at(2), b.out, b.host} {
		sent += b.all(t, at(0), to, true, "allowed")
		sent += b.all(t, stranger, to, false, "no endpoint has the address")
	}
	known := b.opened(t, 0, 2)
	known = append(known, b.opened(t, 0, 1)...) // the node sends them out of the bridge at which they arrived

	b.become(t, closedFrom("way1"))
	for _, to := range []func(int) nfttest.FlowEnd{at(1), at(2), b.out, b.host} {
		for _, w := range b.fresh(at(0), to) {
			require.False(t, w.passes(t, b.wire), "closed: %s", w.Flow)
			sent++
		}
	}
	sent += b.all(t, at(1), b.out, true, "another port")
	b.requireOpen(t, known, true, "S116")

	b.become(t, closedTo("way1"))
	for _, from := range []func(int) nfttest.FlowEnd{at(1), at(2), b.out} {
		for _, w := range b.fresh(from, at(0)) {
			require.False(t, w.passes(t, b.wire), "closed: %s", w.Flow)
			sent++
		}
	}
	sent += b.all(t, at(1), b.out, true, "another port")
	b.requireOpen(t, known, true, "S116")

	b.become(t, edit(shop(), "way1", func(e *dataplane.Endpoint) { e.Down = true }))
	for _, to := range []func(int) nfttest.FlowEnd{at(1), at(2), b.out, b.host} {
		sent += b.all(t, at(0), to, false, "S35")
	}
	b.requireOpen(t, known, false, "S35: also established ones")
	b.become(t, shop())
	b.requireOpen(t, known, true, "up again")

	gone := shop()
	delete(gone.Endpoints, endpointKey("way1"))
	b.become(t, gone)
	b.requireOpen(t, known, false, "S168: its connections have ended")
	for _, to := range []func(int) nfttest.FlowEnd{at(1), at(2), b.out, b.host} {
		sent += b.all(t, at(0), to, false, "the endpoint was removed")
	}
	t.Logf("%d packets", sent)
}

// S171: frames between two ports of a bridge. With bridge-nf-call-iptables, they traverse the
// hooks, and policy decides about them. Without it, no hook of IP sees them, and policy only
// decides about routed packets. In both cases, a port sends only with the addresses of its
// endpoint.
func TestWireFramesBetweenPorts(t *testing.T) { nfttest.EachForm(t, testWireFramesBetweenPorts) }

func testWireFramesBetweenPorts(t *testing.T, classes render.ClassesConfig) {
	b := newOnBridge(t, onBridge(classes))
	for _, call := range []string{"0", "1"} {
		b.callHooks(t, call)
		b.resetConntrack(t)
		b.become(t, shop())
		back, forth := b.facing("way1", "way2"), b.facing("way2", "way1")
		b.all(t, at(0), at(1), true, "allowed")
		for _, w := range b.fresh(stranger, at(1)) {
			require.False(t, w.passes(t, b.wire), "call %s: no endpoint has the address: %s", call, w.Flow)
		}
		known := b.opened(t, 0, 1)
		for _, s := range []dptest.State{closedTo("way2"), closedFrom("way1")} {
			b.become(t, s)
			for _, w := range b.fresh(at(0), at(1)) {
				require.Equal(t, call == "0", w.passes(t, b.wire), "call %s: closed: %s", call, w.Flow)
			}
			for _, w := range b.fresh(at(1), at(0)) {
				require.True(t, w.passes(t, b.wire), "call %s: in the other direction: %s", call, w.Flow)
			}
			b.requireOpen(t, known, true, "S116")
		}
		b.become(t, edit(shop(), "way2", func(e *dataplane.Endpoint) { e.Down = true }))
		if call == "1" {
			b.requireOpen(t, known, false, "S35")
		}
		for _, w := range b.fresh(at(1), at(0)) {
			require.False(t, w.passes(t, b.wire), "call %s: S35: its port drops: %s", call, w.Flow)
		}
		back()
		forth()
		b.become(t, closedFrom("way1"))
		for _, w := range slices.Concat(b.fresh(at(0), at(1)), b.fresh(at(0), at(2))) {
			require.False(t, w.passes(t, b.wire), "call %s: routed: %s", call, w.Flow)
		}
	}
}

// S171: neighbour discovery passes between two ports, and router advertisements do not.
func TestWireNeighbourDiscoveryBetweenPorts(t *testing.T) {
	b := newOnBridge(t, onBridge(render.ClassesConfig{}))
	b.callHooks(t, "1")
	s, tiers := denied(shop()) // policy allows nothing between them
	for _, name := range []string{"way1", "way2"} {
		s = edit(s, name, func(e *dataplane.Endpoint) { e.Ingress, e.Egress = tiers, tiers })
	}
	b.become(t, s)
	defer b.facing("way1", "way2")()
	own, other := workloadAddrs(0)[1], workloadAddrs(1)[1]
	for _, c := range []struct {
		src  netip.Addr
		typ  uint8
		pass bool
	}{
		{own, 135, true},
		{own, 136, true},
		{netip.MustParseAddr("fe80::1"), 135, true},
		{netip.MustParseAddr("fe80::1"), 136, true},
		{netip.MustParseAddr("fe80::1"), 134, false},
		{netip.MustParseAddr("fe80::1"), 133, false},
		{netip.MustParseAddr("fe80::1"), 137, false},
		{own, 128, false},
		{stranger(1).Addr, 136, false},
		{workloadAddrs(2)[1], 136, false},
	} {
		target := c.src.AsSlice()
		f := frame{src: c.src, dst: other, proto: policy.ProtocolICMPv6, typ: c.typ, inner: target}
		require.Equal(t, c.pass, b.pass(t, f, endOf("way1", c.src), endOf("way2", other)), "%+v", c)
	}
}

// S171: with conntrack.End, connections of bridged endpoints end when policy begins to deny them,
// also those by frames between ports. Others continue.
func TestWireBridgedConnectionsEnd(t *testing.T) { nfttest.EachForm(t, testWireBridgedConnectionsEnd) }

func testWireBridgedConnectionsEnd(t *testing.T, classes render.ClassesConfig) {
	cfg := onBridge(classes)
	cfg.ConntrackPolicy = conntrack.End
	b := newOnBridge(t, cfg)
	b.callHooks(t, "1")
	b.become(t, shop())
	routed, others := b.opened(t, 0, 2), b.opened(t, 2, 1)
	back, forth := b.facing("way1", "way2"), b.facing("way2", "way1")
	frames := b.opened(t, 0, 1)
	back()
	forth()
	ends := slices.Concat(routed, frames)
	require.Len(t, b.ofWorkloads(t), len(ends)+len(others))
	b.become(t, closedFrom("way1"))
	require.Eventually(t, func() bool { return len(b.ofWorkloads(t)) == len(others) }, waitTimeout, time.Millisecond)
	b.requireOpen(t, others, true, "of others")
	for _, w := range routed {
		require.False(t, w.passes(t, b.wire), "%s", w.Flow)
	}
}

// S168, S171: connections of bridged endpoints continue after a restart. They end if another port
// of the bridge now has their address.
func TestWireBridgedAfterRestart(t *testing.T) {
	for _, moved := range []bool{false, true} {
		t.Run(fmt.Sprint(moved), func(t *testing.T) {
			cfg := onBridge(render.ClassesConfig{})
			b := newOnBridge(t, cfg)
			b.become(t, shop())
			known := b.opened(t, 0, 2)
			require.NoError(t, b.plane.Close())
			b.plane, b.at = openWith(t, b.node, cfg), dptest.NewState()
			next := shop()
			if moved {
				next = edit(next, "way1", func(e *dataplane.Endpoint) { e.Addresses = workloadAddrs(1) })
				next = edit(next, "way2", func(e *dataplane.Endpoint) { e.Addresses = workloadAddrs(0) })
			}
			b.become(t, next)
			if moved {
				require.Empty(t, b.ofWorkloads(t))
				return
			}
			b.requireOpen(t, known, true, "after a restart")
		})
	}
}

// closedFlood returns a state in which way1 may send nothing and way2 may receive nothing. It also
// returns a flood of denied packets, and of packets from an address without an endpoint. add adds
// more packets to the flood.
func (b *bridged) closedFlood(t *testing.T) (
	closed dptest.State, s *specialFlood, add func(from, to func(int) nfttest.FlowEnd, passes bool),
) {
	t.Helper()
	closed = closedFrom("way1")
	denies := closed.Endpoints[endpointKey("way1")].Egress
	closed = edit(closed, "way2", func(e *dataplane.Endpoint) { e.Ingress = denies })
	b.become(t, closed)
	s = &specialFlood{
		relatedRig: &relatedRig{tracked: b.tracked},
		flood:      &worldFlood{wire: b.wire, fds: map[string]int{}, inner: map[int][]byte{}},
	}
	add = func(from, to func(int) nfttest.FlowEnd, passes bool) {
		for _, w := range b.fresh(from, to) {
			if w.Protocol == policy.ProtocolUDP {
				s.add(w, passes)
			}
		}
	}
	for _, to := range []func(int) nfttest.FlowEnd{at(1), at(2), b.out} {
		add(at(0), to, false)
		add(stranger, to, false)
	}
	return closed, s, add
}

// S171, S173: interfaces become ports of a configured bridge and leave it, under a flood. Packets
// that policy denies in both states never pass, nor do packets of an address without an endpoint.
// Other packets are not lost.
func TestWireBridgedFlood(t *testing.T) { nfttest.EachForm(t, testWireBridgedFlood) }

func testWireBridgedFlood(t *testing.T, classes render.ClassesConfig) {
	b := newBridgedWith(t, onBridge(classes))
	_, s, add := b.closedFlood(t)
	add(at(2), b.out, true)
	s.flood.prepare(t, s.flows)
	changes := wireRounds(24, 300)
	sent := s.flood.during(t, func() {
		for i := range changes {
			name := []string{"way1", "way2"}[i/2%2]
			if i%2 == 0 {
				b.enslave(t, name, i%8 < 4)
			} else {
				b.release(t, name)
			}
			require.NoError(t, b.plane.Resync(t.Context()))
		}
	})
	s.require(t, sent, changes)
}

// S171: a bridged endpoint has floating addresses. Policy decides about packets to them, also from
// a port of the same bridge, whether frames between ports traverse the hooks or not.
func TestWireBridgedFloating(t *testing.T) { nfttest.EachForm(t, testWireBridgedFloating) }

func testWireBridgedFloating(t *testing.T, classes render.ClassesConfig) {
	b := newOnBridge(t, onBridge(classes))
	floating := addrs("10.96.0.9", "fd00:96::9")
	mapped := func(s dptest.State) dptest.State {
		return edit(s, "way2", func(e *dataplane.Endpoint) {
			for family, a := range workloadAddrs(1) {
				e.NATs = append(e.NATs, policy.IPNAT{InternalIP: a, ExternalIP: floating[family]})
			}
		})
	}
	flows := func(from func(int) nfttest.FlowEnd) (flows []wireFlow) {
		for _, w := range b.fresh(from, at(1)) {
			if w.Protocol.HasPorts() {
				w.OrigDst = floating[0]
				if w.Src.Is6() {
					w.OrigDst = floating[1]
				}
				flows = append(flows, w)
			}
		}
		return flows
	}
	sent := 0
	for _, call := range []string{"1", "0"} {
		b.callHooks(t, call)
		for _, from := range []func(int) nfttest.FlowEnd{at(0), at(2), b.out} {
			b.become(t, mapped(shop()))
			for _, w := range flows(from) {
				require.True(t, w.passes(t, b.wire), "call %s: %s", call, w.Flow)
				sent++
			}
			b.become(t, mapped(closedTo("way2")))
			for _, w := range flows(from) {
				require.False(t, w.passes(t, b.wire), "call %s: closed: %s", call, w.Flow)
				sent++
			}
		}
		b.become(t, mapped(closedFrom("way1")))
		for _, w := range slices.Concat(flows(at(0)), flows(stranger)) {
			require.False(t, w.passes(t, b.wire), "call %s: the sender's policy: %s", call, w.Flow)
			sent++
		}
	}
	t.Logf("%d packets", sent)
}

// S171: with ReversePath, packets of a bridge pass if the routes lead back to the bridge.
func TestWireBridgedReversePath(t *testing.T) {
	cfg := onBridge(render.ClassesConfig{})
	cfg.Renderer.ReversePath = true
	b := newOnBridge(t, cfg)
	b.callHooks(t, "1")
	b.become(t, shop())
	for _, to := range []func(int) nfttest.FlowEnd{at(1), at(2), b.out, b.host} {
		b.all(t, at(0), to, true, "the routes lead to the bridge")
	}
	back, forth := b.facing("way1", "way2"), b.facing("way2", "way1")
	b.all(t, at(0), at(1), true, "frames between ports")
	back()
	forth()
	b.resetConntrack(t)
	for _, a := range workloadAddrs(0) {
		require.NoError(t, b.netlink.RouteReplace(route(a, b.links["eth0"].node)))
	}
	for _, to := range []func(int) nfttest.FlowEnd{at(1), at(2), b.host} {
		for _, w := range b.fresh(at(0), to) {
			require.False(t, w.passes(t, b.wire), "the routes lead elsewhere: %s", w.Flow)
		}
	}
}

// S168, S171: two ports of one bridge exchange their addresses. All connections of these addresses
// end.
func TestWireBridgedAddressesMove(t *testing.T) {
	nfttest.EachForm(t, func(t *testing.T, classes render.ClassesConfig) {
		b := newOnBridge(t, onBridge(classes))
		b.become(t, shop())
		moved, others := slices.Concat(b.opened(t, 0, 2), b.opened(t, 2, 1)), b.fresh(at(2), b.out)
		require.Len(t, b.ofWorkloads(t), len(moved))
		next := edit(shop(), "way1", func(e *dataplane.Endpoint) { e.Addresses = workloadAddrs(1) })
		next = edit(next, "way2", func(e *dataplane.Endpoint) { e.Addresses = workloadAddrs(0) })
		b.become(t, next)
		require.Empty(t, b.ofWorkloads(t))
		for _, w := range others {
			require.True(t, w.passes(t, b.wire), "another workload: %s", w.Flow)
		}
		for _, w := range b.fresh(at(0), b.out) {
			require.False(t, w.passes(t, b.wire), "from the former port: %s", w.Flow)
		}
		for _, a := range workloadAddrs(0) {
			b.setRoute(t, a, "way2")
		}
		b.enslave(t, "way2", true)
		owner := func(family int) nfttest.FlowEnd { return endOf("way2", workloadAddrs(0)[family]) }
		b.all(t, owner, b.out, true, "of the new owner")
	})
}

// S171: frames to a group address of IEEE 802.1D bypass the bridge and its hooks, and reach the
// host. Their packets arrive from the port itself. No packet passes from an address that the
// endpoint does not have.
func TestWireGroupAddress(t *testing.T) {
	b := newOnBridge(t, onBridge(render.ClassesConfig{}))
	link := b.links["way1"]
	b.links["way1"] = wireLink{peer: link.peer, mac: net.HardwareAddr{1, 0x80, 0xc2, 0, 0, 0x0e}, node: link.node}
	defer func() { b.links["way1"] = link }()
	other := func(family int) nfttest.FlowEnd { return endOf("way1", workloadAddrs(1)[family]) }
	arrived := 0
	for _, from := range []func(int) nfttest.FlowEnd{at(0), other, stranger} {
		for _, w := range b.fresh(from, b.host) {
			if w.passes(t, b.wire) {
				arrived++
			}
		}
	}
	require.NotZero(t, arrived, "without policy")
	b.resetConntrack(t)
	b.become(t, shop())
	for _, to := range []func(int) nfttest.FlowEnd{b.host, at(1), at(2), b.out} {
		for _, from := range []func(int) nfttest.FlowEnd{other, stranger} {
			for _, w := range b.fresh(from, to) {
				require.False(t, w.passes(t, b.wire), "%s", w.Flow)
			}
		}
	}
}
