// SPDX-License-Identifier: Apache-2.0

package owners

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/policy"
)

// S168: an address is moved if the endpoint, the interface or the MAC address of an owner changes.
func TestChangedOwnerMovesAddress(t *testing.T) {
	remove := func(name string) dataplane.Event {
		return &dataplane.EndpointRemove{Key: nfttest.ObjectKey(policy.KindWorkloadEndpoint, name)}
	}
	put := func(name, iface string, addresses ...string) *dataplane.EndpointUpdate {
		return nfttest.EndpointUpdate(name, iface, nil, nil, addresses...)
	}
	down := func(name, iface string, addresses ...string) dataplane.Event {
		e := put(name, iface, addresses...)
		e.Endpoint.Down = true
		return e
	}
	floating := func(name, iface, address, external string) dataplane.Event {
		e := put(name, iface, address)
		e.Endpoint.NATs = []policy.IPNAT{{
			InternalIP: netip.MustParseAddr(address), ExternalIP: netip.MustParseAddr(external),
		}}
		return e
	}
	otherMAC := put("a", "way1", "10.0.0.1")
	otherMAC.Endpoint.MAC = "02:00:00:00:00:01"
	type batches [][]dataplane.Event
	for _, c := range []struct {
		name    string
		batches batches
		stale   []string
	}{
		{"policy alone", batches{{nfttest.EndpointUpdate("a", "way1", []policy.Key{}, nil, "10.0.0.1")}}, nil},
		{"one more", batches{{put("a", "way1", "10.0.0.1", "10.0.0.9")}}, []string{"10.0.0.9"}},
		{"one less", batches{{put("b", "way2", "fd00::2")}}, []string{"10.0.0.2"}},
		{"removed", batches{{remove("b")}}, []string{"10.0.0.2", "fd00::2"}},
		{"removed and added again at once", batches{{remove("b"), put("b", "way2", "10.0.0.2", "fd00::2")}}, nil},
		{
			"removed and added again",
			batches{{remove("b")}, {put("b", "way2", "10.0.0.2", "fd00::2")}},
			[]string{"10.0.0.2", "fd00::2"},
		},
		{"to another endpoint", batches{{put("c", "way3", "10.0.0.2"), remove("b")}}, []string{"10.0.0.2", "fd00::2"}},
		{"another interface", batches{{put("a", "way9", "10.0.0.1")}}, []string{"10.0.0.1"}},
		{"another MAC", batches{{otherMAC}}, []string{"10.0.0.1"}},
		{"a second owner", batches{{put("c", "way3", "10.0.0.2")}}, []string{"10.0.0.2"}},
		{"new", batches{{put("c", "way3", "10.0.0.3")}}, []string{"10.0.0.3"}},
		{"new and gone", batches{{put("c", "way3", "10.0.0.3")}, {remove("c")}}, nil},
		{"of no endpoint", batches{{remove("c")}}, nil},
		{"floating", batches{{floating("a", "way1", "10.0.0.1", "203.0.113.1")}}, []string{"203.0.113.1"}},
		{"down", batches{{down("a", "way1", "10.0.0.1")}}, nil},
		{"down and up", batches{{down("a", "way1", "10.0.0.1")}, {put("a", "way1", "10.0.0.1")}}, nil},
		{"down and gone", batches{{down("a", "way1", "10.0.0.1")}, {remove("a")}}, []string{"10.0.0.1"}},
		{
			"down and up elsewhere",
			batches{{down("a", "way1", "10.0.0.1")}, {put("a", "way9", "10.0.0.1")}},
			[]string{"10.0.0.1"},
		},
		{
			"down, to another",
			batches{{down("a", "way1", "10.0.0.1")}, {put("c", "way3", "10.0.0.1")}},
			[]string{"10.0.0.1"},
		},
		{"new and down", batches{{down("c", "way3", "10.0.0.3")}}, nil},
		{"to one that is down", batches{{down("c", "way3", "10.0.0.1"), remove("a")}}, []string{"10.0.0.1"}},
	} {
		o := New()
		o.Update(dataplane.Batch{Events: []dataplane.Event{
			put("a", "way1", "10.0.0.1"), put("b", "way2", "10.0.0.2", "fd00::2"),
		}})
		o.Forget()
		for _, events := range c.batches {
			o.Update(dataplane.Batch{Events: events})
		}
		all, _, _ := o.movedAddresses()
		require.Equal(t, nfttest.Addresses(c.stale...), all, c.name)
	}
}

// S168: an address that was taken over from an owner that is down does not move again when that
// owner is removed.
func TestRemovedDownOwnerMovesNoAddress(t *testing.T) {
	o := New()
	step := func(want []string, events ...dataplane.Event) {
		t.Helper()
		o.Update(dataplane.Batch{Events: events})
		stale, _, _ := o.movedAddresses()
		require.Equal(t, nfttest.Addresses(want...), stale)
		o.ended(moves{addresses: stale})
	}
	old := nfttest.EndpointUpdate("a", "way1", nil, nil, "10.0.0.1")
	step([]string{"10.0.0.1"}, old)
	blocked := *old.Endpoint
	blocked.Down = true
	step(nil, &dataplane.EndpointUpdate{Key: old.Key, Endpoint: &blocked})
	step([]string{"10.0.0.1"}, nfttest.EndpointUpdate("b", "way2", nil, nil, "10.0.0.1"))
	step(nil, &dataplane.EndpointRemove{Key: old.Key})
	require.Len(t, o.owners, 1)
	step([]string{"10.0.0.1"}, &dataplane.EndpointRemove{Key: nfttest.ObjectKey(policy.KindWorkloadEndpoint, "b")})
	require.Empty(t, o.owners)
	require.Empty(t, o.claims)
}

// If an address gets a second owner, only the second one is withheld.
func TestOnlyTheNewOwnerIsWithheld(t *testing.T) {
	o := New()
	o.Update(dataplane.Batch{Events: []dataplane.Event{nfttest.EndpointUpdate("b", "way2", nil, nil, "10.0.0.1")}})
	o.Forget()
	o.Update(dataplane.Batch{Events: []dataplane.Event{nfttest.EndpointUpdate("a", "way1", nil, nil, "10.0.0.1")}})
	_, _, taken := o.movedAddresses()
	require.Equal(
		t, []policy.Key{nfttest.ObjectKey(policy.KindWorkloadEndpoint, "a")}, o.newOwnersOf(moves{addresses: taken}),
	)
	o.Update(dataplane.Batch{Events: []dataplane.Event{&dataplane.EndpointRemove{
		Key: nfttest.ObjectKey(policy.KindWorkloadEndpoint, "a"),
	}}})
	all, gained, _ := o.movedAddresses()
	require.Equal(t, nfttest.Addresses("10.0.0.1"), all, "the second owner may have had connections")
	require.Empty(t, gained)
}

func TestChangesOfAddresses(t *testing.T) {
	put := func(name, iface, address, external string) dataplane.Event {
		e := nfttest.EndpointUpdate(name, iface, nil, nil, address)
		if external != "" {
			e.Endpoint.NATs = []policy.IPNAT{{
				InternalIP: netip.MustParseAddr(address), ExternalIP: netip.MustParseAddr(external),
			}}
		}
		return e
	}
	o := New()
	o.Update(dataplane.Batch{Events: []dataplane.Event{
		put("a", "way1", "10.0.0.1", "203.0.113.1"), put("b", "way2", "fd00::2", ""),
	}})
	o.Forget()
	o.Update(dataplane.Batch{Events: []dataplane.Event{
		put("b", "way2", "10.0.0.2", "203.0.113.1"), put("a", "way1", "10.0.0.1", ""),
	}})
	a, b := nfttest.ObjectKey(policy.KindWorkloadEndpoint, "a"), nfttest.ObjectKey(policy.KindWorkloadEndpoint, "b")
	require.Equal(t, map[netip.Addr]movedAddress{
		netip.MustParseAddr("10.0.0.2"): {},
		netip.MustParseAddr("fd00::2"):  {former: []owner{{key: b, iface: "way2"}}},
		netip.MustParseAddr("203.0.113.1"): {
			former:   []owner{{key: a, iface: "way1", floating: true, internal: netip.MustParseAddr("10.0.0.1")}},
			floating: true,
		},
	}, o.moved)
	all, gained, taken := o.movedAddresses()
	require.Equal(t, nfttest.Addresses("10.0.0.2", "203.0.113.1", "fd00::2"), all)
	require.Equal(t, nfttest.Addresses("10.0.0.2", "203.0.113.1"), gained)
	require.Equal(t, nfttest.Addresses("203.0.113.1"), taken)
	require.Equal(t, []policy.Key{b}, o.newOwnersOf(moves{addresses: all}))
	require.Equal(t, map[netip.Addr][]string{
		netip.MustParseAddr("10.0.0.1"): {"way1"}, netip.MustParseAddr("10.0.0.2"): {"way2"},
		netip.MustParseAddr("fd00::2"): nil, netip.MustParseAddr("203.0.113.1"): nil,
	}, o.TakeChanges().Interfaces)
	require.Equal(t, Changes{}, o.TakeChanges())
}

// S168: an endpoint gains an address as its own. The address is not moved if only this endpoint
// could send from it before. It is moved if another endpoint could too.
func TestOwnAddressThatWasInAllowedSources(t *testing.T) {
	const a = "10.1.2.3"
	own := func(name string) dataplane.Event { return nfttest.EndpointUpdate(name, name, nil, nil, a) }
	gone := &dataplane.EndpointRemove{Key: nfttest.ObjectKey(policy.KindWorkloadEndpoint, "other")}
	for name, c := range map[string]struct {
		other string // AllowedSources of the other endpoint
		batch []dataplane.Event
		taken bool
		moved bool
	}{
		"of no other":                {"10.2.0.0/16", []dataplane.Event{own("b")}, false, false},
		"of another":                 {"10.1.2.0/24", []dataplane.Event{own("b")}, false, true},
		"of another that is removed": {"10.1.2.0/24", []dataplane.Event{gone, own("b")}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := New()
			o.Update(dataplane.Batch{Events: []dataplane.Event{
				sourcesUpdate("b", "10.1.0.0/16"), sourcesUpdate("other", c.other),
			}})
			all, _, _ := o.moves()
			o.ended(all)
			o.admitted()
			o.Update(dataplane.Batch{Events: c.batch})
			all, _, taken := o.moves()
			require.Equal(t, c.moved, slices.Contains(all.addresses, netip.MustParseAddr(a)))
			require.Equal(t, c.taken, taken)
		})
	}
}

// An address whose owner was never admitted is not moved when another endpoint gets it into its
// AllowedSources.
func TestPendingAddressBecomesSource(t *testing.T) {
	o := New()
	pending := nfttest.EndpointUpdate("pending", "way1", nil, nil, "10.1.9.9")
	o.Update(dataplane.Batch{Events: []dataplane.Event{pending}})
	o.Update(dataplane.Batch{Events: []dataplane.Event{downUpdate(pending), sourcesUpdate("b", "10.1.0.0/16")}})
	require.NotContains(t, o.moved, netip.MustParseAddr("10.1.9.9"))
}

// S168: an endpoint that gains a moved address in its AllowedSources is withheld, like a new owner.
// An endpoint whose AllowedSources already had the address is not.
func TestNewSendersAreWithheld(t *testing.T) {
	sender := func(name string, sources ...string) dataplane.Event {
		e := nfttest.EndpointUpdate(name, name, nil, nil, "192.0.2.1")
		for _, p := range sources {
			e.Endpoint.AllowedSources = append(e.Endpoint.AllowedSources, netip.MustParsePrefix(p))
		}
		return e
	}
	o := New()
	o.Update(dataplane.Batch{Events: []dataplane.Event{
		nfttest.EndpointUpdate("a", "way1", nil, nil, "10.0.0.1"), sender("old", "10.0.0.0/24"), sender("new"),
	}})
	o.Forget()
	o.admitted()
	o.Update(dataplane.Batch{Events: []dataplane.Event{
		&dataplane.EndpointRemove{Key: nfttest.ObjectKey(policy.KindWorkloadEndpoint, "a")},
		sender("old", "10.0.0.0/24"), sender("new", "10.0.0.0/24"),
	}})
	_, gained, taken := o.movedAddresses()
	require.Equal(t, nfttest.Addresses("10.0.0.1"), gained)
	require.Equal(t, nfttest.Addresses("10.0.0.1"), taken)
	require.Equal(
		t, []policy.Key{nfttest.ObjectKey(policy.KindWorkloadEndpoint, "new")}, o.newOwnersOf(moves{addresses: taken}),
	)
	o.ended(moves{addresses: taken})
	o.admitted()
	require.Empty(t, o.gained)
	require.Empty(t, o.newOwnersOf(moves{addresses: taken}))
}

// S168: Adopt compares the owners with the interfaces in an earlier process's table.
func TestAdoptedOwners(t *testing.T) {
	a := netip.MustParseAddr("10.0.0.1")
	up := nfttest.EndpointUpdate("a", "way1", nil, nil, a.String())
	down := nfttest.EndpointUpdate("a", "way1", nil, nil, a.String())
	down.Endpoint.Down = true
	for _, c := range []struct {
		name   string
		events []dataplane.Event
		before []string
		moved  bool
		taken  bool
	}{
		{"the same", []dataplane.Event{up}, []string{"way1"}, false, false},
		{"the same, listed twice", []dataplane.Event{up}, []string{"way1", "way1"}, false, false},
		{"the same, now down", []dataplane.Event{down}, []string{"way1"}, false, false},
		{"another interface", []dataplane.Event{up}, []string{"way2"}, true, true},
		{"one owner less", []dataplane.Event{up}, []string{"way1", "way2"}, true, false},
		{"new", []dataplane.Event{up}, nil, true, false},
		{"new, and down", []dataplane.Event{down}, nil, false, false},
		{"gone", nil, []string{"way1"}, true, false},
		{"neither", nil, nil, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := New()
			o.Update(dataplane.Batch{Events: c.events})
			before := map[netip.Addr][]string{}
			if c.before != nil {
				before[a] = c.before
			}
			o.Adopt(before)
			all, _, taken := o.movedAddresses()
			require.Equal(t, c.moved, len(all) == 1)
			require.Equal(t, c.taken, len(taken) == 1)
			o.ended(moves{addresses: all})
			o.Update(dataplane.Batch{Events: []dataplane.Event{
				nfttest.EndpointUpdate("b", "way9", nil, nil, a.String()),
			}})
			_, gained, _ := o.movedAddresses()
			require.Len(t, gained, 1, "a later owner is detected")
		})
	}
}
