// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// The sets that classes live in.
const (
	mapClass4       = "class4"          // full-length address -> class
	mapClass6       = "class6"          //
	mapClassRanges4 = "class4-prefixes" // range of addresses -> class, for all other addresses
	mapClassRanges6 = "class6-prefixes" //
)

// classes is the policy of workloads as lookups: the state of all class_*.go.
//
//	address ──▶ class ──▶ outcome ──▶ chain          class4: one map for all; gc-GROUP; go-GROUP
//	            (which atoms   (what the group's
//	            it is in)      rules come to)
type classes struct {
	v4       *space[[4]byte]
	v6       *space[[16]byte]
	atoms    map[string]*atom
	lastAtom uint64 // id
	tiers    map[string]*tierIndex
	groups   map[string]*group
	outcomes map[string]*outcome

	classNumbers, outcomeNumbers numbers
	// renumber says that a number has become another's: everything is written anew.
	renumber bool

	doubts map[*group]*doubts
	// weight is what the classes of all groups come to, beyond counts the groups for which it is too much. unbound says that a group has gone: there may
	// be room for another.
	weight, beyond int
	unbound        bool
	// idle are outcomes that may have lost their last group.
	idle map[*outcome]struct{}
	// loose are atoms that may have lost their last rule. Until the classes know of it, they are still the ones of their names.
	loose map[*atom]struct{}
	// changed are groups whose maps have changed since the last flush, and left those that are gone since.
	changed, left map[string]*group
	shape         shape
	scratch       []int32
}

func newClasses() classes {
	return classes{
		v4:    newSpace[[4]byte](ipv4, mapClass4, mapClassRanges4),
		v6:    newSpace[[16]byte](ipv6, mapClass6, mapClassRanges6),
		atoms: map[string]*atom{}, tiers: map[string]*tierIndex{}, groups: map[string]*group{}, outcomes: map[string]*outcome{},
		classNumbers: newNumbers(classNumber), outcomeNumbers: newNumbers(outcomeNumber),
		doubts: map[*group]*doubts{}, idle: map[*outcome]struct{}{}, loose: map[*atom]struct{}{},
		changed: map[string]*group{}, left: map[string]*group{},
	}
}

// pending reports whether something has changed since the last flush.
func (c *classes) pending() bool {
	return len(c.doubts)+len(c.changed) > 0 || c.v4.changed() || c.v6.changed()
}

// include tells the addresses of an atom from others, or no longer does.
func (c *classes) include(a *atom, in bool) {
	c.v4.include(a, a.hosts4, in)
	c.v6.include(a, a.hosts6, in)
	if a.set == nil {
		return
	}
	a.set.asked = nil
	if in {
		a.set.asked = &asked{c, a}
	}
}

// asked is how an IP set whose addresses are told from others tells of changes.
type asked struct {
	classes *classes
	atom    *atom
}

func (a *asked) host4(addr [4]byte, in bool)  { a.classes.v4.move(addr, a.atom, in) }
func (a *asked) host6(addr [16]byte, in bool) { a.classes.v6.move(addr, a.atom, in) }

// net tells that a prefix, in no other one of the set, came or went.
func (a *asked) net(n netip.Prefix, in bool) {
	if first, last := n.Addr(), lastAddr(n); first.Is4() {
		a.classes.v4.paint(first.As4(), last.As4(), a.atom, in)
	} else {
		a.classes.v6.paint(first.As16(), last.As16(), a.atom, in)
	}
}

// allNets tells that all prefixes may be others.
func (a *asked) allNets() { a.classes.v4.ranges.dirty, a.classes.v6.ranges.dirty = true, true }

// settleClasses finds out which classes there are now, and what becomes of them in each group.
func (r *Renderer) settleClasses() {
	c := &r.classes
	c.v4.settleHosts()
	c.v6.settleHosts()
	c.v4.settleRanges()
	c.v6.settleRanges()
	settleSpace(r, c.v4)
	settleSpace(r, c.v6)
	if len(c.doubts) > 0 || c.unbound {
		r.settleDoubts()
	}
	r.sweepOutcomes()
	if c.renumber {
		r.renumber()
	}
	r.shareChains()
	for a := range c.loose {
		if len(a.tiers) == 0 {
			delete(c.atoms, a.name)
		}
	}
	c.loose = emptied(c.loose)
}

// settleDoubts finds out what is in doubt in groups.
func (r *Renderer) settleDoubts() {
	c := &r.classes
	work := c.doubts
	c.doubts = map[*group]*doubts{}
	for g, d := range work {
		r.takeStock(g, d)
	}
	r.boundGroups(work)
	for g, d := range work {
		switch {
		case g.broken:
			r.withdraw(g)
		case !g.beyond:
			r.settleGroup(g, d)
		}
	}
}

// settleSpace tells the groups which classes have come and gone.
func settleSpace[A addrBytes](r *Renderer, s *space[A]) {
	for c := range s.touched {
		live := c.members > 0
		if c == s.none || live == c.live {
			continue
		}
		c.live = live
		if live {
			r.classes.renumber = r.classes.classNumbers.add(&c.numbered) || r.classes.renumber
		} else {
			r.classes.renumber = r.classes.classNumbers.remove(&c.numbered) || r.classes.renumber
		}
		for _, a := range c.atoms {
			if live {
				a.classes[c] = struct{}{}
			} else {
				delete(a.classes, c)
			}
			for t := range a.tiers {
				for g := range t.users {
					r.doubt(g, c)
				}
			}
		}
	}
	for c := range s.touched {
		s.forget(c)
	}
	for _, c := range s.fresh {
		s.forget(c)
	}
	s.touched, s.fresh = emptied(s.touched), nil
}

// boundGroups decides which groups come to too much: each by itself, and if all together do, those that come to most.
func (r *Renderer) boundGroups(work map[*group]*doubts) {
	r.classes.unbound = false
	max := &r.cfg.Classes
	tooMuch := r.classes.beyond > 0 || r.classes.weight > max.MaxTotal
	for g := range work {
		tooMuch = tooMuch || g.weight > max.MaxPerGroup
	}
	if !tooMuch {
		return
	}
	groups := slices.SortedFunc(maps.Values(r.classes.groups), func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.id, b.id))
	})
	total := 0
	for _, g := range groups {
		total += g.weight
		beyond := g.weight > max.MaxPerGroup || total > max.MaxTotal
		if beyond == g.beyond {
			continue
		}
		g.beyond = beyond
		r.classes.beyond += map[bool]int{true: 1, false: -1}[beyond]
		for s := range g.users {
			r.dirtySubjects[s] = struct{}{}
		}
		if beyond {
			r.withdraw(g)
			continue
		}
		if work[g] == nil {
			work[g] = &doubts{classes: map[*class]struct{}{}}
		}
		work[g].all = true
		for c := range g.outcomes {
			work[g].classes[c] = struct{}{}
		}
	}
}

// renumber writes everything anew that has a number in it.
func (r *Renderer) renumber() {
	c := &r.classes
	c.renumber = false
	c.v4.renumber()
	c.v6.renumber()
	for _, g := range c.groups {
		var classes, outcomes []ruleset.Element
		for class, o := range g.outcomes {
			if o != nil {
				classes = append(classes, leads(class, o))
			}
		}
		for o := range g.uses {
			outcomes = append(outcomes, o.element())
		}
		g.classMap.replace(classes)
		g.outcomeMap.replace(outcomes)
		c.changed[g.id] = g
	}
}

// flushClasses adds to the delta what has changed of the classes' maps.
func (r *Renderer) flushClasses(d *ruleset.Delta) {
	c := &r.classes
	c.v4.flush(d)
	c.v6.flush(d)
	for _, id := range slices.Sorted(maps.Keys(c.changed)) {
		c.changed[id].classMap.flush(d)
		c.changed[id].outcomeMap.flush(d)
	}
	c.changed, c.left = emptied(c.changed), emptied(c.left)
}

// classSets returns the classes' maps.
func (r *Renderer) classSets() (out []*ruleset.Set) {
	c := &r.classes
	c.v4.ranges.show()
	c.v6.ranges.show()
	maps := []*elementSet{c.v4.ranges.elements, c.v6.ranges.elements}
	for _, g := range c.groups {
		maps = append(maps, g.classMap, g.outcomeMap)
	}
	for _, m := range maps {
		if m.wanted {
			out = append(out, m.kernelSet())
		}
	}
	if !c.v4.empty() {
		out = append(out, c.v4.kernelSet())
	}
	if !c.v6.empty() {
		out = append(out, c.v6.kernelSet())
	}
	return out
}
