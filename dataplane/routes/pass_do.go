// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// explain returns what the kernel's reason means here.
func explain(err error, dev string) error {
	switch {
	case errors.Is(err, rtnl.ErrNotFound):
		return fmt.Errorf("%w: %s: %w", ErrNoInterface, dev, err) // went meanwhile
	case errors.Is(err, rtnl.ErrDown):
		return fmt.Errorf("%w: %s: %w", ErrInterfaceDown, dev, err)
	}
	return err
}

// doRoutes makes changes, each for itself.
func (p *pass) doRoutes(changes []routeChange) error {
	if p.dry {
		for i := range changes {
			p.say(p.routeText(&changes[i]))
		}
		return nil
	}
	p.k.batch.Reset()
	var wanted rtnl.Route
	for i := range changes {
		c := &changes[i]
		if !c.add {
			p.k.batch.DeleteRoute(c.old)
			continue
		}
		if p.k.routes.form(c.slot, c.index, &wanted); c.old == nil {
			p.k.batch.AddRoute(&wanted)
		} else {
			p.k.batch.ReplaceRoute(&wanted)
		}
	}
	var withdraw []routeChange
	next := 0 // of the changes that were made
	err := p.send(func(i int, err error) {
		for ; next < i; next++ {
			p.routeDone(&changes[next])
		}
		next++
		if rest, ok := p.routeFailed(&changes[i], err); ok {
			withdraw = append(withdraw, rest)
		}
	})
	if err != nil {
		return err
	}
	for ; next < len(changes); next++ {
		p.routeDone(&changes[next])
	}
	if len(withdraw) == 0 {
		return nil
	}
	return p.doRoutes(withdraw)
}

// routeDone takes in that a change was made.
func (p *pass) routeDone(c *routeChange) {
	slot, stats := c.slot, &p.k.stats
	swept := false
	switch {
	case c.any && len(slot.strays) > 0:
		swept = slot.strays[0].heard > 0
		slot.strays = slot.strays[1:]
	case c.old != nil:
		slot.strays = slices.DeleteFunc(slot.strays, func(o stray) bool {
			gone := o.Route == *c.old
			swept = swept || gone && o.heard > 0
			return gone
		})
	}
	switch {
	case !c.add:
		stats.Deleted++
		if swept {
			stats.Swept++
			p.k.recordRepair(slot.key, p.blame(slot, c.old))
		}
		if len(slot.claims)+len(slot.strays) == 0 && !slot.stale {
			p.k.routes.remove(slot)
		}
		return
	case c.old == nil:
		stats.Added++
	default:
		stats.Replaced++
	}
	if slot.lost {
		stats.Repaired++
		p.k.recordRepair(slot.key, slot.claims[0])
	}
	slot.settle(c.index)
}

// routeFailed takes in that the kernel refused a change. What should have been replaced and was not
// must go: it leads elsewhere.
func (p *pass) routeFailed(c *routeChange, err error) (withdraw routeChange, ok bool) {
	slot := c.slot
	if !c.add {
		if errors.Is(err, rtnl.ErrNotFound) {
			p.routeDone(c) // what is not there has been deleted
			return routeChange{}, false
		}
		p.k.routes.touch(slot)
		p.fail("delete route", p.blame(slot, c.old), err)
		return routeChange{}, false
	}
	p.k.routes.touch(slot)
	want := slot.claims[0]
	if errors.Is(err, rtnl.ErrExist) {
		p.inTheWay = p.inTheWay || !slot.foreign
		slot.foreign = true
		err = fmt.Errorf("%w: a route: %w", ErrForeign, err)
	} else {
		err = explain(err, want.Interface)
	}
	p.fail("add route", want, err)
	return routeChange{slot: slot, old: c.old}, c.old != nil
}

// blame returns the wanted route that an old one is in the way of, or else what to call the old
// one.
func (p *pass) blame(slot *routeSlot, old *rtnl.Route) Route {
	if len(slot.claims) > 0 {
		return slot.claims[0]
	}
	r := Route{
		Dst: old.Dst, Table: old.Table, Metric: old.Metric, Gateway: old.Gateway, OnLink: old.OnLink,
		Source: old.Source, Interface: p.k.links.nameOf(old.Index), MTU: int(old.MTU),
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
	p.k.routes.form(c.slot, c.index, &wanted)
	if c.old == nil {
		return command + "add " + p.text(&wanted)
	}
	return command + "replace " + p.text(&wanted)
}

// doEntries makes changes, each for itself.
func (p *pass) doEntries(changes []entryChange) error {
	if p.dry {
		for i := range changes {
			p.say(p.entryText(&changes[i]))
		}
		return nil
	}
	p.k.batch.Reset()
	for i := range changes {
		changes[i].encode(&p.k.batch, p.k.cfg.Protocol)
	}
	failed := map[int]error{}
	if err := p.send(func(i int, err error) { failed[i] = err }); err != nil {
		return err
	}
	for i := range changes {
		c := &changes[i]
		err := failed[i]
		if err == nil {
			p.entryDone(c)
			continue
		}
		if err := p.entryFailed(c, err); err != nil {
			return err
		}
	}
	return nil
}

// entryFailed deals with a change that the kernel refused. It returns an error if the kernel cannot
// be talked to.
func (p *pass) entryFailed(c *entryChange, err error) error {
	key := c.slot.key
	if c.gone && errors.Is(err, rtnl.ErrNotFound) {
		p.entryDone(c)
		return nil
	}
	if !c.gone && key.kind == kindNeighbour && errors.Is(err, rtnl.ErrExist) {
		err = p.takeOver(c)
		switch {
		case errors.Is(err, errAsGood):
			return nil
		case err == nil:
			p.entryDone(c)
			return nil
		}
		var refused *rtnl.Error
		if !errors.Is(err, ErrForeign) && !errors.As(err, &refused) {
			return err
		}
	}
	p.k.entries.touch(c.slot)
	op := "add "
	if c.gone {
		op = "delete "
	}
	p.fail(op+key.kind.String(), key.object(c.value), explain(err, key.dev))
	return nil
}

// String names the kind, for errors.
func (k entryKind) String() string { return [...]string{"neighbour", "proxy entry", "FDB entry"}[k] }

// doRules makes changes, each for itself.
func (p *pass) doRules(changes []ruleChange) error {
	p.k.batch.Reset()
	for i := range changes {
		c := &changes[i]
		switch {
		case p.dry:
			p.say(c.text())
		case c.gone:
			p.k.batch.DeleteRule(&c.rule)
		default:
			p.k.batch.AddRule(&c.rule)
		}
	}
	if p.dry {
		return nil
	}
	failed := map[int]error{}
	if err := p.send(func(i int, err error) { failed[i] = err }); err != nil {
		return err
	}
	for i := range changes {
		p.ruleDone(&changes[i], failed[i])
	}
	return nil
}

func (p *pass) ruleDone(c *ruleChange, err error) {
	s := p.k.rules
	r, _ := ruleOf(c.rule)
	switch {
	case c.gone && (err == nil || errors.Is(err, rtnl.ErrNotFound)):
		delete(s.have, c.rule)
	case c.gone:
		s.stale = true
		p.fail("delete rule", r, err)
	case err == nil:
		s.have[c.rule] = true
		if s.lost[r] {
			p.k.stats.Repaired++
			p.k.recordRepair(r, r)
		}
		delete(s.lost, r)
	default:
		s.stale = true
		if errors.Is(err, rtnl.ErrExist) {
			err = fmt.Errorf("%w: a rule: %w", ErrForeign, err)
		}
		p.fail("add rule", r, err)
	}
}
