// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// routeChange is one change to a route in the kernel.
type routeChange struct {
	slot *routeSlot
	// old is the kernel's route to delete or replace. any means that old matches any stray of the
	// slot, and the kernel deletes the first.
	old *rtnl.Route
	any bool
	// add means that the first claim is added, over the interface with this index.
	add   bool
	index int
	// last means that old, a blackhole or throw route, is deleted after the unwanted devices. Until
	// then, the blackhole route drops packets that such a device encrypted: without the route, they
	// would pass unencrypted.
	last bool
}

// planRoutes returns the changes that dirty slots need: deletions and additions, each list in
// order. It records the faults of desired routes that cannot be added.
func (p *pass) planRoutes() (deletions, additions []routeChange) {
	s := p.view.stores.routes
	dirty := s.dirty
	s.dirty = nil
	additions = make([]routeChange, 0, len(dirty))
	for _, slot := range dirty {
		slot.state.dirty = false
		if len(slot.claims) == 0 {
			deletions = p.sweep(slot, deletions)
			continue
		}
		ok := p.resolve(slot, &s.scratch)
		if ok && !slot.state.present {
			slot.adopt(&s.scratch)
		}
		if slot.state.present {
			if !ok || !s.holds(slot, &s.scratch) {
				s.displace(slot)
			}
		} else if ok {
			ok = !p.blocked[slot.claims[0].Interface] // the interface or one of its settings is at fault
		}
		if ok && slot.state.ceded {
			p.result.fail("add route", slot.claims[0], ErrCeded)
			ok = false
		}
		if !ok && !p.view.links.portNamed(slot.claims[0].Interface) { // an event about a port marks it again
			s.markDirty(slot)
		}
		deletions, additions = p.planSlot(slot, ok, deletions, additions)
	}
	byKey := func(a, b routeChange) int { return a.slot.key.compare(b.slot.key) }
	slices.SortFunc(deletions, byKey)
	slices.SortFunc(additions, byKey)
	return deletions, additions
}

// splitDeletions divides deletions into three lists. Those in before come before the additions,
// because a request to delete could match an added route of the same slot. Those in after come
// after the additions, and those in last after the removal of devices.
func splitDeletions(deletions, additions []routeChange, tables []uint32) (before, after, last []routeChange) {
	added := map[*routeSlot]bool{}
	if len(deletions) > 0 {
		for _, c := range additions {
			added[c.slot] = true
		}
	}
	for _, c := range deletions {
		switch {
		case added[c.slot]:
			before = append(before, c)
		case c.last:
			last = append(last, c)
		default:
			after = append(after, c)
		}
	}
	// In the order of KeeperConfig.Tables: throw routes of the first table lead to blackhole routes
	// of the next.
	slices.SortStableFunc(last, func(a, b routeChange) int {
		return slices.Index(tables, a.slot.key.table) - slices.Index(tables, b.slot.key.table)
	})
	return before, after, last
}

// resolve finds the interface of the slot's desired route, and reports whether there is one.
func (p *pass) resolve(slot *routeSlot, out *rtnl.Route) bool {
	r := &slot.claims[0]
	err := r.validate()
	if err == nil && !slices.Contains(p.view.stores.routes.tables, r.Table) {
		err = fmt.Errorf("%w: the Keeper does not manage table %d", ErrObject, r.Table)
	}
	if err != nil {
		p.result.fail("check route", *r, err)
		return false
	}
	err = r.kernel(p.cfg.Protocol, p.view.links, out)
	if err != nil && !errors.Is(err, errPort) { // a port without a route is not a fault
		p.noInterface(r.Interface, *r, err)
	}
	return err == nil
}

// planSlot plans a slot with a desired route. If can is set, the route can be added, and is in
// routeStore.scratch.
func (p *pass) planSlot(slot *routeSlot, can bool, deletions, additions []routeChange) (_, _ []routeChange) {
	plain := 0 // strays that the kernel could confuse with the desired one
	for i := range slot.strays {
		if slot.strays[i].route.TOS == 0 {
			plain++
		}
	}
	var keep *rtnl.Route // the route that the desired one replaces atomically
	switch {
	case can && !slot.state.present && plain == 1 && len(slot.strays) == 1 && slot.others == 0:
		only := slot.strays[0].route
		keep = &only
	case slot.state.present && plain > 0:
		p.view.stores.routes.displace(slot)
		fallthrough
	default:
		deletions = drop(slot, slot.strays, deletions)
	}
	if can && !slot.state.present {
		additions = append(additions, routeChange{
			slot: slot, old: keep, add: true, index: p.view.stores.routes.scratch.Index,
		})
	}
	return deletions, additions
}

// drop appends deletions of all strays of one slot. A request to delete can match several routes.
// Without a gateway, a request matches any gateway. For IPv6, a next hop matches any route with
// that hop. Therefore, if there are several strays, each request only has the destination, table
// and metric. The kernel then deletes the first of our routes that matches. Blackhole routes are
// deleted last, and so are throw routes: the blackhole route of a wider prefix must not outlive a
// throw route.
func drop(slot *routeSlot, strays []stray, deletions []routeChange) []routeChange {
	for _, o := range strays {
		c := routeChange{slot: slot, old: &o.route}
		c.last = o.route.Type == rtnl.TypeBlackhole || o.route.Type == rtnl.TypeThrow
		if len(strays) > 1 && o.route.TOS == 0 {
			c.old = &rtnl.Route{
				Dst: o.route.Dst, Table: o.route.Table, Metric: o.route.Metric, Protocol: o.route.Protocol,
				Scope: rtnl.ScopeNowhere,
			}
			c.any = true
		}
		deletions = append(deletions, c)
	}
	return deletions
}

// sweep plans a slot without a desired route: it deletes the slot's routes. A route over a new
// interface may belong to a workload that is not known yet, and stays for UnknownRouteTimeout. A
// route with a gateway belongs to no workload.
func (p *pass) sweep(slot *routeSlot, deletions []routeChange) []routeChange {
	if len(slot.strays) == 0 {
		p.view.stores.routes.remove(slot)
		return deletions
	}
	if p.additionsOnly {
		p.view.stores.routes.markDirty(slot)
		return deletions
	}
	for _, o := range slot.strays {
		if o.found && p.keepsUnwanted() {
			p.view.stores.routes.markDirty(slot)
			return deletions
		}
		if !o.found || o.route.Index == 0 || o.route.Gateway.IsValid() || p.view.stores.tearingDown {
			continue
		}
		if until := p.view.links.since(o.route.Index).Add(p.cfg.UnknownRouteTimeout); p.view.now().Before(until) {
			p.result.wait(until)
			p.view.stores.routes.markDirty(slot)
			return deletions
		}
	}
	return drop(slot, slot.strays, deletions)
}

// text returns a route of the kernel in the syntax of ip.
func (p *pass) text(r *rtnl.Route) string {
	scope, tos := "", ""
	if r.Scope == rtnl.ScopeLink {
		scope = " scope link"
	}
	if r.TOS != 0 {
		tos = fmt.Sprintf(" tos 0x%02x", r.TOS)
	}
	return p.view.links.route(r).text(scope, fmt.Sprintf(" proto %d", r.Protocol), tos)
}

// ipFamily returns the option of ip for the family of an address.
func ipFamily(a netip.Addr) string {
	if a.Is6() {
		return "-6 "
	}
	return ""
}
