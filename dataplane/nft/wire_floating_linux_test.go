// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"context"
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

// S173: one batch changes the sender's policy and maps a floating address to another address, or to
// none. Both states deny packets to the floating address, for which the node has a route.
func TestWireOneMomentOfFloatingAddress(t *testing.T) {
	nfttest.EachForm(t, testWireOneMomentOfFloatingAddress)
}

func testWireOneMomentOfFloatingAddress(t *testing.T, classes render.ClassesConfig) {
	eachFloatingMoment(t, func(t *testing.T, n *floodNet, first, next dptest.State) {
		n.oneMoment(t, render.Config{Classes: classes}, first, next, true, momentChanges(), nil)
	})
}

// S173 holds if the call that changes a floating address is cancelled, and Resync makes the change.
func TestWireOneMomentOfFloatingAddressAfterCancel(t *testing.T) {
	nfttest.EachForm(t, testWireOneMomentOfFloatingAddressAfterCancel)
}

func testWireOneMomentOfFloatingAddressAfterCancel(t *testing.T, classes render.ClassesConfig) {
	eachFloatingMoment(t, func(t *testing.T, n *floodNet, first, next dptest.State) {
		plane := open(t, n.node, render.Config{Classes: classes})
		require.NoError(t, plane.Apply(t.Context(), dptest.Transition(dptest.NewState(), first)))
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		n.alternate(t, first, next, true, wireRounds(20, 500), func(at, next dptest.State) {
			require.ErrorIs(t, plane.Apply(canceled, dptest.Transition(at, next)), context.Canceled)
			require.NoError(t, plane.Resync(t.Context()))
		})
	})
}

// S173 holds if a floating address changes while no process runs.
func TestWireOneMomentOfFloatingAddressAtStart(t *testing.T) {
	nfttest.EachForm(t, testWireOneMomentOfFloatingAddressAtStart)
}

func testWireOneMomentOfFloatingAddressAtStart(t *testing.T, classes render.ClassesConfig) {
	eachFloatingMoment(t, func(t *testing.T, n *floodNet, first, next dptest.State) {
		start := func(_, s dptest.State) {
			plane, err := nft.New(onFastPath(nft.Config{Renderer: render.Config{Classes: classes}, NetNS: n.node.FD()}))
			require.NoError(t, err)
			require.NoError(t, plane.Apply(t.Context(), dptest.Transition(dptest.NewState(), s)))
			require.NoError(t, plane.Close())
		}
		start(dptest.NewState(), first)
		n.alternate(t, first, next, true, wireRounds(20, 500), start)
	})
}

// eachFloatingMoment calls test with a flood to a floating address of way2, and with two states.
// Both deny the flood at the forbidden port. The node has routes for the floating address.
func eachFloatingMoment(t *testing.T, test func(t *testing.T, n *floodNet, first, next dptest.State)) {
	floating, another := addrs("10.96.0.9", "fd00:96::9"), addrs("10.97.0.9", "fd00:97::9")
	for family, name := range []string{"IPv4", "IPv6"} {
		target, second, f := floodTarget(family), another[family], floating[family]
		// state maps the floating address, and denies an address at the forbidden port.
		state := func(to netip.Addr, denied netip.Addr) dptest.State {
			s := bothWays(withMembers(others(), denied.String()), others())
			return edit(s, "way2", func(e *dataplane.Endpoint) {
				e.Addresses = append(e.Addresses, second)
				if to.IsValid() {
					e.NATs = []policy.IPNAT{{ExternalIP: f, InternalIP: to}}
				}
			})
		}
		for kind, next := range map[string]dptest.State{
			"another": state(second, second), "none": state(netip.Addr{}, f),
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				n := newFloodNet(t, family)
				n.route(t, second, 1)
				n.route(t, f, 1)
				b := n.frames(t, 0, floodFrames(floodSource(family), f))
				n.send = func() error { return b.send(len(b.list)) }
				test(t, n, state(target, target), next)
			})
		}
	}
}

// S168: when a workload loses a floating address, the connections to that address end. Their
// packets have the workload's own address after translation. Its other connections continue.
func TestWireLostFloatingAddress(t *testing.T) { nfttest.EachForm(t, testWireLostFloatingAddress) }

func testWireLostFloatingAddress(t *testing.T, classes render.ClassesConfig) {
	floating := netip.MustParseAddr("203.0.113.9")
	b := newTracked(t, classes, edit(shop(), "way2", func(e *dataplane.Endpoint) {
		e.NATs = []policy.IPNAT{{ExternalIP: floating, InternalIP: e.Addresses[0]}}
	}))
	others := b.opened(t, 0, 1)
	var lost []wireFlow
	for _, f := range b.kinds(0, 1) {
		if f.Dst == workloadAddrs(1)[0] {
			f.OrigDst, f.State = floating, verdict.StateEstablished
			f.establish(t, b.wire)
			lost = append(lost, f)
		}
	}
	require.NotEmpty(t, lost)
	b.become(t, edit(shop(), "way2", func(e *dataplane.Endpoint) { e.NATs = nil }))
	tracked := trackedFlows(t, b.node)
	for _, f := range lost {
		require.False(t, tracked[netip.AddrPortFrom(f.Src, f.SrcPort).String()+" > "+f.before().String()], "%s", f.Flow)
	}
	b.requireOpen(t, others, true, "these have no floating address")
}
