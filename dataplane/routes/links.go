// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// links tracks the interfaces of the namespace and their addresses. It also finds the interface
// whose subnet contains an address.
type links struct {
	rtnl.Links
	// bridges has the names of Config.Bridges. devices has the names of our tunnel devices.
	bridges, devices []string
	// subnets caches the result of listSubnets; nil after a change.
	subnets []subnet
}

func (l *links) read(c *rtnl.Conn, now time.Time) error {
	l.subnets = nil
	return l.Links.Read(c, now)
}

// update applies an event about an interface or an address.
func (l *links) update(e *rtnl.Event, now time.Time) rtnl.LinkChange {
	l.subnets = nil
	return l.Links.Update(e, now)
}

// fork returns links with the same bridges and devices, and without interfaces.
func (l *links) fork() *links { return &links{bridges: l.bridges, devices: l.devices} }

// named returns the interface with a name.
func (l *links) named(name string) (rtnl.Link, bool) {
	if s := l.ByName[name]; s != nil {
		return s.Link, true
	}
	return rtnl.Link{}, false
}

// index returns the interface with an index.
func (l *links) index(i int) (rtnl.Link, bool) {
	if s := l.ByIndex[i]; s != nil {
		return s.Link, true
	}
	return rtnl.Link{}, false
}

// nameOf returns the name of the interface with an index, or the empty string.
func (l *links) nameOf(index int) string {
	link, _ := l.index(index)
	return link.Name
}

// since returns when the interface with an index was first seen; the zero time if there is none.
func (l *links) since(index int) time.Time {
	if s := l.ByIndex[index]; s != nil {
		return s.Since
	}
	return time.Time{}
}

// subnet is the subnet of an address of an interface that is up.
type subnet struct {
	prefix netip.Prefix // the interface's address with its length, not masked
	link   *rtnl.Interface
}

// towards returns the interface whose subnet contains the address. If there are several, it is the
// one with the longest prefix, and then the one with the least index. Interfaces that are down do
// not count, nor do link-local subnets, which every link has.
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

// listSubnets returns the subnets, the longest prefix first; not nil.
func (l *links) listSubnets() []subnet {
	list := []subnet{}
	for _, s := range l.ByIndex {
		for _, p := range s.Addresses {
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

// linkWithAddress returns the interface with the address; of several, the one with the least index.
func (l *links) linkWithAddress(address netip.Addr) (rtnl.Link, bool) {
	var best *rtnl.Interface
	for _, s := range l.ByIndex {
		has := slices.ContainsFunc(s.Addresses, func(p netip.Prefix) bool { return p.Addr() == address })
		if has && (best == nil || s.Index < best.Index) {
			best = s
		}
	}
	if best == nil {
		return rtnl.Link{}, false
	}
	return best.Link, true
}
