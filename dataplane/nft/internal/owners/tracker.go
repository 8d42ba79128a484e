// SPDX-License-Identifier: Apache-2.0

package owners

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/reuse"
	"github.com/wayleave/wayleave/policy"
)

// owner is a workload endpoint that has an address.
type owner struct {
	key        policy.Key
	iface, mac string
	// floating is set if the address is a floating address. It is then translated to internal, an
	// address of the endpoint.
	floating bool
	internal netip.Addr
}

// claim is an owner of an address that may be down.
type claim struct {
	owner
	down bool
}

// Tracker maps addresses to the workload endpoints that own them. It records which addresses have
// moved: such an address has another owner than when its connections began (case S168 of
// docs/semantics.md).
type Tracker struct {
	endpoints map[policy.Key]*dataplane.Endpoint
	claims    map[netip.Addr][]claim // in the order of the endpoints' keys
	// owners has, for each address, the claims of endpoints that are up. If none is up, it has the
	// claims of the endpoints that were up last. The reason is that an endpoint that is down for a
	// while keeps its connections.
	owners map[netip.Addr][]owner
	// moved has the addresses that have moved and may have connections of former owners.
	moved map[netip.Addr]movedAddress
	sourceOwners
	// addresses and sources have the addresses and interfaces that the next TakeChanges will
	// return.
	addresses map[netip.Addr]struct{}
	sources   map[string]struct{}
}

// movedAddress describes an address whose owners have changed since its connections were last
// ended.
type movedAddress struct {
	// former has the owners that the address had when its connections were last ended.
	former []owner
	// floating is set if the address is or was translated.
	floating bool
}

// New returns a Tracker without endpoints.
func New() *Tracker {
	return &Tracker{
		endpoints: map[policy.Key]*dataplane.Endpoint{}, claims: map[netip.Addr][]claim{},
		owners: map[netip.Addr][]owner{},
		moved:  map[netip.Addr]movedAddress{}, sourceOwners: newSourceOwners(),
		addresses: map[netip.Addr]struct{}{}, sources: map[string]struct{}{},
	}
}

// Endpoint returns an endpoint, or nil if there is no such endpoint. The caller must not change it.
func (o *Tracker) Endpoint(key policy.Key) *dataplane.Endpoint { return o.endpoints[key] }

// Update applies the endpoints of a batch. An address or prefix does not count as moved if the
// batch removes it from an endpoint and adds it to the same endpoint again.
func (o *Tracker) Update(b dataplane.Batch) {
	changed, before := map[netip.Addr]struct{}{}, map[policy.Key]*dataplane.Endpoint{}
	set := func(key policy.Key, e *dataplane.Endpoint) {
		if _, again := before[key]; !again {
			before[key] = o.endpoints[key]
		}
		o.set(key, e, changed)
	}
	for _, e := range b.Events {
		switch e := e.(type) {
		case *dataplane.EndpointUpdate:
			set(e.Key, e.Endpoint)
		case *dataplane.EndpointRemove:
			set(e.Key, nil)
		}
	}
	var sources []netip.Addr // new addresses that were in the AllowedSources of their owners
	for a := range changed {
		o.addresses[a] = struct{}{}
		_, known := o.moved[a]
		if o.setOwners(a); !known && len(o.moved[a].former) == 0 && o.wasSource(a, before) {
			sources = append(sources, a)
		}
	}
	o.updateSources(before)
	for _, a := range sources {
		if !o.fromLost(a) {
			delete(o.moved, a)
		}
	}
	for a := range changed {
		o.loseKeptAt(a)
	}
	o.markShared()
}

// set replaces an endpoint, and adds its old and new addresses to changed.
func (o *Tracker) set(key policy.Key, e *dataplane.Endpoint, changed map[netip.Addr]struct{}) {
	old := o.endpoints[key]
	if old != nil {
		for a := range claimsOf(key, old) {
			changed[a] = struct{}{}
			rest := slices.DeleteFunc(slices.Clone(o.claims[a]), func(c claim) bool { return c.key == key })
			if o.claims[a] = rest; len(rest) == 0 {
				delete(o.claims, a)
			}
		}
		if len(old.AllowedSources) > 0 {
			o.sources[old.Interface] = struct{}{}
		}
		delete(o.endpoints, key)
	}
	if e == nil {
		return
	}
	o.endpoints[key] = e
	for a, claims := range claimsOf(key, e) {
		changed[a] = struct{}{}
		list := append(slices.Clone(o.claims[a]), claims...)
		slices.SortStableFunc(list, func(a, b claim) int { return a.key.Compare(b.key) })
		o.claims[a] = list
	}
	if len(e.AllowedSources) > 0 {
		o.sources[e.Interface] = struct{}{}
	}
}

// claimsOf returns the claims of an endpoint.
func claimsOf(key policy.Key, e *dataplane.Endpoint) map[netip.Addr][]claim {
	claims := make(map[netip.Addr][]claim, len(e.Addresses)+len(e.NATs))
	add := func(a netip.Addr, floating bool, internal netip.Addr) {
		c := claim{owner{key: key, iface: e.Interface, mac: e.MAC, floating: floating, internal: internal}, e.Down}
		if a = a.Unmap(); a.IsValid() && !slices.Contains(claims[a], c) {
			claims[a] = append(claims[a], c)
		}
	}
	for _, a := range e.Addresses {
		add(a, false, netip.Addr{})
	}
	for _, n := range e.NATs {
		add(n.ExternalIP, true, n.InternalIP.Unmap())
	}
	return claims
}

// setOwners updates the owners of an address. If they have changed, it marks the address as moved.
func (o *Tracker) setOwners(a netip.Addr) {
	was := o.owners[a]
	var now, down []owner
	for _, c := range o.claims[a] {
		if c.down {
			down = append(down, c.owner)
		} else {
			now = append(now, c.owner)
		}
	}
	if len(now) == 0 {
		now = slices.DeleteFunc(slices.Clone(was), func(w owner) bool { return !slices.Contains(down, w) })
	}
	if slices.Equal(was, now) {
		return
	}
	if o.owners[a] = now; len(now) == 0 {
		delete(o.owners, a)
	}
	s, known := o.moved[a]
	if !known {
		s.former = was
	}
	if len(s.former)+len(now) == 0 { // the owners in between were never admitted
		delete(o.moved, a)
		return
	}
	isFloating := func(o owner) bool { return o.floating }
	s.floating = s.floating || slices.ContainsFunc(was, isFloating) || slices.ContainsFunc(now, isFloating)
	o.moved[a] = s
}

// newOwners returns the owners of a moved address that are withheld until the address's connections
// have ended. If an owner only maps a floating address to another one of its addresses, it is not a
// new owner.
func (o *Tracker) newOwners(a netip.Addr) []owner {
	former := o.moved[a].former
	return slices.DeleteFunc(slices.Clone(o.owners[a]), func(w owner) bool {
		return slices.ContainsFunc(former, func(f owner) bool {
			f.internal = w.internal
			return f == w
		})
	})
}

// movedAddresses returns three sorted lists. The list all has the moved addresses. The list gained
// has the moved addresses that have new owners or senders. The list taken has the addresses of
// gained that also have former owners.
func (o *Tracker) movedAddresses() (all, gained, taken []netip.Addr) {
	all = slices.SortedFunc(maps.Keys(o.moved), netip.Addr.Compare)
	for _, a := range all {
		if len(o.newOwners(a)) == 0 && len(o.newSenders(a)) == 0 {
			continue
		}
		gained = append(gained, a)
		if len(o.moved[a].former) > 0 {
			taken = append(taken, a)
		}
	}
	return all, gained, taken
}

// moves returns all moved addresses and prefixes, and those among them that endpoints have gained.
// The result taken is set if any gained address or prefix also has a former owner.
func (o *Tracker) moves() (all, gained moves, taken bool) {
	var addresses []netip.Addr
	all.addresses, gained.addresses, addresses = o.movedAddresses()
	all.prefixes, gained.prefixes = o.lostSources()
	taken = len(addresses)+len(gained.prefixes) > 0 || slices.ContainsFunc(gained.addresses, o.fromLost)
	return all, gained, taken
}

// ended records that the connections of moved addresses and prefixes were ended.
func (o *Tracker) ended(of moves) {
	for _, a := range of.addresses {
		delete(o.moved, a)
	}
	o.endedSources(of.prefixes)
}

// Adopt compares the owners of addresses with the table of an earlier process. The parameter is a
// map from each address to the interfaces of its owners in that table. If an address has other
// owners now, or none, Adopt marks the address as moved. Floating addresses are never marked,
// because the table does not record their owners.
//
// If all endpoints with an address are down, those endpoints that also had the address in the
// earlier table count as its owners.
func (o *Tracker) Adopt(before map[netip.Addr][]string) {
	o.Forget()
	for a := range o.claims {
		if len(o.owners[a]) == 0 {
			for _, c := range o.claims[a] {
				if slices.Contains(before[a], c.iface) {
					o.owners[a] = append(o.owners[a], c.owner)
				}
			}
		}
		var former []owner
		for _, w := range o.owners[a] {
			if w.floating || slices.Contains(before[a], w.iface) {
				former = append(former, w)
			}
		}
		kept := len(former)
		for _, name := range before[a] {
			if !slices.ContainsFunc(former[:kept], func(w owner) bool { return w.iface == name }) {
				former = append(former, owner{iface: name})
			}
		}
		if !slices.Equal(former, o.owners[a]) {
			o.moved[a] = movedAddress{former: former}
		}
	}
	for a, names := range before {
		if len(o.claims[a]) == 0 {
			o.moved[a] = movedAddress{former: []owner{{iface: names[0]}}}
		}
	}
}

// Forget clears what the Tracker has recorded about former owners: the moved addresses, and the
// prefixes of AllowedSources that endpoints have lost. Call Forget after each Update until
// something has been programmed. Before that, former owners have neither policy in the kernel nor
// connections.
func (o *Tracker) Forget() { o.moved, o.lost = reuse.Map(o.moved), reuse.Map(o.lost) }

// newOwnersOf returns the keys of the endpoints that are withheld because of moved addresses and
// prefixes. These are the new owners of the addresses and the new senders of the prefixes. The keys
// are sorted.
func (o *Tracker) newOwnersOf(moved moves) (keys []policy.Key) {
	for _, a := range moved.addresses {
		for _, w := range o.newOwners(a) {
			keys = append(keys, w.key)
		}
		keys = append(keys, o.newSenders(a)...)
	}
	for _, p := range moved.prefixes {
		keys = append(keys, o.gainers(p)...)
	}
	slices.SortFunc(keys, policy.Key.Compare)
	return slices.Compact(keys)
}

// Changes has the changes since the last call of TakeChanges. It has the new interfaces of each
// changed address, and the new AllowedSources of each changed interface. An empty list means that
// the address has no interface any more, or that the interface has no AllowedSources any more.
type Changes struct {
	// Interfaces has, for each address, the interfaces of the workloads that have the address.
	Interfaces map[netip.Addr][]string
	// Sources has, for each interface, the AllowedSources of the workloads behind it.
	Sources map[string][]netip.Prefix
}

// TakeChanges returns the changes of addresses since the last call.
func (o *Tracker) TakeChanges() (c Changes) {
	if len(o.addresses) > 0 {
		c.Interfaces = make(map[netip.Addr][]string, len(o.addresses))
	}
	for a := range o.addresses {
		var names []string
		for _, w := range o.claims[a] {
			if !w.floating && !slices.Contains(names, w.iface) {
				names = append(names, w.iface)
			}
		}
		c.Interfaces[a] = names
	}
	o.addresses = reuse.Map(o.addresses)
	if len(o.sources) == 0 {
		return c
	}
	c.Sources = make(map[string][]netip.Prefix, len(o.sources))
	for name := range o.sources {
		c.Sources[name] = nil
	}
	for _, e := range o.endpoints {
		if _, ok := o.sources[e.Interface]; ok {
			c.Sources[e.Interface] = append(c.Sources[e.Interface], e.AllowedSources...)
		}
	}
	o.sources = reuse.Map(o.sources)
	return c
}
