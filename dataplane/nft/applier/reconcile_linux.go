// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// errForm says that the kernel's table has a form that the model does not have.
var errForm = errors.New("unknown form")

// rounds is how often the table is read back because others change it at the same time.
const rounds = 10

// reconcile reads the table back and writes what differs from the desired state.
func (a *Applier) reconcile(ctx context.Context) error {
	a.desired.synced = false
	a.stages.forget() // the desired state may have changed without a transaction
	repaired := a.stats.Readings > 0
	err := a.backlog.finish()
	if err != nil { // What is left is found as objects that are not desired.
		a.logger.Debug("nftables: unused objects stay", "table", a.cfg.Name, "err", err)
	}
	for range rounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err = a.hooks.remove(); err != nil {
			continue
		}
		var d *readback.Difference
		d, err = a.readBack()
		if errors.Is(err, errChanged) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) {
			continue
		}
		if other := (*OwnedError)(nil); errors.As(err, &other) {
			return a.fail("write table", other)
		}
		if err != nil {
			return a.fail("read table", err)
		}
		if d.None() {
			a.desired.setProgrammed()
			return nil
		}
		a.logger.Debug("nftables: table differs", "table", a.cfg.Name, "difference", d.String())
		if err = a.writeDifference(ctx, d); errors.Is(err, errChanged) {
			continue
		}
		if err == nil && repaired {
			a.stats.Repairs++
			a.logRepair(ctx, d)
		}
		return err
	}
	return a.fail("read table", err)
}

// logRepair logs a repair as a warning, or at level debug while the table is disputed.
func (a *Applier) logRepair(ctx context.Context, d *readback.Difference) {
	level := slog.LevelWarn
	if disputed, begins := a.repairs.Record(struct{}{}, a.tx.now()); disputed && !begins {
		level = slog.LevelDebug
	}
	a.logger.Log(ctx, level, "repaired nftables table", "table", a.cfg.Name, "difference", d.String())
}

// readBack compares the kernel's table with the desired one, in one generation of the table.
func (a *Applier) readBack() (*readback.Difference, error) {
	if err := a.owner.takeOver(); err != nil {
		return nil, err
	}
	// The kernel assigns a transaction its generation before it has completed it, and notifies
	// afterwards. So the reading below may lack a transaction whose notification comes from here on.
	if _, _, err := a.tracker.drain(); err != nil {
		return nil, err
	}
	generation, err := a.conn.Generation()
	if err != nil {
		return nil, err
	}
	a.tracker.setKnown(generation)
	a.stats.Readings++
	d, handles, err := a.reader.Compare(a.desired.State)
	if err != nil {
		return nil, err
	}
	if _, touched, err := a.tracker.drain(); err != nil || touched {
		return nil, errors.Join(errChanged, err)
	}
	if a.owner.owns && !a.stats.Owned && d.RebuildReason == "" {
		d.RebuildReason = unowned
	}
	a.writer.handles.reset(handles)
	return d, nil
}

// writeDifference programs the desired table, given the difference. If the kernel refuses that, it
// finds the objects at fault and programs the rest. If that fails too, foreign objects may be the
// reason, so it replaces the table.
func (a *Applier) writeDifference(ctx context.Context, d *readback.Difference) error {
	var first error
	if d.RebuildReason == "" {
		ops, err := a.repairOps(d)
		if err == nil {
			err = a.updater.commitOps(ops, d, a.desired.State)
		}
		if err == nil || errors.Is(err, errChanged) {
			return a.written(err)
		}
		first = err
	}
	if d.RebuildReason == "" && isRefused(first) {
		if done, err := a.isolate(ctx, d, first); done {
			return err
		}
	}
	if d.RebuildReason == "" && !isRefused(first) && !errors.Is(first, errForm) {
		return a.fail("write table", first)
	}
	err := a.replacer.rebuild(a.desired.State, d)
	if err == nil || errors.Is(err, errChanged) {
		return a.written(err)
	}
	if d.RebuildReason != "" && isRefused(err) {
		if done, err := a.isolate(ctx, d, err); done {
			return err
		}
	}
	if d.RebuildReason == unowned {
		return a.owner.disown(err)
	}
	if first == nil {
		first = err
	}
	return a.fail("write table", a.owner.check(first))
}

// written notes that the kernel has the desired state, unless err is an error.
func (a *Applier) written(err error) error {
	if err == nil {
		a.desired.setProgrammed()
	}
	return err
}

// repairOps returns the operations that make the kernel's table the desired one.
func (a *Applier) repairOps(d *readback.Difference) ([]ruleset.Op, error) {
	actual, err := a.desired.actual(d)
	if err != nil {
		return nil, err
	}
	repair, err := actual.Prepare(&d.Repair)
	if err != nil {
		return nil, fmt.Errorf("applier: repair table: %w", err)
	}
	return repair.Ops, nil
}
