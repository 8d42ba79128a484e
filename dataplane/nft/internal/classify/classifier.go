// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/internal/reuse"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// The maps from addresses to classes.
const (
	mapHosts4    = "class4"          // full-length address -> class
	mapHosts6    = "class6"          //
	mapPrefixes4 = "class4-prefixes" // range of addresses -> class, for all other addresses
	mapPrefixes6 = "class6-prefixes" //
)

// Config configures a Classifier.
type Config struct {
	// Number converts a hash into a valid number of a class.
	Number func(hash uint32) uint32
}

// Classifier maps addresses to classes, by the predicates that are in use.
type Classifier struct {
	cfg        Config
	v4         *addressMap[[4]byte]
	v6         *addressMap[[16]byte]
	predicates map[string]*Predicate
	lastID     uint64
	// released has the predicates that were released since the last Update. The next Update removes
	// those that are still not in use.
	released map[*Predicate]struct{}
	numbers  Numbers
	// hadAddresses has each class that got its first address or lost its last one since the last
	// Flush. The value is true if the class had addresses at that Flush.
	hadAddresses map[*Class]bool
	// renumbered is set if numbers of classes have changed since the last Flush.
	renumbered bool
}

// New returns a Classifier without predicates.
func New(cfg Config) *Classifier {
	return &Classifier{
		cfg:        cfg,
		v4:         newAddressMap[[4]byte](sets.IPv4, mapHosts4, mapPrefixes4),
		v6:         newAddressMap[[16]byte](sets.IPv6, mapHosts6, mapPrefixes6),
		predicates: map[string]*Predicate{}, released: map[*Predicate]struct{}{},
		numbers: NewNumbers(cfg.Number), hadAddresses: map[*Class]bool{},
	}
}

// Use makes the classes depend on a predicate, until Release is called.
func (c *Classifier) Use(p *Predicate) {
	p.used = true
	c.v4.include(p, true)
	c.v6.include(p, true)
	if p.set != nil {
		p.set.Watch(&watcher{c, p})
	}
}

// Release reverses Use: after the next Update, the classes no longer depend on the predicate.
func (c *Classifier) Release(p *Predicate) {
	p.used = false
	c.released[p] = struct{}{}
	c.v4.include(p, false)
	c.v6.include(p, false)
	if p.set != nil {
		p.set.Watch(nil)
	}
}

// watcher applies the changes of an IP set to the address maps.
type watcher struct {
	classifier *Classifier
	predicate  *Predicate
}

// Host4 records that an IPv4 address is added to the set, or removed from it.
func (w *watcher) Host4(addr [4]byte, in bool) { w.classifier.v4.editHost(addr, w.predicate, in) }

// Host6 records that an IPv6 address is added to the set, or removed from it.
func (w *watcher) Host6(addr [16]byte, in bool) { w.classifier.v6.editHost(addr, w.predicate, in) }

// Net records that a prefix has become an outermost prefix of the set, or is no longer one (see
// sets.Watcher).
func (w *watcher) Net(n netip.Prefix, in bool) {
	if first, last := n.Addr(), ruleset.LastAddr(n); first.Is4() {
		w.classifier.v4.setRange(first.As4(), last.As4(), w.predicate, in)
	} else {
		w.classifier.v6.setRange(first.As16(), last.As16(), w.predicate, in)
	}
}

// AllNets records that all prefixes of the set may have changed.
func (w *watcher) AllNets() {
	w.classifier.v4.ranges.dirty, w.classifier.v6.ranges.dirty = true, true
}

// Update computes the classes. It calls changed() for each class that got its first address or lost
// its last one. A class gets its number when it gets its first address, and frees the number when
// it loses its last address. This may change the numbers of other classes (see Numbers). If the
// number of another class has changed, Update returns true. The caller must then call Renumber
// before the next Flush.
func (c *Classifier) Update(changed func(*Class)) (renumber bool) {
	c.v4.updateHosts()
	c.v6.updateHosts()
	c.v4.updateRanges()
	c.v6.updateRanges()
	renumber = updateClasses(c, c.v4, changed)
	renumber = updateClasses(c, c.v6, changed) || renumber
	for p := range c.released {
		if !p.used {
			delete(c.predicates, p.name)
		}
	}
	c.released = reuse.Map(c.released)
	return renumber
}

// updateClasses does the work of Update for one family.
func updateClasses[A addrBytes](c *Classifier, m *addressMap[A], changed func(*Class)) (renumber bool) {
	for k := range m.resized {
		has := k.members > 0
		if k == m.none || has == k.hasAddresses {
			continue
		}
		if _, ok := c.hadAddresses[k]; !ok {
			c.hadAddresses[k] = k.hasAddresses
		}
		k.hasAddresses = has
		if has {
			renumber = c.numbers.Add(&k.Numbered) || renumber
		} else {
			renumber = c.numbers.Remove(&k.Numbered) || renumber
		}
		for _, p := range k.predicates {
			if has {
				p.classes[k] = struct{}{}
			} else {
				delete(p.classes, k)
			}
		}
		changed(k)
	}
	for k := range m.resized {
		m.removeIfEmpty(k)
	}
	for _, k := range m.fresh {
		m.removeIfEmpty(k)
	}
	m.resized, m.fresh = reuse.Map(m.resized), nil
	return renumber
}

// Renumber makes the next Flush write all elements again, each with the present number of its
// class.
func (c *Classifier) Renumber() {
	c.renumbered = true
	c.v4.renumber()
	c.v6.renumber()
}

// None returns the class of the addresses that satisfy no predicate.
func (c *Classifier) None(f sets.Family) *Class {
	if f == sets.IPv6 {
		return c.v6.none
	}
	return c.v4.none
}

// Maps returns the names of the maps of a family that have elements: first the map of prefixes,
// then the map of full-length addresses. Rules look an address up in the maps in this order. If the
// second map has the address, its result replaces the first result.
func (c *Classifier) Maps(f sets.Family) (names []string) {
	add := func(name string, exists bool) {
		if exists {
			names = append(names, name)
		}
	}
	if f == sets.IPv6 {
		add(mapPrefixes6, len(c.v6.ranges.list) > 0)
		add(mapHosts6, !c.v6.empty())
	} else {
		add(mapPrefixes4, len(c.v4.ranges.list) > 0)
		add(mapHosts4, !c.v4.empty())
	}
	return names
}

// Pending reports whether Flush may have changes to append.
func (c *Classifier) Pending() bool { return c.v4.changed() || c.v6.changed() }

// Flush appends to the delta the changes of the class maps since the last Flush.
//
// The caller may have other maps, whose keys are numbers of classes. To add their changes to the
// same delta, call sets.ElementSet.FlushUnseen with the function unseen that Flush returns. The
// function returns true for the number of a class in two cases:
//
//   - The class has got its first address since the last Flush. No packet looks up the number
//     before the delta is applied.
//   - The class has lost its last address since the last Flush. No packet looks up the number after
//     the delta is applied.
//
// If Renumber was called since the last Flush, the function always returns false, because the
// number may have belonged to another class.
func (c *Classifier) Flush(d *ruleset.Delta) (unseen func(key string) bool) {
	c.v4.flush(d)
	c.v6.flush(d)
	numbers := c.unseenNumbers()
	return func(key string) bool { return numbers[key] }
}

// unseenNumbers returns the numbers of the classes that got their first address or lost their last
// one since the last Flush. The numbers are encoded as keys of elements.
func (c *Classifier) unseenNumbers() map[string]bool {
	by := map[string]int{}
	for k, was := range c.hadAddresses {
		switch {
		case k.hasAddresses && !was:
			by[string(ruleset.Uint32(k.number))]++
		case was && !k.hasAddresses:
			by[string(ruleset.Uint32(k.number))]-- // the class may have been created again as another object
		}
	}
	unseen := map[string]bool{}
	for number, n := range by {
		// After a renumbering, another class may have the number.
		unseen[number] = n != 0 && !c.renumbered
	}
	c.hadAddresses, c.renumbered = reuse.Map(c.hadAddresses), false
	return unseen
}

// Sets returns the maps with all their elements.
func (c *Classifier) Sets() (out []*ruleset.Set) {
	return append(kernelSets(c.v4), kernelSets(c.v6)...)
}

func kernelSets[A addrBytes](m *addressMap[A]) (out []*ruleset.Set) {
	m.ranges.updateElements()
	if m.ranges.elements.Wanted {
		out = append(out, m.ranges.elements.Kernel())
	}
	if !m.empty() {
		out = append(out, m.kernelSet())
	}
	return out
}

// Stats has the numbers of full-length addresses, of ranges and of classes in a Classifier.
type Stats struct{ Addresses, Ranges, Classes int }

// Stats returns the counts as of the last Update.
func (c *Classifier) Stats() Stats {
	return Stats{
		Addresses: len(c.v4.hosts) + len(c.v6.hosts), Ranges: len(c.v4.ranges.list) + len(c.v6.ranges.list),
		Classes: c.numbers.Len(),
	}
}
