// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// observed is what the kernel is known to have of ours. It is read once, then kept
// up with what is changed, and read again when there is reason to doubt it.
type observed struct {
	links      map[string]rtnl.Link
	routes     map[netip.Prefix][]rtnl.Route
	neighbours map[netip.Prefix][]rtnl.Neighbour
}

// observe reads everything.
func observe(conn *rtnl.Conn, cfg Config) (*observed, error) {
	o := &observed{
		links:      map[string]rtnl.Link{},
		routes:     map[netip.Prefix][]rtnl.Route{},
		neighbours: map[netip.Prefix][]rtnl.Neighbour{},
	}
	links, err := conn.Links()
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		o.links[link.Name] = link
	}
	for _, family := range []int{4, 6} {
		routes, err := conn.Routes(rtnl.RouteFilter{Family: family, Table: cfg.Table, Protocol: cfg.Protocol})
		if err != nil {
			return nil, err
		}
		for _, r := range routes {
			o.routes[r.Dst] = append(o.routes[r.Dst], r)
		}
		neighbours, err := conn.Neighbours(family, cfg.Protocol)
		if err != nil {
			return nil, err
		}
		for _, n := range neighbours {
			if n.Static() { // what the kernel learned since is its own
				prefix := hostPrefix(n.Addr)
				o.neighbours[prefix] = append(o.neighbours[prefix], n)
			}
		}
	}
	return o, nil
}

// withLinks returns a copy that has the links, and shares the rest.
func (o *observed) withLinks() *observed {
	c := *o
	c.links = maps.Clone(o.links)
	return &c
}

// nameOf returns the name of an interface, or the empty string.
func (o *observed) nameOf(index int) string {
	for name, link := range o.links {
		if link.Index == index {
			return name
		}
	}
	return ""
}

// record takes in that a change has been made.
func (o *observed) record(c change) {
	switch c.op {
	case addRoute:
		o.routes[c.prefix] = append(o.routes[c.prefix], c.route)
	case deleteRoute:
		remove(o.routes, c.prefix, func(r rtnl.Route) bool { return r == c.route })
	case addNeighbour, deleteNeighbour:
		remove(o.neighbours, c.prefix, func(n rtnl.Neighbour) bool { return n.Index == c.neighbour.Index })
		if c.op == addNeighbour {
			o.neighbours[c.prefix] = append(o.neighbours[c.prefix], c.neighbour)
		}
	}
}

// forget takes out the routes and neighbour entries of interfaces, and returns their prefixes.
func (o *observed) forget(interfaces map[int]struct{}) (prefixes []netip.Prefix) {
	if len(interfaces) == 0 {
		return nil
	}
	for prefix, routes := range o.routes {
		remove(o.routes, prefix, func(r rtnl.Route) bool { return has(interfaces, r.Index) })
		if len(o.routes[prefix]) < len(routes) {
			prefixes = append(prefixes, prefix)
		}
	}
	for prefix, neighbours := range o.neighbours {
		remove(o.neighbours, prefix, func(n rtnl.Neighbour) bool { return has(interfaces, n.Index) })
		if len(o.neighbours[prefix]) < len(neighbours) {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

func has[K comparable](set map[K]struct{}, k K) bool {
	_, ok := set[k]
	return ok
}

func remove[T any](m map[netip.Prefix][]T, prefix netip.Prefix, gone func(T) bool) {
	if m[prefix] = slices.DeleteFunc(m[prefix], gone); len(m[prefix]) == 0 {
		delete(m, prefix)
	}
}

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
