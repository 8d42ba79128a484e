// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
)

// S168, S173: addresses move to another owner under a flood of their connections, with and without
// Finish. No packet reaches or leaves the new owner, whose policy denies everything. No packet of
// other connections is lost.
func TestWireHandoverFlood(t *testing.T) { nfttest.EachForm(t, testWireHandoverFlood) }

func testWireHandoverFlood(t *testing.T, classes render.ClassesConfig) {
	for i, h := range handovers() {
		if h.iface == "way2" {
			continue // its former owner has the same interface
		}
		if testing.Short() && i%2 == 0 {
			continue
		}
		stale := []conntrack.Policy{conntrack.Keep, conntrack.End}[i%2]
		t.Run(h.name, func(t *testing.T) { floodHandover(t, classes, stale, h, wireRounds(1, 25)) })
	}
}

func floodHandover(t *testing.T, classes render.ClassesConfig, stale conntrack.Policy, h handover, rounds int) {
	t.Helper()
	b := &tracked{wire: shopWire(t), at: dptest.NewState()}
	runtime.UnlockOSThread()
	b.connect(t, "way4")
	b.plane = openWith(t, b.node, nft.Config{
		Renderer: render.Config{Classes: classes, TCPFromSYN: true}, ConntrackPolicy: stale,
	})
	n := &worldFlood{wire: b.wire, fds: map[string]int{}}
	from := h.from
	if from == nil {
		from = shop
	}
	sum, leaked, others, lost := 0, 0, 0, 0
	for round := range rounds {
		for _, a := range workloadAddrs(1) {
			b.setRoute(t, a, "way2")
		}
		b.become(t, from())
		var old, rest []wireFlow
		for range 6 {
			for _, w := range both(append(b.opened(t, 0, 1), b.opened(t, 1, 0)...)) {
				if w.Protocol.HasPorts() && w.Protocol != 132 {
					if w.to.Iface == "way2" {
						w.to.Iface = h.iface
					} else {
						w.from.Iface = h.iface
					}
					old = append(old, w)
				}
			}
			for _, w := range both(append(b.opened(t, 0, 2), b.opened(t, 2, 0)...)) {
				if w.Protocol.HasPorts() && w.Protocol != 132 {
					rest = append(rest, w)
				}
			}
		}
		n.prepare(t, append(old, rest...))
		sent := n.during(t, func() {
			for i, s := range h.states() {
				applyVariant(t, b.plane, dptest.Transition(b.at, s), round+i)
				b.at = s
			}
			applyVariant(t, b.plane, dataplane.Batch{}, round)
		})
		for i, got := range n.arrived(t) {
			if i < len(old) {
				sum += sent
				leaked += got
			} else {
				others += sent
				lost += sent - got
			}
		}
	}
	t.Logf(
		"%d handovers, %d packets of old connections, %d passed; %d of others, %d lost; %d connections ended",
		rounds, sum, leaked, others, lost, b.plane.ConntrackStats().EndedAddresses,
	)
	require.Zero(t, leaked, "packets of old connections that the new owner received or sent")
	require.Zero(t, lost, "packets of other connections that were lost")
	require.NotZero(t, b.plane.ConntrackStats().EndedAddresses)
}
