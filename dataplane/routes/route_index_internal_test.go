// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// After random changes, each route is on one list. This is the list of its interface, unless other
// interfaces may affect the route. The counts of sources are right, too.
func TestRoutesAreListedByInterface(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	s, l := newRouteStore(219, []uint32{254}), &links{}
	for i, name := range []string{"a", "b"} {
		l.update(linkEvent(i+1, name, true), l.since(0))
	}
	for step := range 5000 {
		r := Route{
			Dst:   netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(rng.IntN(6)), 0}), 24),
			Class: Class(rng.IntN(3) - 1), Interface: []string{"a", "b", ""}[rng.IntN(3)],
		}
		if rng.IntN(2) == 0 {
			r.Gateway = netip.MustParseAddr("192.0.2.9")
		}
		if rng.IntN(3) == 0 {
			r.Source = netip.AddrFrom4([4]byte{192, 0, 2, byte(rng.IntN(2))})
		}
		known := rtnl.Route{
			Dst: r.Dst, Table: 254, Protocol: 219, Type: rtnl.TypeUnicast, Scope: rtnl.ScopeLink,
			Index: 1 + rng.IntN(2),
		}
		switch rng.IntN(5) {
		default:
			s.change(r, false)
		case 1:
			s.change(r, true)
		case 2:
			s.observe(&rtnl.Event{Group: rtnl.GroupRoutes, Route: known, Gone: rng.IntN(2) == 0}, uint64(step+1), l)
		case 3:
			f := newLinkEvents()
			deleted := rng.IntN(2) == 0
			f.add(rtnl.LinkChange{
				Index: known.Index, Name: l.nameOf(known.Index), Flushed: true, Deleted: deleted,
			}, uint64(step+1))
			s.flush(f)
			present, strays := s.over(known.Index)
			require.Falsef(t, present || deleted && strays, "step %d", step)
		case 4:
			for key, slot := range s.slots {
				if len(slot.claims)+len(slot.strays) == 0 {
					s.remove(s.slots[key])
				}
			}
		}
		on, sources := 0, map[netip.Addr]int{}
		for name, list := range s.byInterface {
			require.NotEmpty(t, list)
			for i, slot := range list {
				require.Equal(t, name, slot.listedFor)
				require.Equal(t, i+1, slot.position)
				require.Same(t, slot, s.slots[slot.key])
				if name != anyInterface {
					require.Empty(t, slot.strays)
					require.Equal(t, name, slot.claims[0].Interface, fmt.Sprint("step ", step))
				}
				on++
			}
		}
		for _, slot := range s.slots {
			for _, r := range slot.claims {
				if r.Source.IsValid() {
					sources[r.Source]++
				}
			}
		}
		require.Len(t, s.slots, on)
		require.Equal(t, sources, s.sources)
	}
}

// over returns the routes on an interface's list: wanted ones, and others.
func (s *routeStore) over(index int) (present, strays bool) {
	for _, slot := range s.slots {
		present = present || slot.state.present && slot.state.index == index
		for _, o := range slot.strays {
			strays = strays || o.route.Index == index
		}
	}
	return present, strays
}
