// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"
	"fmt"

	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// replacer replaces the table in the kernel by a new one, under guards.
type replacer struct {
	tools
	owner        *owner
	hooks        *hookGuards
	translations *translationGuards
	executor     *executor
}

// rebuild replaces the table in the kernel by a new one, in one transaction. d is the difference
// between the two tables. Meanwhile, new connections whose translation may change drop.
//
// The maps of an old base chain become empty a moment before the chain is removed. Packets that
// pass the chain in this moment drop. To keep the moment short, the transaction deletes the old
// base chains first, unless the kernel refuses this because of foreign objects.
func (r *replacer) rebuild(target *ruleset.State, d *readback.Difference) error {
	fresh := ruleset.NewState(r.cfg.Family, r.cfg.Name)
	change, err := fresh.Prepare(fresh.DeltaTo(target.Table()))
	if err != nil {
		return fmt.Errorf("applier: rebuild table: %w", err)
	}
	if d.RebuildReason == readback.Absent { // without a table, nothing was forbidden
		ops, steps := deferPolicies(change.Ops, false)
		if err := r.executor.program(ops, nil, target, false); err != nil {
			return err
		}
		return r.executor.runSteps(steps, false)
	}
	ops, steps := change.Ops, [][]ruleset.Op(nil)
	if anyLate(ops) {
		ops, steps = addDropGuards(ops)
	} else {
		ops, steps = deferPolicies(ops, false)
	}
	unhook, err := r.checkRebuild(ops, target)
	if err != nil {
		return err
	}
	translationGuard, translationRemovals, err := r.translations.guardRebuild(target, d)
	if err != nil {
		return err
	}
	waited, err := r.hooks.under(d.AllHooks(), false, func() error {
		if err := r.rewriteTable(append(ops, translationGuard...), target, unhook); err != nil {
			return err
		}
		return r.tx.submit()
	})
	if err != nil {
		return err
	}
	if !waited {
		_ = r.grace.synchronize() // without a grace period, a delayed packet may bypass the guards
	}
	return r.executor.runSteps(append(steps, translationRemovals), true)
}

// checkRebuild lets the kernel check the replacement of the table, without a commit. unhook is the
// argument of rewriteTable with which the kernel accepts it.
//
// Errors: those of checkBatch and rewriteTable.
func (r *replacer) checkRebuild(ops []ruleset.Op, target *ruleset.State) (unhook bool, err error) {
	defer func() { r.writer.flags = 0 }() // if the old table stays, it may lack the flags
	for _, unhook := range []bool{true, false} {
		if err = r.rewriteTable(ops, target, unhook); err == nil {
			err = r.tx.checkBatch()
		}
		if !isRefused(err) {
			return unhook, err
		}
		r.stats.Refused++
	}
	return false, err
}

// rewriteTable writes the deletion of the table, and then all of a new one. With unhook, it deletes
// the old base chains first.
func (r *replacer) rewriteTable(ops []ruleset.Op, target *ruleset.State, unhook bool) error {
	w := r.writer
	w.announce(ops)
	w.flags = 0 // the old table may lack the flags
	w.beginOps(ops)
	for _, c := range sortedChains(target) {
		if unhook && c.Hook != nil {
			w.AddChain(&ruleset.Chain{Name: c.Name}) // now the chain exists, so it can be deleted
			w.DeleteChain(c.Name)
		}
	}
	w.pauseMonitor = true
	w.DeleteTable()
	if r.owner.owns {
		w.flags = owned
	}
	w.AddTable(w.flags)
	if err := w.writeOps(ops); err != nil {
		return err
	}
	guard := r.hooks.guard
	guard.drop()
	if guard != nil {
		return errors.Join(w.Err(), guard.Err())
	}
	return w.Err()
}
