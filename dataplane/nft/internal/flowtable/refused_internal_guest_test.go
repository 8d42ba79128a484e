// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package flowtable

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/encode"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// refusing is a socket that cannot send while refuse is set.
type refusing struct {
	netlink.Socket
	refuse *bool
}

func (s *refusing) Send(data []byte) error {
	if *s.refuse {
		return unix.ENOBUFS
	}
	return s.Socket.Send(data)
}

// If the table cannot be deleted by a message, it is deleted with its socket. Afterwards it can be
// installed again, also if no new socket could be opened at first.
func TestRefusedDeletion(t *testing.T) {
	nstest.SkipUnlessFlowtables(t, Supported())
	ns := nstest.New(t)
	nstest.NewPeer(t, ns, "up0", "192.0.2.1/24")
	nstest.NewPeer(t, ns, "way0", "198.51.100.1/24")
	table, err := New(Config{NetNS: ns.FD(), PolicyTable: "test", Uplinks: []string{"up0"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, table.Close()) })
	own, devices := []Address{{Interface: "way0", Addr: netip.MustParseAddr("10.0.0.1")}}, []string{"up0", "way0"}
	for _, noSocket := range []error{nil, unix.EMFILE} {
		refuse, dial := false, table.dial
		sock, err := nfnl.Open(nfnl.Config{NetNS: ns.FD()})
		require.NoError(t, err)
		require.NoError(t, table.closeConn())
		table.conn = nfnl.NewConn(&refusing{Socket: sock, refuse: &refuse})
		require.NoError(t, table.Install(own, devices))
		require.Contains(t, nstest.NFT(t, ns, "", "list", "tables"), "test-flowtable")

		refuse = true
		table.dial = func() (*nfnl.Conn, error) {
			if noSocket != nil {
				return nil, noSocket
			}
			return dial()
		}
		require.NoError(t, table.Delete(), noSocket)
		require.Empty(t, nstest.NFT(t, ns, "", "list", "tables"))
		table.dial = dial
		require.NoError(t, table.Delete())
		require.NoError(t, table.Install(own, devices))
		require.Contains(t, nstest.NFT(t, ns, "", "list", "tables"), "test-flowtable")
	}

	// A table that another process owns may still exist if no new socket can be opened.
	require.NoError(t, table.Delete())
	sock, err := nfnl.Open(nfnl.Config{NetNS: ns.FD()})
	require.NoError(t, err)
	other := &Table{name: table.name, conn: nfnl.NewConn(sock), batch: nfnl.NewBatch(), sets: map[string]*ruleset.Set{}}
	other.enc = encode.New(other.batch, ruleset.FamilyINet, other.name, func(name string) *ruleset.Set {
		return other.sets[name]
	})
	require.NoError(t, other.Install(own, devices))
	require.ErrorIs(t, table.Install(own, devices), unix.EPERM)
	table.dial = func() (*nfnl.Conn, error) { return nil, unix.EMFILE }
	require.ErrorIs(t, table.Delete(), unix.EMFILE)
	require.Contains(t, nstest.NFT(t, ns, "", "list", "tables"), "test-flowtable")
	require.NoError(t, other.closeConn())
}
