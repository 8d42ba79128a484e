// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"net/netip"
	"slices"
	"time"
)

// Interface is a network interface with its addresses.
type Interface struct {
	Link
	// Addresses that are usable, with the lengths of their subnets, in no order.
	Addresses []netip.Prefix
	// Since is when it was first seen.
	Since time.Time
}

// Links tracks the interfaces of a namespace and their addresses: what Read listed, kept up with
// what a Monitor announces. It is not safe for concurrent use.
type Links struct {
	// ByIndex and ByName are the interfaces, to be read only.
	ByIndex map[int]*Interface
	ByName  map[string]*Interface
}

// LinkChange says what an event did to an interface.
type LinkChange struct {
	// Changed means that anything is not as it was.
	Changed bool
	// Index of the interface.
	Index int
	// Name is that after the change, or the last one that it had; OldName that before, if it was
	// known.
	Name, OldName string
	// Flushed means that the kernel took its routes and neighbour entries: it went, was down, if
	// only for a moment, or lost its last IPv4 address. Of the latter's IPv4 routes it says
	// nothing.
	Flushed bool
	// Altered means that its MTU, MAC address, alias or kind is another one.
	Altered bool
	// Appeared means that it exists and is up, and was not so before, or that it is another one of
	// the same name.
	Appeared bool
	// Renamed means that it has another name than before.
	Renamed bool
	// Replaced means that no interface has the old name any more, or another one: its sysctls are
	// not those of before.
	Replaced bool
	// Address means that its addresses are other ones; Removed is the one that it lost, if it lost
	// one.
	Address bool
	Removed netip.Addr
}

// Read replaces all that is known by what the kernel lists. Interfaces that were known keep the
// time since when.
func (l *Links) Read(c *Conn, now time.Time) error {
	links, err := c.Links()
	if err != nil {
		return err
	}
	addresses, err := c.Addresses()
	if err == nil {
		l.Reset(links, addresses, now)
	}
	return err
}

// Reset is Read of what was listed already.
func (l *Links) Reset(list []Link, addresses []Address, now time.Time) {
	known := l.ByIndex
	l.ByIndex = make(map[int]*Interface, len(list))
	l.ByName = make(map[string]*Interface, len(list))
	for _, link := range list {
		s := &Interface{Link: link, Since: now}
		if old := known[link.Index]; old != nil {
			s.Since = old.Since
		}
		l.ByIndex[link.Index], l.ByName[link.Name] = s, s
	}
	for _, a := range addresses {
		if s := l.ByIndex[a.Index]; s != nil && !a.Tentative {
			s.Addresses = append(s.Addresses, a.Prefix)
		}
	}
}

// Update takes in an event of GroupLinks or GroupAddresses.
func (l *Links) Update(e *Event, now time.Time) LinkChange {
	if l.ByIndex == nil {
		l.Reset(nil, nil, now)
	}
	switch {
	case e.Group == GroupAddresses:
		return l.address(e.Address, e.Gone)
	case e.Gone:
		return l.gone(e.Link)
	default:
		return l.changed(e.Link, now)
	}
}

func (l *Links) changed(link Link, now time.Time) LinkChange {
	c := LinkChange{Index: link.Index, Name: link.Name, Flushed: !link.Up}
	s := l.ByIndex[link.Index]
	if s == nil {
		s = &Interface{Since: now}
		l.ByIndex[link.Index] = s
		c.Changed, c.Appeared, c.Replaced = true, link.Up, true
	} else {
		c.Changed = s.Link != link
		c.OldName, c.Renamed = s.Name, s.Name != link.Name
		c.Replaced = c.Renamed
		c.Appeared = link.Up && !s.Up
		like := link
		like.Name, like.Up, like.Running, like.Master = s.Name, s.Up, s.Running, s.Master
		c.Altered = like != s.Link
		l.unname(s)
	}
	s.Link = link
	l.ByName[link.Name] = s // whoever had the name before has gone, or is about to be renamed
	return c
}

func (l *Links) gone(link Link) LinkChange {
	c := LinkChange{Index: link.Index, Name: link.Name, Flushed: true, Replaced: true}
	if s := l.ByIndex[link.Index]; s != nil {
		c.Changed, c.OldName = true, s.Name
		l.unname(s)
		delete(l.ByIndex, link.Index)
	}
	return c
}

// unname takes an interface's name away, unless another one has it by now.
func (l *Links) unname(s *Interface) {
	if l.ByName[s.Name] == s {
		delete(l.ByName, s.Name)
	}
}

func (l *Links) address(a Address, gone bool) LinkChange {
	s := l.ByIndex[a.Index]
	if s == nil {
		return LinkChange{Index: a.Index}
	}
	c := LinkChange{Index: a.Index, Name: s.Name, OldName: s.Name}
	gone = gone || a.Tentative
	at := slices.Index(s.Addresses, a.Prefix)
	if gone != (at >= 0) {
		return c // it is said again, or never was
	}
	c.Changed, c.Address = true, true
	if !gone {
		s.Addresses = append(s.Addresses, a.Prefix)
		return c
	}
	s.Addresses = slices.Delete(s.Addresses, at, at+1)
	c.Removed = a.Prefix.Addr()
	c.Flushed = c.Removed.Is4() && !slices.ContainsFunc(s.Addresses, func(p netip.Prefix) bool {
		return p.Addr().Is4()
	})
	return c
}
