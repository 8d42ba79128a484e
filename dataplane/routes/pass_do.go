// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// explain wraps an error of the kernel in the matching error of this package.
func (p *pass) explain(err error, dev string) error {
	switch {
	case errors.Is(err, rtnl.ErrNotFound):
		p.result.stale = true
		return fmt.Errorf("%w: %s: %w", ErrNoInterface, dev, err) // deleted since
	case errors.Is(err, rtnl.ErrDown):
		p.result.stale = true
		return fmt.Errorf("%w: %s: %w", ErrInterfaceDown, dev, err)
	}
	return err
}

// sendRoutes makes changes to routes. If one fails, the others are made nevertheless.
func (p *pass) sendRoutes(changes []routeChange) error {
	if p.dry {
		for i := range changes {
			p.result.print(p.routeText(&changes[i]))
		}
		return nil
	}
	p.view.sockets.batch.Reset()
	var wanted rtnl.Route
	for i := range changes {
		c := &changes[i]
		if !c.add {
			p.view.sockets.batch.DeleteRoute(c.old)
			continue
		}
		if p.view.stores.routes.form(c.slot, c.index, &wanted); c.old == nil {
			p.view.sockets.batch.AddRoute(&wanted)
		} else {
			p.view.sockets.batch.ReplaceRoute(&wanted)
		}
	}
	var withdraw []routeChange
	refused := map[*routeChange]error{} // because another route exists
	next := 0                           // the first change whose result is not known yet
	err := p.view.sockets.send(func(i int, err error) {
		for ; next < i; next++ {
			p.routeDone(&changes[next])
		}
		next++
		if changes[i].add && errors.Is(err, rtnl.ErrExist) {
			refused[&changes[i]] = err
			return
		}
		if deletion, ok := p.routeFailed(&changes[i], err); ok {
			withdraw = append(withdraw, deletion)
		}
	})
	if err != nil {
		return err
	}
	for ; next < len(changes); next++ {
		p.routeDone(&changes[next])
	}
	more, err := p.routesExist(refused)
	if withdraw = append(withdraw, more...); err != nil || len(withdraw) == 0 {
		return err
	}
	return p.sendRoutes(withdraw)
}

// routesExist handles additions that the kernel refused because another process has a route with
// the same destination, table and metric. If that route is identical, ours is not needed (case S172
// of docs/semantics.md).
func (p *pass) routesExist(refused map[*routeChange]error) (withdraw []routeChange, err error) {
	tables := map[rtnl.RouteFilter]map[routeKey]*routeChange{}
	for c := range refused {
		f := rtnl.RouteFilter{Family: 4, Table: c.slot.key.table}
		if c.slot.key.dst.Addr().Is6() {
			f.Family = 6
		}
		if tables[f] == nil {
			tables[f] = map[routeKey]*routeChange{}
		}
		tables[f][c.slot.key] = c
	}
	var wanted rtnl.Route
	for f, changes := range tables {
		err := p.view.sockets.conn.Routes(f, func() {}, func(r *rtnl.Route) {
			c := changes[routeKey{r.Dst, r.Table, r.Metric}]
			if c == nil || c.old != nil {
				return
			}
			p.view.stores.routes.form(c.slot, c.index, &wanted)
			own := r.Protocol == wanted.Protocol
			if wanted.Protocol = r.Protocol; wanted == *r {
				c.slot.state.present, c.slot.state.madeByOther = own, !own
				c.slot.state.index = c.index
			}
		})
		if err != nil {
			return nil, err
		}
	}
	for c, err := range refused {
		if c.slot.state.madeByOther || c.slot.state.present {
			continue
		}
		if deletion, ok := p.routeFailed(c, err); ok {
			withdraw = append(withdraw, deletion)
		}
	}
	return withdraw, nil
}

// routeDone records that a change was made.
func (p *pass) routeDone(c *routeChange) {
	slot, stats := c.slot, p.stats
	swept := false
	switch {
	case c.any && len(slot.strays) > 0:
		swept = slot.strays[0].reported > 0
		slot.strays = slot.strays[1:]
	case c.old != nil:
		slot.strays = slices.DeleteFunc(slot.strays, func(o stray) bool {
			gone := o.route == *c.old
			swept = swept || gone && o.reported > 0
			return gone
		})
	}
	switch {
	case !c.add:
		stats.Deleted++
		if swept {
			stats.Swept++
			p.recordRepair(slot.key, p.conflicting(slot, c.old))
		}
		if len(slot.claims)+len(slot.strays) == 0 && !slot.state.dirty {
			p.view.stores.routes.remove(slot)
		}
		return
	case c.old == nil:
		stats.Added++
	default:
		stats.Replaced++
	}
	if slot.state.lost {
		stats.Repaired++
		p.recordRepair(slot.key, slot.claims[0])
	}
	slot.state.setInKernel(c.index)
}

// routeFailed records that the kernel refused a change. If a route could not be replaced,
// routeFailed returns the deletion of the old route, because packets must no longer go to its next
// hop.
func (p *pass) routeFailed(c *routeChange, err error) (withdraw routeChange, ok bool) {
	slot := c.slot
	if !c.add {
		if errors.Is(err, rtnl.ErrNotFound) {
			p.routeDone(c) // the route has been deleted already
			return routeChange{}, false
		}
		p.view.stores.routes.markDirty(slot)
		p.result.fail("delete route", p.conflicting(slot, c.old), err)
		return routeChange{}, false
	}
	p.view.stores.routes.markDirty(slot)
	want := slot.claims[0]
	if errors.Is(err, rtnl.ErrExist) {
		p.result.conflict = p.result.conflict || !slot.state.foreign
		slot.state.foreign = true
		err = fmt.Errorf("%w: a route: %w", ErrForeign, err)
	} else {
		err = p.explain(err, want.Interface)
	}
	p.result.fail("add route", want, err)
	return routeChange{slot: slot, old: c.old}, c.old != nil
}

// conflicting returns the route to name in an error about a slot: the desired route, or the old one
// if none is desired.
func (p *pass) conflicting(slot *routeSlot, old *rtnl.Route) Route {
	if len(slot.claims) > 0 {
		return slot.claims[0]
	}
	return p.view.links.route(old)
}

// route converts a route of the kernel.
func (l *links) route(old *rtnl.Route) Route {
	r := Route{
		Dst: old.Dst, Table: old.Table, Metric: old.Metric, Gateway: old.Gateway, OnLink: old.OnLink,
		Source: old.Source, Interface: l.nameOf(old.Index), MTU: int(old.MTU),
	}
	if at := slices.Index(typeNumbers[:], old.Type); at >= 0 {
		r.Type = Type(at)
	}
	return r
}

func (p *pass) routeText(c *routeChange) string {
	command := "ip " + ipFamily(c.slot.key.dst.Addr()) + "route "
	if !c.add {
		return command + "del " + p.text(c.old)
	}
	var wanted rtnl.Route
	p.view.stores.routes.form(c.slot, c.index, &wanted)
	if c.old == nil {
		return command + "add " + p.text(&wanted)
	}
	return command + "replace " + p.text(&wanted)
}
