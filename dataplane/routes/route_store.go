// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// routeSlot has the desired and the observed state of one destination, table and metric.
type routeSlot struct {
	key routeKey
	// claims are the desired routes, at most one of each class, in the order of classes. The kernel
	// is to have the first.
	claims []Route
	room   [1]Route // memory for claims, which usually has one route
	// state is the observed state of the first claim.
	state observed
	// strays are the other routes with our protocol that the kernel has.
	strays []stray
	// others counts the routes with the same key that other processes added. While there are any,
	// ours is not replaced in one step: the kernel would replace whichever route comes first.
	others int
	// listedFor is the key of routeStore.byInterface under which the slot is listed. The field
	// position is the slot's position there, counted from one. It is zero if the slot is not
	// listed.
	listedFor string
	position  int
}

// stray is a route with our protocol in the kernel that is not the first claim.
type stray struct {
	route rtnl.Route
	// found is set if another process, or an earlier one of ours, added the route.
	found bool
	// reported is the number of the event that reported the route; 0 if none did.
	reported uint64
	// flushed is set if the kernel may have removed the route since, together with all routes of
	// its interface.
	flushed bool
}

// routeStore has all routes, desired and observed.
type routeStore struct {
	protocol uint8
	tables   []uint32
	slots    map[routeKey]*routeSlot
	dirty    []*routeSlot
	// byInterface has the slots by interface name, so that a change of an interface leads to a
	// check of its slots only.
	byInterface map[string][]*routeSlot
	sources     map[netip.Addr]int
	desired     int
	scratch     rtnl.Route
}

func newRouteStore(protocol uint8, tables []uint32) *routeStore {
	return &routeStore{
		protocol: protocol, tables: tables, slots: map[routeKey]*routeSlot{}, byInterface: map[string][]*routeSlot{},
		sources: map[netip.Addr]int{},
	}
}

func (s *routeStore) markDirty(slot *routeSlot) {
	if !slot.state.dirty {
		slot.state.dirty = true
		s.dirty = append(s.dirty, slot)
	}
}

func (s *routeStore) slot(key routeKey) *routeSlot {
	slot := s.slots[key]
	if slot == nil {
		slot = &routeSlot{key: key}
		slot.claims = slot.room[:0]
		s.slots[key] = slot
	}
	return slot
}

// claim returns the position of a class in the claims of the slot. If the class is not there, it
// returns the position where it would be inserted.
func (slot *routeSlot) claim(c Class) (at int, exists bool) {
	for at < len(slot.claims) && slot.claims[at].Class < c {
		at++
	}
	return at, at < len(slot.claims) && slot.claims[at].Class == c
}

// change adds a route to the desired state, or replaces the one of its class. If remove is set, it
// removes the route of that class.
func (s *routeStore) change(r Route, remove bool) {
	r.canonicalise(s.tables[0])
	slot := s.slots[r.key()]
	if slot == nil {
		if remove {
			return
		}
		slot = s.slot(r.key())
	}
	at, exists := slot.claim(r.Class)
	if exists && !remove && slot.claims[at] == r || !exists && remove {
		return
	}
	if at == 0 {
		s.displace(slot)
		slot.state.madeByOther, slot.state.ceded = false, false
		s.markDirty(slot)
	}
	if exists {
		s.countSource(slot.claims[at].Source, -1)
		slot.claims = slices.Delete(slot.claims, at, at+1)
		s.desired--
	}
	if !remove {
		s.countSource(r.Source, 1)
		slot.claims = slices.Insert(slot.claims, at, r)
		s.desired++
	}
	if at == 0 {
		s.index(slot)
	}
}

// countSource changes the number of routes with a source address.
func (s *routeStore) countSource(a netip.Addr, by int) {
	if !a.IsValid() {
		return
	}
	if s.sources[a] += by; s.sources[a] == 0 {
		delete(s.sources, a)
	}
}

// displace makes the kernel's route of the first claim a stray, before that claim changes.
func (s *routeStore) displace(slot *routeSlot) {
	if !slot.state.present {
		return
	}
	var old stray
	s.kernelRoute(slot, &old.route)
	s.addStray(slot, old)
	slot.state.present = false
}

// adopt looks for a stray that equals the first claim and that the kernel is known to have. If
// there is one, adopt records that the kernel has the first claim.
func (slot *routeSlot) adopt(first *rtnl.Route) {
	i := slices.IndexFunc(slot.strays, func(o stray) bool { return o.found && !o.flushed && o.route == *first })
	if i >= 0 {
		slot.strays = slices.Delete(slot.strays, i, i+1)
		slot.state.setInKernel(first.Index)
	}
}

// kernelRoute sets out to the kernel's route of the first claim.
func (s *routeStore) kernelRoute(slot *routeSlot, out *rtnl.Route) {
	s.form(slot, slot.state.index, out)
}

// form sets out to the first claim, over the interface with an index.
func (s *routeStore) form(slot *routeSlot, index int, out *rtnl.Route) {
	slot.claims[0].base(s.protocol, out)
	out.Index = index
}

// holds reports whether r is the kernel's route of the first claim.
func (s *routeStore) holds(slot *routeSlot, r *rtnl.Route) bool {
	if !slot.state.present {
		return false
	}
	var known rtnl.Route
	s.kernelRoute(slot, &known)
	return known == *r
}

// equalsFirst reports whether a route of the kernel equals the slot's first claim.
func (s *routeStore) equalsFirst(slot *routeSlot, r *rtnl.Route, l *links) bool {
	if len(slot.claims) == 0 || slot.claims[0].validate() != nil {
		return false
	}
	return slot.claims[0].kernel(s.protocol, l, &s.scratch) == nil && s.scratch == *r
}

// begin starts a dump of all routes.
func (s *routeStore) begin() { s.forget(func(routeKey) bool { return true }) }

// forget drops the observed state of some routes.
func (s *routeStore) forget(concerns func(routeKey) bool) {
	for key, slot := range s.slots {
		if concerns(key) {
			o := &slot.state
			slot.strays, o.foreign, o.lost, o.present, o.madeByOther = nil, false, false, false, false
		}
	}
}

// read records one route of the dump.
func (s *routeStore) read(r *rtnl.Route, l *links) {
	slot := s.slot(routeKey{r.Dst, r.Table, r.Metric})
	if !slot.state.present && s.equalsFirst(slot, r, l) {
		slot.state.setInKernel(r.Index)
		return
	}
	s.addStray(slot, stray{route: *r, found: true})
}

// end ends the dump. It marks the slots whose desired state differs from it.
func (s *routeStore) end() {
	s.dirty = s.dirty[:0]
	for _, slot := range s.slots {
		slot.state.dirty = false
		if !slot.state.present || len(slot.strays) > 0 {
			s.markDirty(slot)
		}
	}
}

// observe applies an event about a route of another process, given the number of the event.
func (s *routeStore) observe(e *rtnl.Event, number uint64, l *links) {
	r := &e.Route
	slot := s.slots[routeKey{r.Dst, r.Table, r.Metric}]
	switch ours := r.Protocol == s.protocol && slices.Contains(s.tables, r.Table); {
	case ours && !e.Gone:
		s.observeNew(r, e.Replace, number, l)
	case slot == nil:
	case ours:
		if s.holds(slot, r) {
			slot.markLost()
		}
		slot.strays = slices.DeleteFunc(slot.strays, func(o stray) bool { return o.route == *r })
		s.markDirty(slot)
	case e.Gone:
		slot.state.observeOther(true)
		if r.TOS == 0 {
			slot.others = max(slot.others-1, 0)
		}
		s.markDirty(slot)
	case e.Replace && r.TOS == 0: // the route may have replaced ours
		slot.markLost()
		slot.strays = nil
		s.markDirty(slot)
	case r.Multipath && r.Dst.Addr().Is6(): // the kernel merged the route with ours, under our protocol number
		slot.markLost()
		s.markDirty(slot)
	case r.TOS == 0:
		slot.others++
		if slot.state.madeByOther || slot.state.ceded {
			slot.state.observeOther(false)
			s.markDirty(slot)
		}
	}
}

// observeNew records that another process added a route with our protocol.
func (s *routeStore) observeNew(r *rtnl.Route, replaced bool, number uint64, l *links) {
	slot := s.slot(routeKey{r.Dst, r.Table, r.Metric})
	if s.holds(slot, r) || slices.ContainsFunc(slot.strays, func(o stray) bool { return o.route == *r }) {
		return // a later dump contained the route
	}
	if replaced || r.Multipath && r.Dst.Addr().Is6() { // the kernel merges such an IPv6 route with existing ones
		slot.markLost()
		slot.strays = nil
	}
	if !slot.state.present && s.equalsFirst(slot, r, l) {
		slot.state.setInKernel(r.Index)
		slot.state.reported = number
	} else {
		s.addStray(slot, stray{route: *r, found: true, reported: number})
	}
	s.markDirty(slot)
}

// markLost records that the kernel no longer has the route.
func (slot *routeSlot) markLost() {
	slot.state.lost = slot.state.lost || slot.state.present
	slot.state.present = false
}

// flush applies changes of interfaces.
func (s *routeStore) flush(f *linkEvents) {
	for a := range f.sources {
		if s.sources[a] > 0 { // there is no index of the routes with a source
			for _, slot := range s.slots {
				s.flushSlot(f, slot)
			}
			return
		}
	}
	for name := range f.names {
		if name == anyInterface {
			continue
		}
		for _, slot := range slices.Backward(s.byInterface[name]) { // a removed slot is replaced by the last one
			s.flushSlot(f, slot)
		}
	}
	for _, slot := range slices.Backward(s.byInterface[anyInterface]) {
		s.flushSlot(f, slot)
		s.index(slot)
	}
}

func (s *routeStore) flushSlot(f *linkEvents, slot *routeSlot) {
	slot.strays = slices.DeleteFunc(slot.strays, func(o stray) bool { return f.deleted[o.route.Index] })
	for i := range slot.strays {
		o := &slot.strays[i]
		o.flushed = o.flushed || f.removes(o.route.Index, o.reported) || f.sources[o.route.Source]
	}
	if len(slot.claims) == 0 {
		return
	}
	if f.removes(slot.state.index, slot.state.reported) {
		slot.state.lost = false // the kernel removed it together with all routes of the interface
	}
	first := &slot.claims[0]
	if slot.state.present && (f.removes(slot.state.index, slot.state.reported) || f.sources[first.Source]) {
		if f.deleted[slot.state.index] {
			slot.state.present = false
		} else { // the route may be younger than the event: the next pass replaces or deletes it
			s.displace(slot)
		}
		s.markDirty(slot)
	} else if f.affects(first) {
		slot.state.ceded = slot.state.ceded && !f.endsCeding(first.Interface)
		s.markDirty(slot)
	}
}

// linkEvents has the changes of interfaces since the last poll. From them follows which objects the
// kernel may have removed by itself, and which objects it may now accept.
type linkEvents struct {
	// names has the names of the interfaces that changed. The field indices has the indices of
	// interfaces whose objects the kernel removed, each with the number of the last event that
	// reported the removal.
	names   map[string]bool
	indices map[int]uint64
	// deleted has the indices of interfaces that no longer exist. Their objects are gone. (On an
	// interface that was only down, another process may have added objects since.)
	deleted map[int]bool
	// returned has the names of interfaces that went down or appeared.
	returned map[string]bool
	// sysctls has the names of interfaces with a changed setting, also "all" and "default".
	sysctls map[string]bool
	// replaced has the names that now belong to no interface or to another one.
	replaced map[string]bool
	// sources has the addresses that the host lost. The field reachability is set if addresses or
	// interfaces came or went: a gateway may then be reached over another interface.
	sources      map[netip.Addr]bool
	reachability bool
	// renamed is set if an interface has another name, altered if another property changed.
	renamed, altered bool
}

func newLinkEvents() *linkEvents {
	return &linkEvents{
		names: map[string]bool{}, sysctls: map[string]bool{}, replaced: map[string]bool{}, indices: map[int]uint64{},
		returned: map[string]bool{}, sources: map[netip.Addr]bool{}, deleted: map[int]bool{},
	}
}

// add adds a change of an interface, given the number of its event.
func (f *linkEvents) add(c rtnl.LinkChange, number uint64) {
	f.reachability = f.reachability || c.Address || c.Flushed || c.Appeared
	f.renamed = f.renamed || c.Renamed
	f.altered = f.altered || c.Altered
	if c.Address && c.Removed.IsValid() {
		f.sources[c.Removed] = true
	}
	if c.Flushed || c.Appeared || c.Renamed || c.Address {
		f.names[c.Name] = true
		f.names[c.OldName] = true
	}
	if c.Flushed || c.Appeared || c.Renamed {
		f.returned[c.Name] = true
		f.returned[c.OldName] = true
	}
	if c.Replaced {
		f.replaced[c.Name] = true
		f.replaced[c.OldName] = true
	}
	if c.Flushed {
		f.indices[c.Index] = number
	}
	if c.Deleted {
		f.deleted[c.Index] = true
	}
}

// any reports whether there are changes.
func (f *linkEvents) any() bool { return f.reachability || f.renamed || f.altered || len(f.names) > 0 }

// removes reports whether the kernel removed an object when the interface changed. reported is the
// number of the event that reported the object, or 0. If that event came later, the object still
// exists.
func (f *linkEvents) removes(index int, reported uint64) bool { return f.indices[index] > reported }

// endsCeding reports whether an object that was ceded is added after all. (Ceded means that another
// process had made an identical object and deleted it: case S172 of docs/semantics.md.) The object
// is added if its interface went down or appeared. A change of an address is no reason, because the
// kernel adds link-local addresses late. For an object without an interface, every change is a
// reason.
func (f *linkEvents) endsCeding(dev string) bool { return dev == "" || f.returned[dev] }

// affects reports whether a desired route may now need another interface in the kernel.
func (f *linkEvents) affects(r *Route) bool {
	return r.Interface != "" && f.names[r.Interface] || r.Interface == "" && r.Gateway.IsValid() && f.reachability
}
