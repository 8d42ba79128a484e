// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/internal/rtnl"
	"github.com/wayleave/wayleave/policy"
)

// opFind is the operation in errors about an endpoint's interface.
const opFind = "find interface"

// plan computes the changes that bring the stale part of want about, in order. What cannot be is in
// the report.
func plan(cfg Config, want *desired, have *observed) ([]change, *report) {
	p := &planner{cfg: cfg, want: want, have: have, report: newReport()}
	p.sysctls()
	for _, prefix := range slices.SortedFunc(maps.Keys(want.stale), comparePrefixes) {
		p.address(prefix, want.stale[prefix])
	}
	slices.SortFunc(p.changes, compareChanges)
	return p.changes, p.report
}

type planner struct {
	cfg     Config
	want    *desired
	have    *observed
	changes []change
	report  *report
}

// address plans one address: what there should be against what there is.
func (p *planner) address(prefix netip.Prefix, blame policy.Key) {
	var routes []rtnl.Route
	var neighbours []rtnl.Neighbour
	key, ep := p.want.owner(prefix)
	dev := ""
	if ep != nil {
		blame, dev = key, ep.iface
		link, err := p.link(ep)
		if err != nil {
			p.report.fail(blame, opFind, err, prefix)
		} else {
			routes = []rtnl.Route{p.route(prefix, link)}
			if ep.mac != (rtnl.MAC{}) {
				neighbours = []rtnl.Neighbour{p.neighbour(prefix, link, ep.mac)}
			}
		}
	}
	for _, loser := range p.want.losers(prefix) {
		p.report.fail(loser, addRoute.String(), fmt.Errorf("%w: %s of %s", ErrContested, prefix.Addr(), key), prefix)
	}
	had, hadNeighbours := p.have.routes[prefix], p.have.neighbours[prefix]
	for _, r := range without(had, routes) {
		p.add(change{op: deleteRoute, key: blame, prefix: prefix, route: r, dev: p.have.nameOf(r.Index)})
	}
	for _, n := range without(hadNeighbours, neighbours) {
		// One that is only to change is replaced.
		if !slices.ContainsFunc(neighbours, func(o rtnl.Neighbour) bool { return o.Index == n.Index }) {
			p.add(change{op: deleteNeighbour, key: blame, prefix: prefix, neighbour: n, dev: p.have.nameOf(n.Index)})
		}
	}
	for _, n := range without(neighbours, hadNeighbours) {
		p.add(change{op: addNeighbour, key: blame, prefix: prefix, neighbour: n, dev: dev})
	}
	for _, r := range without(routes, had) {
		p.add(change{op: addRoute, key: blame, prefix: prefix, route: r, dev: dev})
	}
}

func (p *planner) add(c change) { p.changes = append(p.changes, c) }

// link returns the interface of an endpoint if it can have routes.
func (p *planner) link(ep *endpoint) (rtnl.Link, error) {
	link, exists := p.have.links[ep.iface]
	switch {
	case ep.iface == "":
		return rtnl.Link{}, ErrEndpoint
	case !exists:
		return rtnl.Link{}, fmt.Errorf("%w: %s", ErrNoInterface, ep.iface)
	case !link.Up:
		return rtnl.Link{}, fmt.Errorf("%w: %s", ErrInterfaceDown, ep.iface)
	}
	return link, nil
}

func (p *planner) route(prefix netip.Prefix, link rtnl.Link) rtnl.Route {
	r := rtnl.Route{
		Dst: prefix, Table: p.cfg.Table, Protocol: p.cfg.Protocol, Type: rtnl.TypeUnicast, Index: link.Index,
		Scope: rtnl.ScopeLink,
	}
	if prefix.Addr().Is6() { // as the kernel lists it
		r.Scope, r.Metric = rtnl.ScopeUniverse, rtnl.DefaultMetric6
	}
	return r
}

func (p *planner) neighbour(prefix netip.Prefix, link rtnl.Link, mac rtnl.MAC) rtnl.Neighbour {
	return rtnl.Neighbour{
		Addr: prefix.Addr(), Index: link.Index, MAC: mac,
		State: rtnl.StatePermanent, Protocol: p.cfg.Protocol,
	}
}

// sysctls plans the settings of the interfaces of endpoints that are new or not yet right. Two endpoints may
// need the same setting: each is to blame if it cannot be had.
func (p *planner) sysctls() {
	var wanted []change
	for _, key := range slices.SortedFunc(maps.Keys(p.want.unset), policy.Key.Compare) {
		ep := p.want.endpoints[key]
		if ep.err != nil {
			p.report.fail(key, "use endpoint", ep.err)
		}
		if ep.iface == "" {
			continue
		}
		if _, exists := p.have.links[ep.iface]; !exists {
			p.report.fail(key, opFind, fmt.Errorf("%w: %s", ErrNoInterface, ep.iface))
			continue
		}
		for path, value := range p.cfg.settings(ep) {
			wanted = append(wanted, change{op: setSysctl, key: key, path: path, value: value})
		}
	}
	slices.SortFunc(wanted, compareChanges)
	p.changes = append(p.changes, differing(p.cfg.Namespace, wanted, p.report)...)
}

// without returns those of a that are not in b.
func without[T comparable](a, b []T) []T {
	var rest []T
	for _, v := range a {
		if !slices.Contains(b, v) {
			rest = append(rest, v)
		}
	}
	return rest
}
