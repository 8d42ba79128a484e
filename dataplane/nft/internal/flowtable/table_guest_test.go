// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package flowtable_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// The table as nft lists it.
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

func TestOffer(t *testing.T) {
	ns := nstest.New(t)
	nstest.NewPeer(t, ns, "up0", "192.0.2.1/24")
	nstest.NewPeer(t, ns, "way0", "198.51.100.1/24")
	table := newTable(t, ns, "up0", "up0")
	for range 3 {
		require.NoError(t, table.Offer(own(1), exists))
		require.Equal(t, listing, nstest.NFT(t, ns, "", "list", "ruleset"))
		require.NoError(t, table.Withdraw())
		require.Empty(t, nstest.NFT(t, ns, "", "list", "ruleset"))
	}
}

// One message has at most 255 interfaces.
func TestOfferToManyInterfaces(t *testing.T) {
	const n = 300
	ns := nstest.New(t)
	nstest.NewPeer(t, ns, "up0", "192.0.2.1/24")
	for i := range n {
		nstest.NewPeer(t, ns, fmt.Sprintf("way%d", i))
	}
	table := newTable(t, ns, "up0", "absent")
	require.NoError(t, table.Offer(own(n), exists))
	text := nstest.NFT(t, ns, "", "list", "ruleset")
	_, devices, _ := strings.Cut(text, "devices = {")
	devices, _, _ = strings.Cut(devices, "}")
	require.Len(t, strings.Split(devices, ","), n+1)
}
