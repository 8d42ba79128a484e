// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"context"
	"errors"
	"log/slog"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/internal/dispute"
)

// maxReadings limits how often the table is read back while other processes change it.
const maxReadings = 10

// reconciler makes the kernel's table equal to the desired one, whatever the kernel's table
// contains.
type reconciler struct {
	cfg      *Config
	desired  *desiredState
	tx       *transactor
	owner    *owner
	reader   *tableReader
	hooks    *hookGuards
	stages   *stageGuards
	backlog  *backlog
	repairer *repairer
	// repairs records repairs, to detect whether another process changes the table repeatedly.
	repairs dispute.Tracker[struct{}]
	stats   *Stats
}

// reconcile reads the table back and writes the differences from the desired state.
func (r *reconciler) reconcile(ctx context.Context) error {
	r.desired.synced = false
	r.stages.forget() // the desired state may have changed without a transaction
	repaired := r.stats.Readings > 0
	err := r.backlog.finish()
	if err != nil { // the remaining objects are read back as foreign ones
		r.cfg.Logger.Debug("nftables: unused objects stay", "table", r.cfg.Name, "err", err)
	}
	before := r.stats.Transactions
	for range maxReadings {
		if r.stats.Transactions != before { // the kernel has a part of the change
			ctx = context.WithoutCancel(ctx)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err = r.hooks.remove(); err != nil {
			continue
		}
		var d *readback.Difference
		d, err = r.reader.readBack()
		if errors.Is(err, errChanged) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) {
			continue
		}
		if other := (*OwnedError)(nil); errors.As(err, &other) {
			return fail("write table", r.cfg.Name, other)
		}
		if err != nil {
			return fail("read table", r.cfg.Name, err)
		}
		if d.None() {
			r.desired.setProgrammed()
			return nil
		}
		r.cfg.Logger.Debug("nftables: table differs", "table", r.cfg.Name, "difference", d.String())
		if err = r.repairer.writeDifference(ctx, d); errors.Is(err, errChanged) {
			continue
		}
		if err == nil && repaired {
			r.stats.Repairs++
			r.logRepair(ctx, d)
		}
		return err
	}
	return fail("read table", r.cfg.Name, err)
}

// logRepair logs a repair: as a warning, or at level debug while another process changes the table
// repeatedly.
func (r *reconciler) logRepair(ctx context.Context, d *readback.Difference) {
	level := slog.LevelWarn
	if disputed, begins := r.repairs.Record(struct{}{}, r.tx.now()); disputed && !begins {
		level = slog.LevelDebug
	}
	r.cfg.Logger.Log(ctx, level, "repaired nftables table", "table", r.cfg.Name, "difference", d.String())
}

// deleteTable deletes the table, even if another process created it.
//
// Errors: *OwnedError if another process owns the table; those of reading and writing it.
func (r *reconciler) deleteTable() error {
	r.stages.forget()
	if err := r.hooks.remove(); err != nil {
		return err
	}
	if err := r.tx.deleteTable(); err != nil {
		return r.owner.check(err)
	}
	r.stats.Owned = false
	return nil
}
