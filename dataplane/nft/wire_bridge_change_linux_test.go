// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// remake deletes the bridge and adds it again, without ports.
func (b *bridged) remake(t *testing.T) {
	t.Helper()
	runIP(
		t, b.node, "link", "add", "name", "br0", "address", "02:00:00:00:00:b0", "type", "bridge", "forward_delay", "0",
	)
	runIP(t, b.node, "link", "set", "dev", "br0", "up")
	link, err := b.netlink.LinkByName("br0")
	require.NoError(t, err)
	b.bridge.node = link.Attrs().Index
}

// S169, S171: a bridged workload whose policy denies everything sends ICMP errors about connections
// of others at its bridge, between others, and of the host. None arrives. Those about its own
// connections do.
func TestWireBridgedErrors(t *testing.T) { nfttest.EachForm(t, testWireBridgedErrors) }

func testWireBridgedErrors(t *testing.T, classes render.ClassesConfig) {
	b := newOnBridge(t, onBridge(classes))
	rig := &relatedRig{tracked: b.tracked}
	for family := range 2 {
		b.become(t, shop())
		attacker, victim, peer := workload(0, family), workload(1, family), workload(2, family)
		between, outward := bothEnds(rig.opened(t, victim, peer)), bothEnds(rig.opened(t, victim, b.out(family)))
		hosts := rig.opened(t, b.host(family), b.out(family))
		own := rig.opened(t, attacker, peer)
		b.become(t, closedFrom("way1"))
		of := slices.Concat(between, outward, hosts)
		for _, src := range []netip.Addr{attacker.Addr, peer.Addr, b.out(family).Addr, b.host(family).Addr} {
			rig.each(t, attacker, src, family, false, "of others", of...)
		}
		rig.each(t, attacker, attacker.Addr, family, true, "its own", own[0].answered())
		rig.each(t, peer, peer.Addr, family, true, "into the bridge, its own", own[0], between[0])
		b.requireOpen(t, slices.Concat(outward, own), true, fmt.Sprintf("family %d", family))
	}
	t.Logf("%d errors sent", rig.sent)
}

// S171, S173: under a flood, the bridge is deleted and added again, and ports get other names.
// Packets that policy denies never pass.
func TestWireBridgedFloodOfLinks(t *testing.T) { nfttest.EachForm(t, testWireBridgedFloodOfLinks) }

func testWireBridgedFloodOfLinks(t *testing.T, classes render.ClassesConfig) {
	b := newOnBridge(t, onBridge(classes))
	closed, s, add := b.closedFlood(t)
	add(b.out, at(1), false)
	add(at(2), at(1), false)
	add(at(2), b.out, true)
	s.flood.prepare(t, s.flows)
	link := func(args ...string) { runIP(t, b.node, append([]string{"link"}, args...)...) }
	resync := func() { require.NoError(t, b.plane.Resync(t.Context())) }
	rounds := wireRounds(6, 60)
	sent := s.flood.during(t, func() {
		for range rounds {
			link("del", "dev", "br0")
			resync()
			b.remake(t)
			b.enslave(t, "way1", true)
			resync()
			b.enslave(t, "way2", true)
			resync()
			nstest.Rename(t, b.node, "way1", "way9")
			resync()
			next := edit(closed, "way1", func(e *dataplane.Endpoint) { e.Interface = "way9" })
			require.NoError(t, b.plane.Apply(t.Context(), dptest.Transition(closed, next)))
			nstest.Rename(t, b.node, "way9", "way1")
			require.NoError(t, b.plane.Apply(t.Context(), dptest.Transition(next, closed)))
		}
	})
	s.require(t, sent, rounds)
}

// S168, S171: while no process runs, ports leave the bridge, the bridge is deleted and added again,
// endpoints are removed and addresses move. The next process ends the connections of addresses that
// have another owner, and keeps those of others. Denied packets never pass.
func TestWireBridgedChangesWhileStopped(t *testing.T) {
	nfttest.EachForm(t, testWireBridgedChangesWhileStopped)
}

func testWireBridgedChangesWhileStopped(t *testing.T, classes render.ClassesConfig) {
	gone := shop()
	delete(gone.Endpoints, endpointKey("way1"))
	swapped := edit(shop(), "way1", func(e *dataplane.Endpoint) { e.Addresses = workloadAddrs(1) })
	swapped = edit(swapped, "way2", func(e *dataplane.Endpoint) { e.Addresses = workloadAddrs(0) })
	for name, c := range map[string]struct {
		change func(b *bridged)
		next   dptest.State
		keeps  bool
	}{
		"a port leaves": {func(b *bridged) { b.release(t, "way1") }, shop(), true},
		"a new bridge": {func(b *bridged) {
			runIP(t, b.node, "link", "del", "dev", "br0")
			b.remake(t)
			b.enslave(t, "way1", true)
			b.enslave(t, "way2", true)
		}, shop(), true},
		"an endpoint goes":                        {func(*bridged) {}, gone, false},
		"an endpoint without a bridge is removed": {func(b *bridged) { b.release(t, "way1") }, gone, false},
		"addresses move":                          {func(*bridged) {}, swapped, false},
		"addresses of endpoints without a bridge move": {func(b *bridged) {
			b.release(t, "way1")
			b.release(t, "way2")
		}, swapped, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, policyTurns := range []bool{false, true} {
				cfg := onBridge(classes)
				b := newOnBridge(t, cfg)
				b.become(t, shop())
				known := b.opened(t, 0, 2)
				require.NoError(t, b.plane.Close())
				c.change(b)
				b.plane, b.at = openWith(t, b.node, cfg), dptest.NewState()
				next := c.next
				if policyTurns && next.Endpoints[endpointKey("way1")] != nil {
					_, tiers := denied(shop())
					next, _ = denied(next)
					next = edit(next, "way1", func(e *dataplane.Endpoint) { e.Egress = tiers })
				}
				b.become(t, next)
				if c.keeps {
					b.requireOpen(t, known, true, "S116")
				} else {
					require.Empty(t, b.ofWorkloads(t))
				}
				if policyTurns && c.keeps {
					for _, w := range slices.Concat(b.fresh(at(0), b.out), b.fresh(at(0), at(1))) {
						require.False(t, w.passes(t, b.wire), "%s", w.Flow)
					}
				}
			}
		})
	}
}

// S171: a bridged endpoint sends to its own floating address, and policy decides about the packets.
// If frames between ports traverse the hooks, the port must be in hairpin mode. The kernel
// translates such a frame at the bridge, which otherwise sends no frame back to its port.
func TestWireBridgedOwnFloating(t *testing.T) { nfttest.EachForm(t, testWireBridgedOwnFloating) }

func testWireBridgedOwnFloating(t *testing.T, classes render.ClassesConfig) {
	b := newOnBridge(t, onBridge(classes))
	floating := addrs("10.96.0.9", "fd00:96::9")
	sent := 0
	for _, c := range []struct {
		call, hairpin string
		passes        bool
	}{{"0", "off", true}, {"1", "off", false}, {"1", "on", true}} {
		b.callHooks(t, c.call)
		runIP(t, b.node, "link", "set", "dev", "way2", "type", "bridge_slave", "hairpin", c.hairpin)
		for _, s := range []dptest.State{shop(), closedTo("way2"), closedFrom("way2")} {
			closed := s.Endpoints[endpointKey("way2")].Ingress != nil || s.Endpoints[endpointKey("way2")].Egress != nil
			b.become(t, edit(s, "way2", func(e *dataplane.Endpoint) {
				for family, a := range workloadAddrs(1) {
					e.NATs = append(e.NATs, policy.IPNAT{InternalIP: a, ExternalIP: floating[family]})
				}
			}))
			for _, w := range b.fresh(at(1), at(1)) {
				if !w.Protocol.HasPorts() {
					continue
				}
				w.OrigDst = floating[0]
				if w.Src.Is6() {
					w.OrigDst = floating[1]
				}
				sent++
				require.Equal(t, c.passes && !closed, w.passes(t, b.wire), "%+v, closed %t: %s", c, closed, w.Flow)
			}
		}
	}
	t.Logf("%d packets", sent)
}
