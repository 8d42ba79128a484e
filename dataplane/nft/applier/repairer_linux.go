// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"context"
	"errors"
	"fmt"

	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// repairer writes the differences between the kernel's table and the desired state.
type repairer struct {
	cfg      *Config
	desired  *desiredState
	owner    *owner
	updater  *updater
	replacer *replacer
	isolator *isolator
}

// writeDifference programs the desired table, given the difference. If the kernel refuses the
// repair, it finds the objects at fault and programs the rest. If that also fails, foreign objects
// may be the reason. So it then replaces the table.
func (r *repairer) writeDifference(ctx context.Context, d *readback.Difference) error {
	var first error
	if d.RebuildReason == "" {
		ops, err := r.repairOps(d)
		if err == nil {
			err = r.updater.commitOps(ops, d, r.desired.State)
		}
		if err == nil || errors.Is(err, errChanged) {
			return r.written(err)
		}
		first = err
	}
	if d.RebuildReason == "" && isRefused(first) {
		if done, err := r.isolator.isolate(ctx, d, first); done {
			return err
		}
	}
	if d.RebuildReason == "" && !isRefused(first) && !errors.Is(first, errForm) {
		return fail("write table", r.cfg.Name, first)
	}
	err := r.replacer.rebuild(r.desired.State, d)
	if err == nil || errors.Is(err, errChanged) {
		return r.written(err)
	}
	if d.RebuildReason != "" && isRefused(err) {
		if done, err := r.isolator.isolate(ctx, d, err); done {
			return err
		}
	}
	if d.RebuildReason == unowned {
		return r.owner.disown(err)
	}
	if first == nil {
		first = err
	}
	return fail("write table", r.cfg.Name, r.owner.check(first))
}

// written records that the kernel has the desired state, unless err is an error. It returns err.
func (r *repairer) written(err error) error {
	if err == nil {
		r.desired.setProgrammed()
	}
	return err
}

// repairOps returns the operations that make the kernel's table equal to the desired one.
func (r *repairer) repairOps(d *readback.Difference) ([]ruleset.Op, error) {
	actual, err := r.desired.actual(d)
	if err != nil {
		return nil, err
	}
	repair, err := actual.Prepare(&d.Repair)
	if err != nil {
		return nil, fmt.Errorf("applier: repair table: %w", err)
	}
	return repair.Ops, nil
}
