// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"errors"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/revoke"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// writer writes the renderer's changes to the table in the kernel. If the kernel refuses a chain or
// set, it reports an error for each object that needs it.
type writer struct {
	name     string // of the table
	renderer *render.Renderer
	applier  *applier.Applier
	// fastPath has the flowtable. It is deleted before changes that affect established connections.
	fastPath *fastPath
	// revoker ends connections that policy no longer allows; nil with conntrack.Keep.
	revoker revoker
	// needsTable is set if the applier did not accept a change: the next write must pass the whole
	// table.
	needsTable bool
}

// revoker ends connections that a change of the table denies: a revoke.Revoker.
type revoker interface {
	Changed(d *ruleset.Delta, table *ruleset.Table)
	NeedsTable() bool
	Programmed(changes revoke.AddressChanges)
	Reset()
	Stats() conntrack.Stats
	Close() error
}

// flush programs the renderer's changes. done reports whether the kernel has the desired state,
// except for objects that it refused, whose packets are dropped.
func (w *writer) flush(ctx context.Context) (errs []error, done bool) {
	err := w.write(ctx, w.renderer.Flush())
	errs, accepted := w.attribute(err)
	w.needsTable = !accepted
	return errs, programmed(err)
}

// write passes a change to the applier, or the whole table if the applier did not accept an earlier
// change. If the change affects established connections, write deletes the flowtable first.
func (w *writer) write(ctx context.Context, delta *ruleset.Delta) error {
	var table *ruleset.Table
	if w.needsTable {
		table, _ = w.renderer.Table()
	}
	if w.revoker != nil {
		all := table
		if all == nil && w.revoker.NeedsTable() {
			all, _ = w.renderer.Table()
		}
		w.revoker.Changed(delta, all)
	}
	var notDeleted error // if so, the change is made nevertheless, and the next write deletes again
	if w.fastPath.inUse() && (table != nil || render.AffectsEstablished(delta)) {
		notDeleted = w.fastPath.delete()
	}
	if table != nil {
		return errors.Join(notDeleted, w.applier.Apply(ctx, table))
	}
	return errors.Join(notDeleted, w.applier.UpdateVisible(ctx, delta))
}

// programmed reports whether the applier programmed everything, except for objects that the kernel
// refused.
func programmed(err error) bool {
	for _, err := range unjoined(err) {
		var refused *applier.ObjectError
		if !errors.As(err, &refused) {
			return false
		}
	}
	return true
}

// attribute converts the errors of the applier to errors of policies and endpoints. The result
// accepted is false if the applier did not add the change to its desired state.
func (w *writer) attribute(err error) (out []error, accepted bool) {
	accepted = true
	for _, err := range unjoined(err) {
		var apply *applier.Error
		if !errors.As(err, &apply) {
			accepted = false
			out = append(out, &dataplane.ApplyError{
				Backend: backend, Op: "program table " + w.name, Err: err,
			})
			continue
		}
		keys := w.concerned(apply)
		if len(keys) == 0 {
			out = append(out, applyError(apply))
		}
		for _, key := range keys {
			out = append(out, &dataplane.ApplyError{
				Backend: backend, Op: "program", Object: key, Detail: apply.Detail, Err: apply.Err,
			})
		}
	}
	return out, accepted
}

// applyError converts an error of the applier to one that is not of a single object.
func applyError(e *applier.Error) error {
	return &dataplane.ApplyError{Backend: backend, Op: e.Op, Detail: e.Detail, Err: e.Err}
}

// concerned returns the policies, profiles and endpoints whose packets are dropped because the
// kernel refused a chain or set. It returns none if all endpoints are affected.
func (w *writer) concerned(e *applier.Error) []policy.Key {
	var object *applier.ObjectError
	if !errors.As(e, &object) {
		return nil
	}
	chains := object.Chains
	if object.Object.Kind == "chain" {
		chains = append(chains[:len(chains):len(chains)], object.Object.Name)
	}
	return w.renderer.Affected(chains...)
}

// unjoined returns the single errors of a join, at any depth.
func unjoined(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, one := range joined.Unwrap() {
			out = append(out, unjoined(one)...)
		}
		return out
	}
	return []error{err}
}
