// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// updater carries out operations on the table in the kernel, under guards.
type updater struct {
	writer       *writer
	tx           *transactor
	epochs       *epochs
	backlog      *backlog
	hooks        *hookGuards
	stages       *stageGuards
	translations *translationGuards
	executor     *executor
	replacer     *replacer
}

// transact carries out operations, in one transaction if possible.
func (u *updater) transact(ops []ruleset.Op, desired *ruleset.State) error {
	if u.backlog.mustFinishFirst(ops, u.epochs.shadowConditions()) {
		if err := u.backlog.finish(); err != nil {
			return err
		}
	}
	return u.commitOps(ops, nil, desired)
}

// commitOps carries out operations in one transaction, and removes foreign objects if d is not nil.
// If the transaction is too large, or packets would see a part of it later, it uses several.
// Foreign objects are then removed last.
//
// Meanwhile, guards drop packets that the new state of a Stage denies, and new connections whose
// translation changes. view has the unchanged chains and sets. It has the others in the old state,
// or in the new state if d is not nil.
func (u *updater) commitOps(ops []ruleset.Op, d *readback.Difference, view *ruleset.State) error {
	steps, err := u.stages.add(ops, d, view)
	if err != nil {
		return err
	}
	// The translation guard is added last and so exists for a shorter time, because it drops new
	// connections.
	removal, err := u.translations.add(ops, d, view)
	if err == nil {
		err = u.commitGuarded(ops, d, view)
	}
	if err != nil {
		u.stages.forget()
	}
	return errors.Join(err, u.tx.cut(removal), u.stages.remove(steps))
}

// commitGuarded adds drop guards and hook guards, and carries out the operations. The other guards
// are already in the kernel.
func (u *updater) commitGuarded(ops []ruleset.Op, d *readback.Difference, view *ruleset.State) error {
	// Foreign objects may come from an earlier version. To packets under way, a deleted map is
	// empty: see needsGrace.
	turns := inTurn(ops, u.epochs.shadowConditions()) || d != nil && d.Foreign.Maps && len(ops) > 0 ||
		u.backlog.size > 0 && len(phasesOf(ops).destroy) > 0 // unfinished objects may refer to these
	var p phases
	if turns {
		p = phasesOf(ops)
	}
	shadows := needsShadows(p.live, u.epochs.shadowConditions())
	needsDropGuards := shadows && p.obstacle(view, d != nil) != ""
	if shadows && d != nil { // the kernel must refuse the change before there are shadows
		if err := u.check(ops, view, d); isRefused(err) || errors.Is(err, errChanged) {
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
	if d != nil && u.epochs.hasSet() && slices.ContainsFunc(ops, u.epochs.changesEpoch) {
		// The table is from an earlier version: packets in the kernel do not look up the Epoch's
		// set.
		hooks = d.AllHooks()
	}
	var emptied []ruleset.Op
	if d == nil && len(hooks) == 0 && !needsDropGuards {
		ops, emptied = emptyBases(ops)
	}
	_, err := u.hooks.under(hooks, true, func() error {
		if err := u.executor.program(ops, d, view, turns); err != nil {
			return err
		}
		if err := u.executor.runSteps(steps, false); err != nil {
			return err
		}
		return u.tx.cut(emptied)
	})
	return err
}

// check lets the kernel check what carryOut would write, without a commit.
func (u *updater) check(ops []ruleset.Op, target *ruleset.State, d *readback.Difference) error {
	u.writer.announce(ops)
	var err error
	if d.MustReplace() {
		err = u.replacer.rewriteTable(ops, target, true)
	} else {
		err = u.writer.write(ops, d, nil)
	}
	if err != nil {
		return err
	}
	return u.tx.checkBatch()
}

// carryOut programs the target state: by operations on the kernel's table, or by a new table if
// that table cannot stay.
func (u *updater) carryOut(ops []ruleset.Op, target *ruleset.State, d *readback.Difference) error {
	if d.MustReplace() {
		return u.replacer.rebuild(target, d)
	}
	return u.commitOps(ops, d, target)
}
