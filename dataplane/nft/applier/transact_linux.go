// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
)

// transact carries out operations in one transaction, or in parts if it would be too large.
func (a *Applier) transact(ops []ruleset.Op) error {
	if a.mustFinishFirst(ops) {
		if err := a.finishLater(); err != nil {
			return err
		}
	}
	return a.commitOps(ops, nil, a.desired.State)
}

// commitOps carries out operations in one transaction, and removes foreign objects if d is not nil.
// It splits the transaction if it is too large, or if packets would see part of it late. Foreign
// objects are then removed last. Meanwhile new connections whose translation changes drop, and so do
// packets that the new state of a Stage denies. view is as for phases.obstacle.
func (a *Applier) commitOps(ops []ruleset.Op, d *readback.Difference, view *ruleset.State) error {
	steps, err := a.stages.add(ops, d, view)
	if err != nil {
		return err
	}
	// The translation guard is there for a shorter time, because it drops new connections.
	removal, err := a.translations.add(ops, d, view)
	if err == nil {
		err = a.commitGuarded(ops, d, view)
	}
	if err != nil {
		a.stages.forget()
	}
	return errors.Join(err, a.tx.cut(removal), a.stages.remove(steps))
}

// commitGuarded is commitOps once the guards are in the kernel.
func (a *Applier) commitGuarded(ops []ruleset.Op, d *readback.Difference, view *ruleset.State) error {
	// Foreign objects may be from an earlier version. To packets under way, a deleted map is
	// empty: see needsGrace.
	turns := inTurn(ops, a.epochs.hasSet()) || d != nil && d.Foreign.Maps && len(ops) > 0 ||
		a.later.size > 0 && len(phasesOf(ops).destroy) > 0 // unfinished objects may refer to these
	var p phases
	if turns {
		p = phasesOf(ops)
	}
	shadows := needsShadows(p.live, a.epochs.hasSet())
	needsDropGuards := shadows && p.obstacle(view, d != nil) != ""
	if shadows && d != nil { // What the kernel refuses, it refuses before there are shadows.
		if err := a.check(ops, view, d); isRefused(err) || errors.Is(err, errChanged) {
			return err
		}
	}
	var steps [][]ruleset.Op
	if needsDropGuards {
		ops, steps = addDropGuards(ops)
	} else {
		ops, steps = deferPolicies(ops, shadows)
	}
	hooks := replacedHooks(ops, d)
	if d != nil && a.epochs.hasSet() && slices.ContainsFunc(ops, a.epochs.changesEpoch) {
		// The table of an earlier version: packets in the kernel do not look up the Epoch's set.
		hooks = d.AllHooks()
	}
	var emptied []ruleset.Op
	if d == nil && len(hooks) == 0 && !needsDropGuards {
		ops, emptied = emptyBases(ops)
	}
	_, err := a.hooks.under(hooks, true, func() error {
		if err := a.program(ops, d, view, turns); err != nil {
			return err
		}
		if err := a.runSteps(steps, false); err != nil {
			return err
		}
		return a.tx.cut(emptied)
	})
	return err
}

// program is like commitOps, but without guards and deferred policies. With turns, it always runs
// the operations in parts.
func (a *Applier) program(ops []ruleset.Op, d *readback.Difference, view *ruleset.State, turns bool) error {
	a.writer.announce(ops)
	if !turns {
		err := a.epochs.commitLive(ops, d)
		var size *netlink.SizeError
		if !errors.As(err, &size) {
			return err
		}
		a.tx.limit = size.Limit
	}
	err := a.inParts(ops, d, view)
	var size *netlink.SizeError
	// Only now it is known how much may be sent. Some may be done by now.
	if errors.As(err, &size) && size.Limit < a.tx.limit {
		a.tx.limit = size.Limit
		return fmt.Errorf("%w, by ourselves: %w", errChanged, err)
	}
	if err != nil || d == nil {
		return err
	}
	return a.tx.removeForeign(d)
}

// rebuild replaces the table in the kernel by a new one, in one transaction. The transaction
// removes the old base chains first. The kernel puts a transaction into effect in its order: until
// it comes to an old base chain, packets still pass that chain, whose maps are empty by then, and
// drop. If the kernel refuses this because of foreign objects, the base chains are not removed
// first. d is the difference between the two tables. New connections whose translation may change
// drop meanwhile.
func (a *Applier) rebuild(target *ruleset.State, d *readback.Difference) error {
	fresh := ruleset.NewState(a.cfg.Family, a.cfg.Name)
	change, err := fresh.Prepare(fresh.DeltaTo(target.Table()))
	if err != nil {
		return fmt.Errorf("applier: rebuild table: %w", err)
	}
	if d.RebuildReason == readback.Absent { // Nothing is forbidden by a table that is not there.
		ops, steps := deferPolicies(change.Ops, false)
		if err := a.program(ops, nil, target, false); err != nil {
			return err
		}
		return a.runSteps(steps, false)
	}
	ops, steps := change.Ops, [][]ruleset.Op(nil)
	if anyLate(ops) {
		ops, steps = addDropGuards(ops)
	} else {
		ops, steps = deferPolicies(ops, false)
	}
	unhook, err := a.checkRebuild(ops, target)
	if err != nil {
		return err
	}
	translationGuard, translationRemovals, err := a.translations.guardRebuild(target, d)
	if err != nil {
		return err
	}
	waited, err := a.hooks.under(d.AllHooks(), false, func() error {
		if err := a.writeAnew(append(ops, translationGuard...), target, unhook); err != nil {
			return err
		}
		return a.tx.submit()
	})
	if err != nil {
		return err
	}
	if !waited {
		_ = a.grace.synchronize() // without a grace period, a delayed packet may bypass the guards
	}
	return a.runSteps(append(steps, translationRemovals), true)
}

// checkRebuild validates the replacement of the table in the kernel, without a commit. It returns the
// value of unhook with which the kernel accepts it.
//
// Errors: those of checkBatch and writeAnew.
func (a *Applier) checkRebuild(ops []ruleset.Op, target *ruleset.State) (unhook bool, err error) {
	defer func() { a.writer.flags = 0 }() // the old table, if it stays, may not have them
	for _, unhook := range []bool{true, false} {
		if err = a.writeAnew(ops, target, unhook); err == nil {
			err = a.tx.checkBatch()
		}
		if !isRefused(err) {
			return unhook, err
		}
		a.stats.Refused++
	}
	return false, err
}

// writeAnew writes the deletion of the table, and all of a new one.
func (a *Applier) writeAnew(ops []ruleset.Op, target *ruleset.State, unhook bool) error {
	w := a.writer
	w.announce(ops)
	w.flags = 0 // The table that goes may not have them.
	w.beginOps(ops)
	for _, c := range sortedChains(target) {
		if unhook && c.Hook != nil {
			w.AddChain(&ruleset.Chain{Name: c.Name}) // What was added can be deleted, whether it was there or not.
			w.DeleteChain(c.Name)
		}
	}
	w.loud = true
	w.DeleteTable()
	if a.owner.owns {
		w.flags = owned
	}
	w.AddTable(w.flags)
	if err := a.writer.writeOps(ops); err != nil {
		return err
	}
	guard := a.hooks.guard
	guard.drop()
	if guard != nil {
		return errors.Join(w.Err(), guard.Err())
	}
	return w.Err()
}
