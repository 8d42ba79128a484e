// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/encode"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// If the kernel has no flowtables, that is logged once, and connections work without them.
func TestFastPathIsOptional(t *testing.T) {
	var log bytes.Buffer
	n := newNetwork(t)
	d := openWith(t, n.node, nft.Config{
		Flowtable: nft.FlowtableConfig{Enabled: true}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	down := edit(shop(), "way3", func(e *dataplane.Endpoint) { e.Down = true })
	at := dptest.NewState()
	for range 2 {
		for _, state := range []dptest.State{shop(), down} {
			require.NoError(t, d.Apply(t.Context(), dptest.Transition(at, state)))
			at = state
			conn := n.dial(t, 0, workloadAddrs(1)[0], 80, waitTimeout)
			require.NotNil(t, conn)
			require.True(t, exchange(conn, waitTimeout))
			require.NoError(t, conn.Close())
		}
	}
	warnings := 1
	if strings.Contains(nstest.NFT(t, n.node, "", "list", "tables"), "table inet wayleave-flowtable\n") {
		warnings = 0
	}
	require.Equal(t, warnings, strings.Count(log.String(), "they work without it"), log.String())
}

// Options that the fast path does not support are errors.
func TestFastPathConfig(t *testing.T) {
	on := nft.FlowtableConfig{Enabled: true}
	for text, cfg := range map[string]nft.Config{
		"ReversePath":    {Renderer: render.Config{ReversePath: true}, Flowtable: on},
		"Bridges":        {Renderer: render.Config{Bridges: []string{"br0"}}, Flowtable: on},
		"Uplinks: way1":  {Flowtable: nft.FlowtableConfig{Enabled: true, Uplinks: []string{"way1"}}},
		`Uplinks: "a/b"`: {Flowtable: nft.FlowtableConfig{Enabled: true, Uplinks: []string{"eth0", "a/b"}}},
	} {
		_, err := nft.New(cfg)
		require.ErrorContains(t, err, text)
	}
}

// A foreign flowtable with our name is deleted by a change and by Resync, whether the fast path is
// enabled or not.
func TestStaleFastPathIsRemoved(t *testing.T) {
	n := newNetwork(t)
	d := openExactly(t, n.node, nft.Config{})
	stale := func() { nstest.NFT(t, n.node, "", "add table inet wayleave-flowtable") }
	gone := func() {
		t.Helper()
		require.NotContains(t, nstest.NFT(t, n.node, "", "list", "tables"), "flowtable")
	}
	stale()
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())))
	gone()
	stale()
	require.NoError(t, d.Resync(t.Context()))
	gone()
	stale()
	require.NoError(t, d.Teardown(t.Context()))
	gone()
	require.NoError(t, d.Close())
	stale()
	require.Error(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())))
	require.Contains(t, nstest.NFT(t, n.node, "", "list", "tables"), "flowtable", "nothing is written after Close")
}

// Another process may own a table with the name of the flowtable's table. Then the change is made
// nevertheless, and the error is reported until that process has ended.
func TestFastPathOfAnotherProcess(t *testing.T) {
	n := newNetwork(t)
	conn, err := nfnl.Dial(nfnl.Config{NetNS: n.node.FD()})
	require.NoError(t, err)
	batch := nfnl.NewBatch()
	encode.New(batch, ruleset.FamilyINet, "wayleave-flowtable", nil).Begin(encode.TableOwner)
	if err := conn.Commit(batch, nil); errors.Is(err, syscall.EOPNOTSUPP) {
		nstest.Skip(t, "needs tables with an owner (Linux 5.12)")
	} else {
		require.NoError(t, err)
	}
	d := openExactly(t, n.node, nft.Config{})
	require.ErrorIs(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())), syscall.EPERM)
	require.Contains(t, nstest.NFT(t, n.node, "", "list", "table", "inet", "wayleave"), "way1", "the change is made")
	require.ErrorIs(t, d.Resync(t.Context()), syscall.EPERM)
	require.NoError(t, conn.Close())
	require.NoError(t, d.Resync(t.Context()))
	require.NotContains(t, nstest.NFT(t, n.node, "", "list", "tables"), "flowtable")
}

// The flowtable is deleted only if BeforeWrite allows that.
func TestFastPathCallsBeforeWrite(t *testing.T) {
	errDenied := errors.New("denied")
	n := newNetwork(t)
	d := openWith(t, n.node, nft.Config{BeforeWrite: func() error { return errDenied }})
	nstest.NFT(t, n.node, "", "add table inet wayleave-flowtable")
	require.ErrorIs(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())), errDenied)
	require.Contains(t, nstest.NFT(t, n.node, "", "list", "tables"), "flowtable")
}
