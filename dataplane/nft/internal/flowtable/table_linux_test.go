// SPDX-License-Identifier: Apache-2.0

package flowtable_test

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/flowtable"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

func newTable(t *testing.T, ns *netns.NS, uplinks ...string) *flowtable.Table {
	t.Helper()
	table, err := flowtable.New(flowtable.Config{NetNS: ns.FD(), PolicyTable: "test", Uplinks: uplinks})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, table.Close()) })
	return table
}

// own returns an address of each family for each of n interfaces, one of them twice.
func own(n int) (out []flowtable.Address) {
	for i := range n {
		name := fmt.Sprintf("way%d", i)
		out = append(out, flowtable.Address{
			Interface: name, Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}),
		}, flowtable.Address{Interface: name, Addr: netip.MustParseAddr(fmt.Sprintf("fd00::%x", i))})
	}
	return append(out, out[0])
}

// Deleting an absent table succeeds, and a refused table leaves no objects.
func TestDeleteWithoutTable(t *testing.T) {
	ns := nstest.New(t)
	table := newTable(t, ns, "up0")
	for range 2 {
		require.NoError(t, table.Delete())
		found, err := table.Exists()
		require.NoError(t, err)
		require.False(t, found)
		// There are no such interfaces, or no flowtables.
		err = table.Install(own(1), []string{"up0"})
		var missing *dataplane.FeatureError
		require.ErrorAs(t, err, &missing)
		require.Equal(t, "nft_flow_offload", missing.Module)
		require.ErrorContains(t, err, "flowtable: add table inet test-flowtable: the kernel has no flowtables")
	}
	require.NoError(t, table.Install(nil, []string{"up0"}), "no address")
	require.NoError(t, table.Install(own(1), nil), "no interface")
	require.Empty(t, nstest.NFT(t, ns, "", "list", "tables"))
}

// After Close, nothing is written or read.
func TestClosedTable(t *testing.T) {
	ns := nstest.New(t)
	table, err := flowtable.New(flowtable.Config{NetNS: ns.FD(), PolicyTable: "test"})
	require.NoError(t, err)
	require.NoError(t, table.Close())
	nstest.NFT(t, ns, "", "add table inet test-flowtable")
	_, err = table.Exists()
	require.ErrorIs(t, err, os.ErrClosed)
	require.ErrorIs(t, table.Delete(), os.ErrClosed)
	require.Error(t, table.Install(own(1), []string{"up0"}))
	require.Equal(t, "table inet test-flowtable\n", nstest.NFT(t, ns, "", "list", "tables"))
}

// A table that has no owner is deleted, too.
func TestDeleteOtherTable(t *testing.T) {
	ns := nstest.New(t)
	nstest.NFT(t, ns, "", "add table inet test-flowtable; add table inet test")
	table := newTable(t, ns)
	found, err := table.Exists()
	require.NoError(t, err)
	require.True(t, found)
	require.NoError(t, table.Delete())
	require.Equal(t, "table inet test\n", nstest.NFT(t, ns, "", "list", "tables"))
}
