// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// hostile has commands that delete our table, or switch it off, unless it has an owner.
var hostile = []string{
	"flush ruleset", "delete table inet wayleave", "flush table inet wayleave",
	"table inet wayleave { flags dormant; }",
}

// guarded is a node where policy denies packets from the first workload to the second, and allows
// those from the third. The flows have both kinds and both families.
type guarded struct {
	*wire
	state            dptest.State
	forbidden, fine  []wireFlow
	sent, leaked     int
	allowedSent, got int
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{wire: shopWire(t), state: closedFrom("way1")}
	for i := range 32 {
		f := verdict.Flow{Protocol: policy.ProtocolUDP, SrcPort: uint16(20_000 + i), DstPort: 80}
		for family := range 2 {
			g.forbidden = append(g.forbidden, pairFlow(0, 1, family, f))
			g.fine = append(g.fine, pairFlow(2, 1, family, f))
		}
	}
	return g
}

// volley sends each flow once.
func (g *guarded) volley(t *testing.T) {
	t.Helper()
	for _, arrived := range g.wire.volley(t, g.forbidden) {
		g.sent++
		if arrived {
			g.leaked++
		}
	}
	for _, arrived := range g.wire.volley(t, g.fine) {
		g.allowedSent++
		if arrived {
			g.got++
		}
	}
}

// until sends until a function returns.
func (g *guarded) until(t *testing.T, do func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	for {
		g.volley(t)
		select {
		case err := <-done:
			return err
		default:
		}
	}
}

// attack runs nft, whose change the kernel may refuse.
func attack(ns *netns.NS, script string) error {
	return ns.Do(func() error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(script)
		_ = cmd.Run()
		return nil
	})
}

// S174: other processes try to delete the table under traffic. No denied packet passes, and no
// allowed packet is lost.
func TestWireOwnedTableCannotBeRemoved(t *testing.T) {
	nfttest.EachForm(t, testWireOwnedTableCannotBeRemoved)
}

func testWireOwnedTableCannotBeRemoved(t *testing.T, classes render.ClassesConfig) {
	g := newGuarded(t)
	d := open(t, g.node, render.Config{Classes: classes})
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), g.state)))
	nstest.SkipUnlessOwned(t, d.Stats().Owned)
	for range 10 {
		for _, script := range hostile {
			require.NoError(t, g.until(t, func() error { return attack(g.node, script) }))
		}
	}
	t.Logf(
		"%d attacks: %d forbidden packets, %d passed; %d allowed, %d passed", 10*len(hostile), g.sent, g.leaked,
		g.allowedSent, g.got,
	)
	require.Zero(t, g.leaked)
	require.Equal(t, g.allowedSent, g.got)
	require.NoError(t, d.Resync(t.Context()))
	require.EqualValues(t, 1, d.Stats().Readings, "no other process has changed the table")
}

// If another process deletes a table without an owner, denied packets pass until the driver's
// Resync restores it.
func TestWireSharedTableIsRestored(t *testing.T) { nfttest.EachForm(t, testWireSharedTableIsRestored) }

func testWireSharedTableIsRestored(t *testing.T, classes render.ClassesConfig) {
	for _, script := range hostile {
		g := newGuarded(t)
		d := openWith(t, g.node, nft.Config{Renderer: render.Config{Classes: classes}, Shared: true})
		require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), g.state)))
		require.False(t, d.Stats().Owned)
		g.volley(t)
		require.Zero(t, g.leaked)
		require.NoError(t, attack(g.node, script))
		g.volley(t)
		require.NotZero(t, g.leaked, script)
		require.NoError(t, d.Resync(t.Context()))
		g.leaked = 0
		g.volley(t)
		require.Zero(t, g.leaked, script)
		require.EqualValues(t, 1, d.Stats().Repairs)
	}
}

// During an upgrade from a version without table owners under traffic, no denied packet passes. A
// packet that is in a chain at that moment may be lost, because the maps of the deleted table are
// empty for it.
func TestWireAdoptUnowned(t *testing.T) { nfttest.EachFormInParallel(t, testWireAdoptUnowned) }

func testWireAdoptUnowned(t *testing.T, classes render.ClassesConfig) {
	g := newGuarded(t)
	batch := dptest.Transition(dptest.NewState(), g.state)
	cfg := nft.Config{Renderer: render.Config{Classes: classes}}
	for range 20 {
		shared := cfg
		shared.Shared = true
		old := openWith(t, g.node, shared)
		require.NoError(t, old.Teardown(t.Context()))
		require.NoError(t, old.Apply(t.Context(), batch))
		require.NoError(t, old.Close())
		next := openWith(t, g.node, cfg)
		require.NoError(t, g.until(t, func() error { return next.Apply(t.Context(), batch) }))
		nstest.SkipUnlessOwned(t, next.Stats().Owned)
		require.NoError(t, next.Close())
	}
	t.Logf(
		"%d adoptions: %d forbidden packets, %d passed; %d allowed, %d lost", 20, g.sent, g.leaked, g.allowedSent,
		g.allowedSent-g.got,
	)
	require.Zero(t, g.leaked)
}

// Every call of a second agent with the same table returns an error without an object, and the
// first one's table stays unchanged.
func TestSecondAgent(t *testing.T) { nfttest.EachForm(t, testSecondAgent) }

func testSecondAgent(t *testing.T, classes render.ClassesConfig) {
	g := newGuarded(t)
	first := open(t, g.node, render.Config{Classes: classes})
	require.NoError(t, first.Apply(t.Context(), dptest.Transition(dptest.NewState(), g.state)))
	nstest.SkipUnlessOwned(t, first.Stats().Owned)
	before := generation(t, g.node)
	second := open(t, g.node, render.Config{Classes: classes})
	for _, err := range []error{
		second.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())),
		second.Apply(t.Context(), dataplane.Batch{}),
		second.Resync(t.Context()), second.Teardown(t.Context()),
	} {
		var other *applier.OwnedError
		require.ErrorAs(t, err, &other)
		objects, general := dataplane.ApplyErrors(err)
		require.Empty(t, objects)
		require.True(t, general)
	}
	require.Equal(t, before, generation(t, g.node))
	require.Zero(t, second.Stats().Transactions)
	require.Zero(t, second.Stats().Readings)
	g.volley(t)
	require.Zero(t, g.leaked)
	require.NoError(t, first.Close())
	require.NoError(t, second.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())))
}

// S168: if another process has the table, the owners of addresses cannot be read. The first call
// after that process reads them, and ends the connections of moved addresses.
func TestOwnersAreReadOnceTableIsFree(t *testing.T) {
	nfttest.EachForm(t, testOwnersAreReadOnceTableIsFree)
}

func testOwnersAreReadOnceTableIsFree(t *testing.T, classes render.ClassesConfig) {
	b := newTracked(t, classes, shop())
	nstest.SkipUnlessOwned(t, b.plane.Stats().Owned)
	b.connect(t, "way4")
	b.opened(t, 0, 1)
	second := open(t, b.node, render.Config{Classes: classes})
	var other *applier.OwnedError
	require.ErrorAs(t, second.Apply(t.Context(), dptest.Transition(dptest.NewState(), newOwnerOf())), &other)
	require.NoError(t, b.plane.Close())
	require.NoError(t, second.Resync(t.Context()))
	require.NotZero(t, second.ConntrackStats().EndedAddresses)
}
