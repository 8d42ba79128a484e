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

// maxLost limits the lost prefixes that wait for a new endpoint. If there are more, the connections
// of all lost prefixes end, even if no endpoint has gained their addresses.
const maxLost = 1024

// sourceOwners records which AllowedSources move to another endpoint (S168). A prefix moves if one
// endpoint loses it, and another endpoint has or gains addresses of it. An endpoint that is down
// keeps its prefixes until another endpoint gains them.
type sourceOwners struct {
	// gained has the prefixes that endpoints have gained, and that are not admitted yet.
	gained map[policy.Key][]netip.Prefix
	// lost has the prefixes that endpoints have lost, and whose connections have not been ended
	// since.
	lost map[netip.Prefix]lostPrefix
	// justLost has the prefixes that the current batch adds to lost.
	justLost []netip.Prefix
	// kept has the prefixes of endpoints that are down.
	kept map[policy.Key][]netip.Prefix
}

// lostPrefix is a prefix that endpoints have lost.
type lostPrefix struct {
	former []owner
	// shared is set if another endpoint had an overlapping prefix when this one was lost.
	shared bool
}

func newSourceOwners() sourceOwners {
	return sourceOwners{
		gained: map[policy.Key][]netip.Prefix{},
		lost:   map[netip.Prefix]lostPrefix{},
		kept:   map[policy.Key][]netip.Prefix{},
	}
}

// moves has the addresses, and the prefixes of AllowedSources, whose connections must end.
type moves struct {
	addresses []netip.Addr
	prefixes  []netip.Prefix
}

func (m moves) empty() bool { return len(m.addresses)+len(m.prefixes) == 0 }

// sender returns the endpoint as an owner of its AllowedSources.
func sender(key policy.Key, e *dataplane.Endpoint) owner {
	return owner{key: key, iface: e.Interface, mac: e.MAC}
}

// contains reports whether an address is in any of the prefixes.
func contains(list []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// updateSources records the changes of endpoints' AllowedSources. before has the former state of
// each changed endpoint; nil for a new one.
func (o *Tracker) updateSources(before map[policy.Key]*dataplane.Endpoint) {
	gained := map[policy.Key][]netip.Prefix{}
	for key, old := range before {
		if list := o.updateSourcesOf(key, old, o.endpoints[key]); len(list) > 0 {
			gained[key] = list
		}
	}
	if len(gained) > 0 {
		o.loseKeptTo(gained)
	}
	for key, old := range before {
		if e := o.endpoints[key]; e != nil && !e.Down && old != nil && old.Down {
			o.gainAfterDown(key, e)
		}
	}
}

// updateSourcesOf does the work of updateSources for one endpoint. It returns the prefixes that the
// endpoint has gained.
func (o *Tracker) updateSourcesOf(key policy.Key, old, e *dataplane.Endpoint) (gained []netip.Prefix) {
	former, present := o.kept[key], []netip.Prefix(nil)
	if old != nil && !old.Down {
		former = old.AllowedSources
	}
	if e != nil {
		present = e.AllowedSources
	}
	var held []netip.Prefix
	if old != nil && e != nil && sender(key, old) == sender(key, e) {
		held = without(former, func(p netip.Prefix) bool { return !covered(p, present) })
	}
	for _, p := range former {
		if !slices.Contains(held, p) {
			o.lose(p, sender(key, old))
		}
	}
	delete(o.kept, key)
	pending := without(o.gained[key], func(p netip.Prefix) bool { return !slices.Contains(present, p) })
	isPending := func(p netip.Prefix) bool { return slices.Contains(pending, p) }
	switch {
	case e == nil:
	case !e.Down:
		gained = without(present, func(p netip.Prefix) bool { return slices.Contains(held, p) || isPending(p) })
	default:
		if kept := without(held, isPending); len(kept) > 0 {
			o.kept[key] = kept
		}
		// A pending prefix may have connections of an earlier prefix that it contains.
		for _, p := range without(held, func(p netip.Prefix) bool { return !isPending(p) }) {
			o.lose(p, sender(key, e))
		}
	}
	if o.gained[key] = append(pending, gained...); len(o.gained[key]) == 0 {
		delete(o.gained, key)
	}
	return gained
}

// covered reports whether one of the prefixes contains all addresses of p.
func covered(p netip.Prefix, by []netip.Prefix) bool {
	return slices.ContainsFunc(by, func(q netip.Prefix) bool { return q.Bits() <= p.Bits() && q.Contains(p.Addr()) })
}

// gainAfterDown marks prefixes of an endpoint that was down as gained. It marks each prefix that
// overlaps with a prefix that another endpoint has lost and whose connections have not been ended.
func (o *Tracker) gainAfterDown(key policy.Key, e *dataplane.Endpoint) {
	for _, p := range e.AllowedSources {
		if slices.Contains(o.gained[key], p) {
			continue
		}
		for q := range o.lost {
			if q.Overlaps(p) && o.lostByOther(q, sender(key, e)) {
				o.gained[key] = append(o.gained[key], p)
				break
			}
		}
	}
}

// without returns a copy of a list that lacks the prefixes for which remove returns true.
func without(list []netip.Prefix, remove func(netip.Prefix) bool) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(list), remove)
}

// loseKeptAt marks kept prefixes as lost if another endpoint has gained one of their addresses as
// its own address.
func (o *Tracker) loseKeptAt(a netip.Addr) {
	for key := range o.kept {
		if slices.ContainsFunc(o.owners[a], func(w owner) bool { return w.key != key }) {
			o.loseKept(key, func(p netip.Prefix) bool { return p.Contains(a) })
		}
	}
}

// loseKept marks kept prefixes of an endpoint as lost if isLost returns true for them.
func (o *Tracker) loseKept(key policy.Key, isLost func(netip.Prefix) bool) {
	o.kept[key] = slices.DeleteFunc(o.kept[key], func(p netip.Prefix) bool {
		if isLost(p) {
			o.lose(p, sender(key, o.endpoints[key]))
		}
		return isLost(p)
	})
	if len(o.kept[key]) == 0 {
		delete(o.kept, key)
	}
}

// lose records that an endpoint has lost a prefix. It does not record prefixes of length zero,
// because all connections of the node would be in them.
func (s *sourceOwners) lose(p netip.Prefix, by owner) {
	if p = p.Masked(); p.Bits() == 0 {
		return
	}
	l := s.lost[p]
	if !slices.Contains(l.former, by) {
		l.former = append(l.former, by)
	}
	s.lost[p] = l
	s.justLost = append(s.justLost, p)
}

// markShared marks each prefix that the current batch has lost as shared, if another endpoint has
// an overlapping prefix.
func (o *Tracker) markShared() {
	if len(o.lost) <= maxLost { // otherwise the connections of all lost prefixes end
		for _, p := range o.justLost {
			l := o.lost[p]
			l.shared = len(o.overlapping([]netip.Prefix{p})) > 0
			o.lost[p] = l
		}
	}
	o.justLost = nil
}

// loseKeptTo marks kept prefixes as lost if another endpoint has gained some of their addresses in
// its AllowedSources. It also removes endpoints that are down as owners of such addresses.
func (o *Tracker) loseKeptTo(gained map[policy.Key][]netip.Prefix) {
	for other := range o.kept {
		o.loseKept(other, func(p netip.Prefix) bool {
			for key, list := range gained {
				if key != other && slices.ContainsFunc(list, p.Overlaps) {
					return true
				}
			}
			return false
		})
	}
	for a, owners := range o.owners {
		if slices.ContainsFunc(o.claims[a], func(c claim) bool { return !c.down }) || !o.gainedByOther(a, gained) {
			continue
		}
		delete(o.owners, a)
		s, known := o.moved[a]
		switch {
		case !known:
			o.moved[a] = movedAddress{former: owners}
		case len(s.former) == 0: // the owners were never admitted
			delete(o.moved, a)
		}
	}
}

// gainedByOther reports whether an endpoint that does not claim the address has gained a prefix
// that contains it.
func (o *Tracker) gainedByOther(a netip.Addr, gained map[policy.Key][]netip.Prefix) bool {
	for key, list := range gained {
		if contains(list, a) && !slices.ContainsFunc(o.claims[a], func(c claim) bool { return c.key == key }) {
			return true
		}
	}
	return false
}

// newSenders returns the keys of endpoints that have gained AllowedSources with a moved address.
// They are withheld until the address's connections have ended.
func (o *Tracker) newSenders(a netip.Addr) (keys []policy.Key) {
	if len(o.moved[a].former) == 0 {
		return nil
	}
	for key, list := range o.gained {
		owns := slices.ContainsFunc(o.claims[a], func(c claim) bool { return c.key == key })
		if !owns && !o.endpoints[key].Down && contains(list, a) {
			keys = append(keys, key)
		}
	}
	return keys
}

// gainers returns the keys of endpoints that are up and have gained addresses of a lost prefix. It
// leaves out the endpoint that has lost the prefix.
func (o *Tracker) gainers(lost netip.Prefix) (keys []policy.Key) {
	for key, list := range o.gained {
		e := o.endpoints[key]
		if !e.Down && slices.ContainsFunc(list, lost.Overlaps) && o.lostByOther(lost, sender(key, e)) {
			keys = append(keys, key)
		}
	}
	return keys
}

// lostByOther reports whether an endpoint other than except has lost a prefix.
func (s *sourceOwners) lostByOther(p netip.Prefix, except owner) bool {
	return slices.ContainsFunc(s.lost[p].former, func(by owner) bool { return by != except })
}

// lostSources returns the lost prefixes whose connections must end (all), and those among them that
// other endpoints have gained (taken). Both lists are sorted.
func (o *Tracker) lostSources() (all, taken []netip.Prefix) {
	for _, p := range slices.SortedFunc(maps.Keys(o.lost), dataplane.ComparePrefixes) {
		isTaken := len(o.gainers(p)) > 0
		if isTaken {
			taken = append(taken, p)
		}
		if isTaken || o.lost[p].shared || len(o.lost) > maxLost {
			all = append(all, p)
		}
	}
	return all, taken
}

// fromLost reports whether a new owner of an address gets it from a lost prefix of another
// endpoint.
func (o *Tracker) fromLost(a netip.Addr) bool {
	for p := range o.lost {
		if p.Contains(a) && slices.ContainsFunc(o.newOwners(a), func(w owner) bool { return o.lostByOther(p, w) }) {
			return true
		}
	}
	return false
}

// sourceSelector returns a function that reports whether the connections of an address end together
// with those of the lost prefixes. They end if another endpoint has the address in its
// AllowedSources, or if too many prefixes are lost. Connections of an endpoint's own address do not
// end.
func (o *Tracker) sourceSelector(lost []netip.Prefix) func(netip.Addr) bool {
	now := lost
	if len(lost) <= maxLost {
		now = o.overlapping(lost)
	}
	now, lost = outermost(now), outermost(lost)
	isOwn := func(w owner) bool { return !w.floating }
	return func(a netip.Addr) bool {
		return containsSorted(now, a) && containsSorted(lost, a) && !slices.ContainsFunc(o.owners[a], isOwn)
	}
}

// outermost returns the prefixes that no other prefix of the list contains, without host bits and
// sorted by address.
func outermost(list []netip.Prefix) (outer []netip.Prefix) {
	sorted := make([]netip.Prefix, 0, len(list))
	for _, p := range list {
		sorted = append(sorted, p.Masked())
	}
	slices.SortFunc(sorted, dataplane.ComparePrefixes)
	for _, p := range sorted {
		if n := len(outer); n == 0 || !outer[n-1].Contains(p.Addr()) {
			outer = append(outer, p)
		}
	}
	return outer
}

// containsSorted does what contains does, by binary search in a list from outermost.
func containsSorted(sorted []netip.Prefix, a netip.Addr) bool {
	i, found := slices.BinarySearchFunc(
		sorted, a, func(p netip.Prefix, a netip.Addr) int { return p.Addr().Compare(a) },
	)
	return found || i > 0 && sorted[i-1].Contains(a)
}

// overlapping returns the AllowedSources of endpoints that overlap with a lost prefix, if another
// endpoint has lost that prefix.
func (o *Tracker) overlapping(lost []netip.Prefix) (list []netip.Prefix) {
	for key, e := range o.endpoints {
		for _, source := range e.AllowedSources {
			if slices.ContainsFunc(lost, func(p netip.Prefix) bool {
				return p.Overlaps(source) && o.lostByOther(p, sender(key, e))
			}) {
				list = append(list, source)
			}
		}
	}
	return list
}

// endedSources records that the connections of lost prefixes were ended, for the addresses that
// sourceSelector selects. If other endpoints have only some addresses of a prefix, the prefix stays
// lost.
func (o *Tracker) endedSources(prefixes []netip.Prefix) {
	present := o.overlapping(prefixes)
	for _, p := range prefixes {
		if len(prefixes) > maxLost || covered(p, present) {
			delete(o.lost, p)
		} else {
			o.lost[p] = lostPrefix{former: o.lost[p].former}
		}
	}
}

// admitted records that all endpoints are programmed and none is withheld any more.
func (s *sourceOwners) admitted() { s.gained = reuse.Map(s.gained) }

// wasSource reports whether an address was in the AllowedSources of all its new owners, and is in
// those of no other endpoint. Such an address has not moved. before is that of updateSources.
func (o *Tracker) wasSource(a netip.Addr, before map[policy.Key]*dataplane.Endpoint) bool {
	for _, w := range o.newOwners(a) {
		old := before[w.key]
		if w.floating || old == nil || old.Down || !contains(old.AllowedSources, a) || contains(o.gained[w.key], a) ||
			sender(w.key, old) != sender(w.key, o.endpoints[w.key]) {
			return false
		}
	}
	for key, e := range o.endpoints {
		owns := slices.ContainsFunc(o.owners[a], func(w owner) bool { return w.key == key })
		has := func(p netip.Prefix) bool { return p.Bits() > 0 && p.Contains(a) }
		if !owns && slices.ContainsFunc(e.AllowedSources, has) {
			return false
		}
	}
	return true
}
