// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// links are the interfaces and their addresses, kept up with what a monitor says. It knows nothing
// of the kernel.
type links struct {
	byIndex map[int]*linkState
	byName  map[string]*linkState
	// subnets are listed when asked for; nil once something changed.
	subnets []subnet
}

// linkState is what is known of one interface.
type linkState struct {
	rtnl.Link
	addresses []netip.Prefix
	since     time.Time // when it was first seen
}

// linkChange says what an event did to an interface.
type linkChange struct {
	index int
	// name is that after the change, or the last one that it had; oldName that before, if it was
	// known.
	name, oldName string
	// flushed means that the kernel took its routes and neighbour entries: it went, was down, if
	// only for a moment, or lost its last IPv4 address. Of the latter's IPv4 routes it says
	// nothing.
	flushed bool
	// altered means that its MTU, MAC address or parameters are other ones.
	altered bool
	// appeared means that it exists and is up, and was not so before, or that it is another one of
	// the same name.
	appeared bool
	// renamed means that it has another name than before.
	renamed bool
	// replaced means that no interface has the old name any more, or another one: its sysctls are
	// not those of before.
	replaced bool
	// address means that its addresses are other ones; removed is the one that it lost, if it lost
	// one.
	address bool
	removed netip.Addr
}

func newLinks() *links {
	return &links{byIndex: map[int]*linkState{}, byName: map[string]*linkState{}}
}

// reset replaces all that is known by what the kernel lists. Interfaces that were known keep the
// time since when.
func (l *links) reset(list []rtnl.Link, addresses []rtnl.Address, now time.Time) {
	known := l.byIndex
	l.subnets = nil
	l.byIndex = make(map[int]*linkState, len(list))
	l.byName = make(map[string]*linkState, len(list))
	for _, link := range list {
		s := &linkState{Link: link, since: now}
		if old := known[link.Index]; old != nil {
			s.since = old.since
		}
		l.byIndex[link.Index], l.byName[link.Name] = s, s
	}
	for _, a := range addresses {
		if s := l.byIndex[a.Index]; s != nil && !a.Tentative {
			s.addresses = append(s.addresses, a.Prefix)
		}
	}
}

// update takes in an event about an interface or an address.
func (l *links) update(e *rtnl.Event, now time.Time) linkChange {
	l.subnets = nil
	switch {
	case e.Group == rtnl.GroupAddresses:
		return l.address(e.Address, e.Gone)
	case e.Gone:
		return l.gone(e.Link)
	default:
		return l.changed(e.Link, now)
	}
}

func (l *links) changed(link rtnl.Link, now time.Time) linkChange {
	c := linkChange{index: link.Index, name: link.Name, flushed: !link.Up}
	s := l.byIndex[link.Index]
	if s == nil {
		s = &linkState{since: now}
		l.byIndex[link.Index] = s
		c.appeared, c.replaced = link.Up, true
	} else {
		c.oldName, c.renamed = s.Name, s.Name != link.Name
		c.replaced = c.renamed
		c.appeared = link.Up && !s.Up
		like := link
		like.Name, like.Up, like.Running, like.Master = s.Name, s.Up, s.Running, s.Master
		c.altered = like != s.Link
		l.unname(s)
	}
	s.Link = link
	l.byName[link.Name] = s // whoever had the name before has gone, or is about to be renamed
	return c
}

func (l *links) gone(link rtnl.Link) linkChange {
	c := linkChange{index: link.Index, name: link.Name, flushed: true, replaced: true}
	if s := l.byIndex[link.Index]; s != nil {
		c.oldName = s.Name
		l.unname(s)
		delete(l.byIndex, link.Index)
	}
	return c
}

// unname takes an interface's name away, unless another one has it by now.
func (l *links) unname(s *linkState) {
	if l.byName[s.Name] == s {
		delete(l.byName, s.Name)
	}
}

func (l *links) address(a rtnl.Address, gone bool) linkChange {
	s := l.byIndex[a.Index]
	if s == nil {
		return linkChange{index: a.Index}
	}
	c := linkChange{index: a.Index, name: s.Name, oldName: s.Name}
	gone = gone || a.Tentative
	at := slices.Index(s.addresses, a.Prefix)
	if gone != (at >= 0) {
		return c // it is said again, or never was
	}
	c.address = true
	if !gone {
		s.addresses = append(s.addresses, a.Prefix)
		return c
	}
	s.addresses = slices.Delete(s.addresses, at, at+1)
	c.removed = a.Prefix.Addr()
	c.flushed = c.removed.Is4() && !slices.ContainsFunc(s.addresses, func(p netip.Prefix) bool {
		return p.Addr().Is4()
	})
	return c
}

// named returns the interface with a name.
func (l *links) named(name string) (rtnl.Link, bool) {
	if s := l.byName[name]; s != nil {
		return s.Link, true
	}
	return rtnl.Link{}, false
}

// index returns the interface with an index.
func (l *links) index(i int) (rtnl.Link, bool) {
	if s := l.byIndex[i]; s != nil {
		return s.Link, true
	}
	return rtnl.Link{}, false
}

// since returns when the interface with an index was first seen; the zero time if there is none.
func (l *links) since(index int) time.Time {
	if s := l.byIndex[index]; s != nil {
		return s.since
	}
	return time.Time{}
}

// subnet is one that an interface which is up has an address in.
type subnet struct {
	prefix netip.Prefix // as the address has it, not masked
	link   *linkState
}

// towards returns the interface that is up and has the address in the innermost subnet of its own,
// and of several such the one with the least index. Link-local addresses are on every link: they
// lead nowhere.
func (l *links) towards(address netip.Addr) (rtnl.Link, bool) {
	if l.subnets == nil {
		l.subnets = l.listSubnets()
	}
	for _, s := range l.subnets {
		if s.prefix.Contains(address) {
			return s.link.Link, true
		}
	}
	return rtnl.Link{}, false
}

// listSubnets returns the subnets, innermost first; not nil.
func (l *links) listSubnets() []subnet {
	list := []subnet{}
	for _, s := range l.byIndex {
		for _, p := range s.addresses {
			if s.Up && !p.IsSingleIP() && !p.Addr().IsLinkLocalUnicast() {
				list = append(list, subnet{p, s})
			}
		}
	}
	slices.SortFunc(list, func(a, b subnet) int {
		return cmp.Or(cmp.Compare(b.prefix.Bits(), a.prefix.Bits()), cmp.Compare(a.link.Index, b.link.Index))
	})
	return list
}

// holding returns the interface that has the address; of several the one with the least index.
func (l *links) holding(address netip.Addr) (rtnl.Link, bool) {
	var best *linkState
	for _, s := range l.byIndex {
		has := slices.ContainsFunc(s.addresses, func(p netip.Prefix) bool { return p.Addr() == address })
		if has && (best == nil || s.Index < best.Index) {
			best = s
		}
	}
	if best == nil {
		return rtnl.Link{}, false
	}
	return best.Link, true
}
