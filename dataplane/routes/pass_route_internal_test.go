// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// Throw and blackhole routes are deleted last, in the order of the Keeper's tables. A throw route
// of the first table leads to a blackhole route of the next table, and must not outlive the
// blackhole route.
func TestOrderOfDeletions(t *testing.T) {
	change := func(table uint32, bits int, typ uint8) routeChange {
		dst := netip.PrefixFrom(netip.MustParseAddr("10.0.2.0"), bits)
		route := &rtnl.Route{Dst: dst, Table: table, Type: typ}
		slot := &routeSlot{key: routeKey{dst: dst, table: table}, strays: []stray{{route: *route}}}
		return drop(slot, slot.strays, nil)[0]
	}
	const first, second = 22361, DefaultTable
	device, block := change(first, 26, rtnl.TypeUnicast), change(first, 26, rtnl.TypeBlackhole)
	throw, own := change(first, 32, rtnl.TypeThrow), change(second, 32, rtnl.TypeBlackhole)
	before, after, last := splitDeletions([]routeChange{device, block, own, throw}, nil, []uint32{first, second})
	require.Empty(t, before)
	require.Equal(t, []routeChange{device}, after)
	require.Equal(t, []routeChange{block, throw, own}, last)
}
