// SPDX-License-Identifier: Apache-2.0

package rtnl_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// In a batch of several system calls, each refused change is reported with its index, and all
// others are applied.
func TestRefusedChangesHaveTheirIndex(t *testing.T) {
	_, conn, a := open(t)
	const n = 7000
	for name, bad := range map[string]func(i int) bool{
		"none": func(int) bool { return false }, "every third": func(i int) bool { return i%3 == 0 },
		"all": func(int) bool { return true }, "the last": func(i int) bool { return i == n-1 },
	} {
		var b rtnl.Batch
		addr := netip.MustParseAddr("10.0.0.0")
		made := map[netip.Prefix]bool{}
		var want []int
		for i := range n {
			r := route(addr.String()+"/32", a.Index)
			if bad(i) {
				r.Index = 9999
				want = append(want, i)
			} else {
				made[r.Dst] = true
			}
			b.AddRoute(&r)
			addr = addr.Next()
		}
		require.Equal(t, n, b.Len())
		var refused []int
		require.NoError(t, conn.Do(&b, func(i int, err error) {
			require.ErrorIs(t, err, rtnl.ErrNotFound)
			refused = append(refused, i)
		}), name)
		require.Equal(t, want, refused, name)
		listed, err := list(conn, rtnl.RouteFilter{Family: 4, Table: table, Protocol: protocol})
		require.NoError(t, err)
		require.Len(t, listed, len(made), name)
		b.Reset()
		for _, r := range listed {
			require.True(t, made[r.Dst], "%s: %s", name, r.Dst)
			b.DeleteRoute(&r)
		}
		require.NoError(t, conn.Do(&b, func(i int, err error) { require.NoError(t, err) }))
	}
	var empty rtnl.Batch
	require.NoError(t, conn.Do(&empty, nil))
	require.Empty(t, empty.Encoded())
}
