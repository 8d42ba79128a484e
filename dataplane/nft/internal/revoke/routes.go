// SPDX-License-Identifier: Apache-2.0

package revoke

import (
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/internal/reuse"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// loopback is the name of the loopback interface. An address that is routed to it belongs to the
// node itself.
const loopback = "lo"

// Side is the place of an address: behind an interface, or on the node itself.
type Side struct {
	Interface string
	Local     bool
}

// Finder finds the Side of an address that belongs to no endpoint.
type Finder interface {
	// Find returns each Side on which the address may be. If none is known, the result is empty.
	Find(netip.Addr) []Side
}

// routeFinder is a Finder that looks up the routes of the node. It caches the results until clear
// is called.
type routeFinder struct {
	conn  *rtnl.Conn
	found map[netip.Addr][]Side
	links map[int]string
}

// maxRoutes limits the cache of a routeFinder.
const maxRoutes = 1 << 16

func newRouteFinder(conn *rtnl.Conn) *routeFinder {
	return &routeFinder{conn: conn, found: map[netip.Addr][]Side{}}
}

func (r *routeFinder) clear() { r.found, r.links = reuse.Map(r.found), nil }

// Find implements Finder.
func (r *routeFinder) Find(a netip.Addr) []Side {
	sides, ok := r.found[a]
	if !ok {
		if len(r.found) >= maxRoutes {
			r.clear()
		}
		sides = r.lookup(a)
		r.found[a] = sides
	}
	return sides
}

func (r *routeFinder) lookup(a netip.Addr) []Side {
	if a.Is6() && a.IsLinkLocalUnicast() { // the same address may be behind every interface
		return nil
	}
	route, err := r.conn.Lookup(a)
	switch {
	case err != nil:
		return nil
	case route.Type == rtnl.TypeLocal:
		return []Side{{Local: true}}
	case route.Type != rtnl.TypeUnicast:
		return nil
	}
	if r.links == nil {
		r.links = map[int]string{}
		links, err := r.conn.Links()
		if err != nil {
			return nil
		}
		for _, l := range links {
			r.links[l.Index] = l.Name
		}
	}
	switch name := r.links[route.Index]; name {
	case "":
		return nil
	case loopback:
		return []Side{{Local: true}}
	default:
		return []Side{{Interface: name}}
	}
}
