// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
)

// Many edits of large prefixes between two updates do not visit all addresses each. The classes are
// those of single edits.
func TestEditsOfLargePrefixesAreBounded(t *testing.T) {
	const hosts, edits = 2000, 200
	for name, prefix := range map[string]string{"with the addresses": "10.0.0.0/8", "elsewhere": "20.0.0.0/7"} {
		t.Run(name, func(t *testing.T) {
			c := New(Config{Number: func(h uint32) uint32 { return h }})
			m := c.v4
			lists := sets.NewLists()
			set := sets.NewIPSet("s:a", &lists)
			set.Replace(&dataplane.IPSetUpdate{ID: "s:a"})
			p := c.Set(set)
			c.Use(p)
			other := c.List([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")})
			for i := range hosts {
				m.editHost([4]byte{10, 0, byte(i >> 8), byte(i)}, other, true)
			}
			c.Update(func(*Class) {})
			n := netip.MustParsePrefix(prefix)
			members := []dataplane.Member{{Prefix: n}}
			for range edits / 2 {
				set.Update(&dataplane.IPSetDelta{Added: members})
				set.Update(&dataplane.IPSetDelta{Removed: members})
			}
			set.Update(&dataplane.IPSetDelta{Added: members})
			require.True(t, m.ranges.dirty)
			require.Less(t, m.ranges.visits, 2*(maxVisits+moveVisits)*hosts)
			require.Less(t, m.ranges.visits, edits/2*hosts)
			c.Update(func(*Class) {})
			require.Zero(t, m.ranges.visits)
			require.Equal(t, n.Contains(netip.MustParseAddr("10.0.0.1")), m.class([4]byte{10, 0, 0, 1}).Has(p))
			require.True(t, m.prefixClass(n.Addr().As4()).Has(p))
		})
	}
}
