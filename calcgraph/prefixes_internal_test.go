// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gaissmai/bart"
	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
)

// TestTableAgainstList checks what RouteResolver needs of a bart.Table, also the order of prefixes. It
// inserts and deletes at random, and compares each result with a scan of a map.
func TestTableAgainstList(t *testing.T) {
	for family, make := range map[string]func(uint64, int) netip.Prefix{"v4": randomV4, "v6": randomV6} {
		t.Run(family, func(t *testing.T) {
			const seed = 7
			rng := rand.New(rand.NewPCG(seed, 0))
			var table bart.Table[netip.Prefix]
			known := map[netip.Prefix]bool{}
			for i := range 6000 {
				p := make(rng.Uint64(), rng.IntN(1000))
				if rng.IntN(3) == 0 {
					table.Delete(p)
					delete(known, p)
				} else {
					table.Insert(p, p)
					known[p] = true
				}
				q := make(rng.Uint64(), rng.IntN(1000))
				_, ok := table.Get(q)
				require.Equal(t, known[q], ok, "seed %d step %d: get %s", seed, i, q)
				checkAround(t, &table, known, q)
			}
			for p := range known {
				table.Delete(p)
				table.Delete(p)
			}
			require.Zero(t, table.Size())
		})
	}
}

func checkAround(t *testing.T, table *bart.Table[netip.Prefix], known map[netip.Prefix]bool, q netip.Prefix) {
	t.Helper()
	var around, within, wantAround, wantWithin []netip.Prefix
	for p, v := range table.Supernets(q) {
		require.Equal(t, p, v)
		around = append(around, p)
	}
	for p, v := range table.Subnets(q) {
		require.Equal(t, p, v)
		within = append(within, p)
	}
	for p := range known {
		if p.Bits() <= q.Bits() && p.Contains(q.Addr()) {
			wantAround = append(wantAround, p)
		}
		if p.Bits() >= q.Bits() && q.Contains(p.Addr()) {
			wantWithin = append(wantWithin, p)
		}
	}
	slices.SortFunc(wantAround, func(a, b netip.Prefix) int { return b.Bits() - a.Bits() })
	slices.SortFunc(wantWithin, dataplane.ComparePrefixes)
	require.Equal(t, wantAround, around, "around %s", q)
	require.Equal(t, wantWithin, within, "within %s, in order", q)
}

// randomV4 and randomV6 return prefixes of all lengths that often contain each other.
func randomV4(bits uint64, length int) netip.Prefix {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(bits)&0x8000_8087)
	return netip.PrefixFrom(netip.AddrFrom4(b), length%33).Masked()
}

func randomV6(bits uint64, length int) netip.Prefix {
	var b [16]byte
	b[0], b[7], b[8], b[15] = byte(bits&0x80), byte(bits>>8&3), byte(bits>>16&0x81), byte(bits>>24&7)
	return netip.PrefixFrom(netip.AddrFrom16(b), length%129).Masked()
}

// TestClaimsOfManyNodes: if many nodes claim an address, the search for the claims of one node does
// not iterate over all.
func TestClaimsOfManyNodes(t *testing.T) {
	const count = 100_000
	r := &RouteResolver{cfg: RouteResolverConfig{Node: "me"}}
	e := &routeEntry{}
	name := func(i int) string { return fmt.Sprintf("a-rather-long-name-of-a-node-%06d", i) }
	for i := range count {
		e.claims = append(e.claims, claim{kind: claimHost, count: 1, node: name(2 * i)})
	}
	e.claims = append(e.claims, claim{kind: claimBorrowed, lender: 24, count: 1, node: "z"})
	require.True(t, r.claimed(e, "z"), "for any lender")
	start := time.Now()
	for i := range count / 5 {
		require.Equal(t, i%2 == 0, r.claimed(e, name(i)))
	}
	require.Less(t, time.Since(start), 3*time.Second) // typically a hundredth of this; with an iteration, more
}

// Empty reports whether the node has no state, for tests.
func (r *RouteResolver) Empty() bool {
	return len(r.dirty)+len(r.endpoints.m) == 0 && r.Stats() == RouteStats{}
}

// Empty reports whether the node has no state, for tests.
func (r *TunnelResolver) Empty() bool {
	return len(r.tunnels.m)+len(r.claims.m)+len(r.dirty.m) == 0
}
