// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package flowtable_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/flowtable"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// The table as nft 1.0.6 lists it.
const listing = `table inet test-flowtable {
	set uplinks {
		type ifname
		elements = { "up0" }
	}

	set own4 {
		type ifname . ipv4_addr
		elements = { "way0" . 10.0.0.0 }
	}

	set own6 {
		type ifname . ipv6_addr
		elements = { "way0" . fd00:: }
	}

	flowtable fast {
		hook ingress priority filter
		devices = { up0, way0 }
		counter
	}

	chain forward {
		type filter hook forward priority 10000; policy accept;
		ct state == established iifname . ip saddr @own4 oifname @uplinks flow add @fast
		ct state == established iifname @uplinks oifname . ip daddr @own4 flow add @fast
		ct state == established iifname . ip saddr @own4 oifname . ip daddr @own4 flow add @fast
		ct state == established iifname . ip6 saddr @own6 oifname @uplinks flow add @fast
		ct state == established iifname @uplinks oifname . ip6 daddr @own6 flow add @fast
		ct state == established iifname . ip6 saddr @own6 oifname . ip6 daddr @own6 flow add @fast
	}
}
`

func TestInstall(t *testing.T) {
	nstest.SkipUnlessFlowtables(t, flowtable.Supported())
	ns := nstest.New(t)
	nstest.NewPeer(t, ns, "up0", "192.0.2.1/24")
	nstest.NewPeer(t, ns, "way0", "198.51.100.1/24")
	table := newTable(t, ns, "up0", "up0")
	for range 3 {
		require.NoError(t, table.Install(own(1), []string{"up0", "way0"}))
		requireListed(t, ns)
		require.NoError(t, table.Install(own(1), []string{"up0", "way0"}), "replaces the existing table")
		requireListed(t, ns)
		require.NoError(t, table.Delete())
		require.Empty(t, nstest.NFT(t, ns, "", "list", "ruleset"))
	}
}

// requireListed requires that nft lists the table, and that package ruleset reads the listing.
func requireListed(t *testing.T, ns *netns.NS) {
	t.Helper()
	listed := nstest.NFT(t, ns, "", "list", "ruleset")
	tables, err := ruleset.ParseTables(nstest.WithoutOwner(listed))
	require.NoError(t, err)
	require.Len(t, tables, 1)
	want, err := ruleset.ParseTables(listing) // versions of nft differ in quotation marks and implied matches
	require.NoError(t, err)
	require.True(t, tables[0].Equal(want[0]), listed)
	require.Equal(t, []*ruleset.Flowtable{
		{Name: "fast", Devices: []string{"up0", "way0"}, Counter: true},
	}, tables[0].Flowtables)
}

// The kernel deletes the table with the socket, so it does not outlive its process.
func TestTableEndsWithItsSocket(t *testing.T) {
	nstest.SkipUnlessFlowtables(t, flowtable.Supported())
	ns := nstest.New(t)
	nstest.NewPeer(t, ns, "up0", "192.0.2.1/24")
	table, err := flowtable.New(flowtable.Config{NetNS: ns.FD(), PolicyTable: "test"})
	require.NoError(t, err)
	require.NoError(t, table.Install(own(1), []string{"up0"}))
	other := newTable(t, ns)
	found, err := other.Exists()
	require.NoError(t, err)
	require.True(t, found)
	require.ErrorIs(t, other.Delete(), unix.EPERM, "the table belongs to a running process")
	require.NoError(t, table.Close())
	require.Eventually(t, func() bool {
		found, err := other.Exists()
		return err == nil && !found
	}, 10*time.Second, 10*time.Millisecond)
}

// One message has at most 255 interfaces, and one attribute at most 64 KiB of addresses.
func TestInstallForMany(t *testing.T) {
	nstest.SkipUnlessFlowtables(t, flowtable.Supported())
	const interfaces, addresses = 300, 3000
	ns := nstest.New(t)
	var devices []string
	for i := range interfaces {
		devices = append(devices, fmt.Sprintf("way%d", i))
		nstest.NewPeer(t, ns, devices[i])
	}
	table := newTable(t, ns, "absent")
	require.NoError(t, table.Install(own(addresses), devices))
	text := nstest.NFT(t, ns, "", "list", "ruleset")
	_, list, _ := strings.Cut(text, "devices = {")
	list, _, _ = strings.Cut(list, "}")
	require.Len(t, strings.Split(list, ","), interfaces)
	require.Equal(t, addresses, strings.Count(text, " . 10."))
	require.Equal(t, addresses, strings.Count(text, " . fd00:"))
}
