// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// execute makes the changes, each for itself, and reports what fails. inTheWay means that something
// exists of which it is not known whether it is ours.
func (d *Dataplane) execute(ctx context.Context, changes []change, r *report) (inTheWay bool) {
	// In order, sysctls are in the middle: see op.
	middle, _ := slices.BinarySearchFunc(changes, setSysctl, byOp)
	end, _ := slices.BinarySearchFunc(changes, setSysctl+1, byOp)
	inTheWay = d.each(ctx, changes[:middle], r)
	writeSysctls(d.cfg.Namespace, changes[middle:end], r)
	return d.each(ctx, changes[end:], r) || inTheWay
}

func byOp(c change, o op) int { return cmp.Compare(c.op, o) }

// each makes changes that are not of sysctls.
func (d *Dataplane) each(ctx context.Context, changes []change, r *report) (inTheWay bool) {
	for _, c := range changes {
		if r.withholds(c) {
			r.prefixes[c.prefix] = struct{}{}
			continue
		}
		err := ctx.Err()
		if err == nil {
			err = d.make(c)
		}
		if err != nil {
			if errors.Is(err, ErrForeign) {
				_, known := d.foreign[c.prefix]
				inTheWay = inTheWay || !known
				r.foreign[c.prefix] = struct{}{}
			}
			var refused *rtnl.Error
			r.broken = r.broken || ctx.Err() == nil && !errors.Is(err, ErrForeign) && !errors.As(err, &refused)
			r.fail(c.key, c.op.String(), fmt.Errorf("%s: %w", c.prefix.Addr(), err), c.prefix)
			continue
		}
		d.have.record(c)
		delete(d.foreign, c.prefix)
	}
	return inTheWay
}

// make makes one change.
func (d *Dataplane) make(c change) error {
	var err error
	switch c.op {
	case addRoute:
		err = d.conn.AddRoute(c.route)
		if errors.Is(err, rtnl.ErrExist) {
			return fmt.Errorf("%w: a route: %w", ErrForeign, err)
		}
	case deleteRoute:
		err = gone(d.conn.DeleteRoute(c.route))
	case addNeighbour:
		err = d.addNeighbour(c.neighbour)
	case deleteNeighbour:
		err = d.deleteNeighbour(c.neighbour)
	}
	switch {
	case errors.Is(err, rtnl.ErrNotFound):
		return fmt.Errorf("%w: %s: %w", ErrNoInterface, c.dev, err) // went meanwhile
	case errors.Is(err, rtnl.ErrDown):
		return fmt.Errorf("%w: %s: %w", ErrInterfaceDown, c.dev, err)
	}
	return err
}

// addNeighbour takes over an entry that the kernel learned, but none that another made.
func (d *Dataplane) addNeighbour(n rtnl.Neighbour) error {
	err := d.conn.AddNeighbour(n)
	if !errors.Is(err, rtnl.ErrExist) {
		return err
	}
	old, err := d.conn.Neighbour(n.Index, n.Addr)
	switch {
	case errors.Is(err, rtnl.ErrNotFound): // just expired
	case err != nil:
		return err
	case old.Static() && old.Protocol != n.Protocol && old.MAC == n.MAC:
		return nil // as good as ours
	case old.Static() && old.Protocol != n.Protocol:
		return fmt.Errorf("%w: a neighbour entry", ErrForeign)
	}
	return d.conn.ReplaceNeighbour(n)
}

// deleteNeighbour deletes an entry if it still is ours.
func (d *Dataplane) deleteNeighbour(n rtnl.Neighbour) error {
	now, err := d.conn.Neighbour(n.Index, n.Addr)
	switch {
	case errors.Is(err, rtnl.ErrNotFound):
		return nil
	case err != nil:
		return err
	case now.Protocol != n.Protocol:
		return nil // another's by now
	}
	return gone(d.conn.DeleteNeighbour(n))
}

// gone is for deletions: what is not there has been deleted.
func gone(err error) error {
	if errors.Is(err, rtnl.ErrNotFound) {
		return nil
	}
	return err
}
