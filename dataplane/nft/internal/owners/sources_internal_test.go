// SPDX-License-Identifier: Apache-2.0

package owners

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/policy"
)

// sourcesUpdate is an update of an endpoint with AllowedSources.
func sourcesUpdate(name string, sources ...string) *dataplane.EndpointUpdate {
	e := nfttest.EndpointUpdate(name, name, nil, nil, "192.0.2."+strconv.Itoa(len(name)))
	for _, p := range sources {
		e.Endpoint.AllowedSources = append(e.Endpoint.AllowedSources, netip.MustParsePrefix(p))
	}
	return e
}

func downUpdate(e *dataplane.EndpointUpdate) *dataplane.EndpointUpdate {
	e.Endpoint.Down = true
	return e
}

// sourceMove is a list of batches after a state in which "a" has 10.1.0.0/16 and fd00:1::/64. A nil
// batch means the end of a handover.
type sourceMove struct {
	batches [][]dataplane.Event
	// ended has the prefixes whose connections end after the last batch. withheld has the endpoints
	// that gain them.
	ended, withheld []string
}

func sourceMoves() map[string]sourceMove {
	type batches = [][]dataplane.Event
	put, down := sourcesUpdate, downUpdate
	remove := func(name string) dataplane.Event {
		return &dataplane.EndpointRemove{Key: nfttest.ObjectKey(policy.KindWorkloadEndpoint, name)}
	}
	otherMAC, standby := put("a", "10.1.2.3/16", "fd00:1::/64"), put("standby", "10.1.0.0/16")
	passive := down(put("standby", "10.1.0.0/16"))
	otherMAC.Endpoint.MAC = "02:00:00:00:00:01"
	return map[string]sourceMove{
		"the same":            {batches{{put("a", "fd00:1::/64", "10.1.2.3/16")}}, nil, nil},
		"added again at once": {batches{{remove("a"), put("a", "10.1.2.3/16", "fd00:1::/64")}}, nil, nil},
		"narrower":            {batches{{put("a", "10.1.2.0/24", "fd00:1::/64")}}, nil, nil},
		"wider":               {batches{{put("a", "10.0.0.0/8", "fd00:1::/64")}}, nil, nil},
		"gone":                {batches{{remove("a")}}, nil, nil},
		"another MAC":         {batches{{otherMAC}}, []string{"10.1.0.0/16", "fd00:1::/64"}, []string{"a"}},
		"shared":              {batches{{put("b", "10.1.0.0/16")}}, nil, nil},
		"shared, then alone":  {batches{{put("b", "10.1.0.0/16")}, nil, {remove("a")}}, []string{"10.1.0.0/16"}, nil},
		"shared in part":      {batches{{put("b", "10.1.7.0/24")}, nil, {remove("a")}}, []string{"10.1.0.0/16"}, nil},
		"shared, a wider one": {
			batches{{put("b", "0.0.0.0/0")}, nil, {put("a", "fd00:1::/64")}}, []string{"10.1.0.0/16"}, nil,
		},
		"shared, other down": {
			batches{{put("b", "10.1.0.0/16")}, nil, {down(put("b"))}, nil, {remove("a")}}, nil, nil,
		},
		"to another": {
			batches{{remove("a"), put("b", "10.1.9.0/24")}}, []string{"10.1.0.0/16"}, []string{"b"},
		},
		"to another, later": {
			batches{{remove("a")}, nil, {put("b", "10.1.9.0/24")}}, []string{"10.1.0.0/16"}, []string{"b"},
		},
		"to a wider one":      {batches{{put("b", "0.0.0.0/0"), remove("a")}}, []string{"10.1.0.0/16"}, []string{"b"}},
		"to one that is down": {batches{{remove("a"), down(put("b", "10.1.0.0/24"))}}, []string{"10.1.0.0/16"}, nil},
		"to one down, then up": {
			batches{{remove("a"), down(put("b", "10.1.0.0/24"))}, {put("b", "10.1.0.0/24")}},
			[]string{"10.1.0.0/16"},
			[]string{"b"},
		},
		"standby, one batch": {
			batches{{passive}, nil, {remove("a"), standby}}, []string{"10.1.0.0/16"}, []string{"standby"},
		},
		"standby, a down": {
			batches{{passive}, nil, {down(put("a", "10.1.2.3/16")), standby}},
			[]string{"10.1.0.0/16"},
			[]string{"standby"},
		},
		"wider as it goes down": {
			batches{{down(put("a", "10.0.0.0/8"))}, nil, {put("b", "10.1.0.0/24")}},
			[]string{"10.1.0.0/16"},
			[]string{"b"},
		},
		"a shared prefix, a gone as b goes down": {
			batches{{put("b", "10.1.0.0/16")}, nil, {remove("a"), down(put("b", "10.1.0.0/16"))}},
			[]string{"10.1.0.0/16"},
			nil,
		},
		"the same, b comes up before it is ended": {
			batches{{put("b", "10.1.0.0/16")}, nil, {remove("a"), down(put("b", "10.1.0.0/16"))}, {
				put("b", "10.1.0.0/16"),
			}},
			[]string{"10.1.0.0/16"},
			[]string{"b"},
		},
		"one of two nested prefixes is removed with the other owner": {
			batches{{put("b", "10.1.0.0/16", "10.1.4.0/24")}, nil, {remove("a"), put("b", "10.1.4.0/24")}},
			[]string{"10.1.0.0/16"},
			nil,
		},
	}
}

// sourceMovesOfDown are moves in which endpoints are down.
func sourceMovesOfDown() map[string]sourceMove {
	type batches = [][]dataplane.Event
	put, down := sourcesUpdate, downUpdate
	remove := func(name string) dataplane.Event {
		return &dataplane.EndpointRemove{Key: nfttest.ObjectKey(policy.KindWorkloadEndpoint, name)}
	}
	otherMAC := put("a", "10.1.2.3/16", "fd00:1::/64")
	otherMAC.Endpoint.MAC = "02:00:00:00:00:01"
	return map[string]sourceMove{
		"a down, then b": {
			batches{{down(put("a", "10.1.2.3/16"))}, nil, {put("b", "10.1.2.0/24")}},
			[]string{"10.1.0.0/16"},
			[]string{"b"},
		},
		"a pending, down and up": {
			batches{{otherMAC}, {down(put("a", "10.1.2.3/16"))}, nil, {otherMAC}},
			[]string{"fd00:1::/64"},
			[]string{"a"},
		},
		"both down, one removed": {batches{
			{put("b", "10.1.0.0/16")},
			nil,
			{down(put("a", "10.1.2.3/16")), down(put("b", "10.1.0.0/16"))},
			nil,
			{remove("b"), put("a", "10.1.2.3/16")},
		}, []string{"10.1.0.0/16"}, []string{"a"}},
		"own address of another removed": {batches{
			{down(put("a", "10.1.2.3/16"))},
			nil,
			{nfttest.EndpointUpdate("own", "way9", nil, nil, "10.1.0.9")},
			nil,
			{remove("own"), put("a", "10.1.2.3/16")},
		}, nil, nil},
		"a down and up": {batches{{down(put("a", "10.1.2.3/16"))}, nil, {put("a", "10.1.2.3/16")}}, nil, nil},
		"b down, taken by c, b up": {batches{
			{put("b", "10.1.0.0/16"), remove("a")},
			nil,
			{down(put("b", "10.1.0.0/16"))},
			nil,
			{put("c", "10.1.0.0/16")},
			nil,
			{remove("c"), put("b", "10.1.0.0/16")},
		}, []string{"10.1.0.0/16"}, []string{"b"}},
		"shared, b down, a gone, b up": {batches{
			{put("b", "10.1.0.0/16")},
			nil,
			{down(put("b", "10.1.0.0/16"))},
			nil,
			{remove("a")},
			nil,
			{put("b", "10.1.0.0/16")},
		}, nil, nil},
		"of length zero": {
			batches{{put("gateway", "0.0.0.0/0")}, nil, {remove("gateway"), put("b", "0.0.0.0/0")}}, nil, nil,
		},
	}
}

// S168: AllowedSources are moved if one endpoint loses them and another one has or gains some of
// their addresses. An endpoint that gains some of them is withheld. An endpoint that is down keeps
// its AllowedSources until another endpoint gains them.
func TestMovedSourcesAreEnded(t *testing.T) {
	cases := sourceMoves()
	maps.Copy(cases, sourceMovesOfDown())
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := New()
			endHandover := func() {
				all, _, _ := o.moves()
				o.ended(all)
				o.admitted()
			}
			o.Update(dataplane.Batch{Events: []dataplane.Event{
				sourcesUpdate("a", "10.1.2.3/16", "fd00:1::/64"),
			}})
			endHandover()
			for _, events := range c.batches {
				if events == nil {
					endHandover()
				}
				o.Update(dataplane.Batch{Events: events})
			}
			all, gained, taken := o.moves()
			var got, withheld []string
			for _, p := range all.prefixes {
				got = append(got, p.String())
			}
			require.Equal(t, c.ended, got)
			require.True(t, taken || len(c.withheld) == 0)
			for _, key := range o.newOwnersOf(moves{prefixes: gained.prefixes}) {
				withheld = append(withheld, key.Name)
			}
			require.Equal(t, c.withheld, withheld)
			endHandover()
			require.Empty(t, o.gained)
			all, _, _ = o.moves()
			require.Empty(t, all.prefixes)
		})
	}
}

// The connections of a floating address in a lost prefix end. Those of an endpoint's own address in
// the prefix continue.
func TestFloatingAddressInLostPrefix(t *testing.T) {
	o := New()
	floating := nfttest.EndpointUpdate("floating", "way9", nil, nil, "192.0.2.9")
	floating.Endpoint.NATs = []policy.IPNAT{{
		ExternalIP: netip.MustParseAddr("10.1.0.7"), InternalIP: netip.MustParseAddr("192.0.2.9"),
	}}
	o.Update(dataplane.Batch{Events: []dataplane.Event{
		sourcesUpdate("a", "10.1.0.0/16"), floating, nfttest.EndpointUpdate("own", "way8", nil, nil, "10.1.0.8"),
	}})
	all, _, _ := o.moves()
	o.ended(all)
	o.admitted()
	o.Update(dataplane.Batch{Events: []dataplane.Event{sourcesUpdate("a"), sourcesUpdate("b", "10.1.0.0/16")}})
	_, gained, _ := o.moves()
	ends := o.sourceSelector(gained.prefixes)
	require.True(t, ends(netip.MustParseAddr("10.1.0.6")))
	require.True(t, ends(netip.MustParseAddr("10.1.0.7")))
	require.False(t, ends(netip.MustParseAddr("10.1.0.8")))
}

// The number of lost prefixes that no endpoint gains is bounded.
func TestLostSourcesAreBounded(t *testing.T) {
	o := New()
	for i := range 3 * maxLost {
		e := nfttest.EndpointUpdate("a", "way1", nil, nil, "192.0.2.1")
		e.Endpoint.AllowedSources = []netip.Prefix{
			netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24),
		}
		o.Update(dataplane.Batch{Events: []dataplane.Event{e}})
		all, _, _ := o.moves()
		o.ended(all)
		o.admitted()
		require.LessOrEqual(t, len(o.lost), maxLost)
	}
}

// The search in outermost prefixes gives the same results as contains.
func TestBinarySearchEqualsLinearSearch(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	address := func() netip.Addr {
		b := [16]byte{15: byte(r.IntN(16))}
		if r.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{10, 0, 0, b[15]})
		}
		return netip.AddrFrom16(b)
	}
	hits := 0
	for range 2000 {
		var list []netip.Prefix
		for range r.IntN(6) {
			a := address()
			list = append(list, netip.PrefixFrom(a, a.BitLen()-r.IntN(5)))
		}
		for range 20 {
			a := address()
			require.Equal(t, contains(list, a), containsSorted(outermost(list), a), "%v in %v", a, list)
			if contains(list, a) {
				hits++
			}
		}
	}
	require.Greater(t, hits, 5000)
}
