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
	// Addresses has the addresses that can be used, with the prefix lengths of their subnets, in no
	// order.
	Addresses []netip.Prefix
	// Since is the time when the interface was first read.
	Since time.Time
}

// Links tracks the interfaces of a namespace and their addresses. Read lists them, and Update
// applies the events of a Monitor. Links is not safe for concurrent use.
type Links struct {
	// ByIndex and ByName have the interfaces. Do not change them.
	ByIndex map[int]*Interface
	ByName  map[string]*Interface
}

// LinkChange describes the change of an interface that an event reports.
type LinkChange struct {
	// Changed is set if anything changed.
	Changed bool
	// Index of the interface.
	Index int
	// Name is the name after the change, or the last name of a deleted interface. OldName is the
	// name before the change, if known.
	Name, OldName string
	// Flushed means that the kernel removed the interface's routes and neighbour entries. The
	// reason is that the interface was deleted, was down (if only for a moment), or lost its last
	// IPv4 address. In the last case, the kernel does not report that it removed IPv4 routes.
	Flushed bool
	// Deleted means that the interface no longer exists.
	Deleted bool
	// Altered means that the MTU, MAC address, alias or kind changed.
	Altered bool
	// Appeared means that the interface is up now, and was down or did not exist before.
	Appeared bool
	// Renamed means that the name of the interface changed.
	Renamed bool
	// Replaced means that the interface is new, was deleted or was renamed. Then Name and OldName,
	// and the sysctls with these names, no longer belong to the same interfaces as before.
	Replaced bool
	// Address means that the addresses changed. Removed is the address that was removed, if there
	// is one.
	Address bool
	Removed netip.Addr
}

// Read lists all interfaces and addresses again. If an interface was known before, its field Since
// keeps the value.
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

// Reset does the same as Read, but with the given lists.
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

// Update applies an event of GroupLinks or GroupAddresses.
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
	l.ByName[link.Name] = s // the previous interface of that name was deleted, or will be renamed
	return c
}

func (l *Links) gone(link Link) LinkChange {
	c := LinkChange{Index: link.Index, Name: link.Name, Flushed: true, Deleted: true, Replaced: true}
	if s := l.ByIndex[link.Index]; s != nil {
		c.Changed, c.OldName = true, s.Name
		l.unname(s)
		delete(l.ByIndex, link.Index)
	}
	return c
}

// unname deletes the entry of an interface's name, unless another interface has the name.
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
		return c // a repeated event, or one of an unknown address
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
