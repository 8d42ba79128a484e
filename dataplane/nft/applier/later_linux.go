// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"context"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// maxLater bounds the elements, sets and chains that wait for Finish.
const maxLater = 20_000

// UpdateVisible is Update, but returns once packets see the change. It leaves the deletion of what
// only packets under way still use to Finish, which needs a grace period, about 15 ms. Until then
// these objects are in the kernel without being in the desired state. Other calls finish them if they
// have to. So does UpdateVisible itself if there are very many, if a base chain is among them, or if
// the change adds one of them again or leads packets to one.
//
// Errors: as for Update.
func (a *Applier) UpdateVisible(ctx context.Context, d *ruleset.Delta) error {
	a.leaves = true
	defer func() { a.leaves = false }()
	return a.Update(ctx, d)
}

// Unfinished returns nil if nothing is left for Finish. Otherwise it returns a channel that is closed
// once Finish need not wait.
func (a *Applier) Unfinished() <-chan struct{} {
	if len(a.later) == 0 {
		return nil
	}
	if a.grace == nil {
		over := make(chan struct{})
		close(over)
		return over
	}
	return a.grace
}

// Finish waits for the grace period and deletes what UpdateVisible has left. If that fails, the next
// call of Update or Resync reads the table back.
//
// Errors: *Error; ErrClosed; that of the context if it is done before the grace period ends.
func (a *Applier) Finish(ctx context.Context) error {
	if err := a.ready(ctx); err != nil {
		return err
	}
	if len(a.later) == 0 {
		return nil
	}
	select {
	case <-a.Unfinished():
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := a.finishLater(); err != nil {
		a.synced = false
		return a.fail("delete unused objects of table", err)
	}
	return nil
}

// finishLater deletes what was left, after a grace period.
func (a *Applier) finishLater() error {
	if len(a.later) == 0 {
		return nil
	}
	a.awaitGrace()
	ops := a.later
	a.later = nil
	return a.cut(ops)
}

// deleteUnused deletes objects that packets under way may still use, after a grace period. With
// UpdateVisible, that is left to Finish. Without the grace period, a packet that is delayed between
// two lookups, by an interrupt or a hypervisor, would miss deleted elements. If the kernel refuses
// membarrier, that may happen.
func (a *Applier) deleteUnused(ops []ruleset.Op) error {
	if len(ops) == 0 {
		return nil
	}
	a.later = append(a.later, ops...)
	a.beginGrace()
	if a.leaves && countObjects(a.later) <= maxLater && !slices.ContainsFunc(ops, deletesBase) {
		return nil
	}
	return a.finishLater()
}

// deletesBase reports whether an operation deletes a base chain. Such a chain sees packets as long as
// it is there, so it is not left to Finish.
func deletesBase(op ruleset.Op) bool { return op.Kind == ruleset.DeleteChain && op.Chain.Hook != nil }

// countObjects counts the sets, chains and elements that operations delete.
func countObjects(ops []ruleset.Op) (n int) {
	for i := range ops {
		n += max(1, len(ops[i].Elements))
	}
	return n
}

// mustFinishFirst reports whether operations cannot be carried out before Finish: they add
// something again that is still to be deleted, or would delete something that it refers to. Or they
// add an element of a map whose value is the key of an element that is still to be deleted: packets
// would look up the latter.
func (a *Applier) mustFinishFirst(ops []ruleset.Op) bool {
	if len(a.later) == 0 {
		return false
	}
	live := phasesOf(ops).live
	if a.needsShadows(live) || slices.ContainsFunc(live, func(op ruleset.Op) bool {
		return op.Kind == ruleset.DeleteChain || op.Kind == ruleset.DeleteSet
	}) {
		return true
	}
	left, keys := map[string]bool{}, map[string]bool{}
	for i := range a.later {
		op := &a.later[i]
		for name := range objectsOf(op) {
			left[name] = true
		}
		for k := range op.Elements {
			keys[string(op.Set.ID(&op.Elements[k]))] = true
		}
	}
	isKey := func(el ruleset.Element) bool {
		return len(el.Data) > 0 && keys[string(new(ruleset.Set).ID(&ruleset.Element{Key: el.Data}))]
	}
	return slices.ContainsFunc(ops, func(op ruleset.Op) bool {
		for name := range objectsOf(&op) {
			if left[name] {
				return true
			}
		}
		return op.Kind == ruleset.AddElements && slices.ContainsFunc(op.Elements, isKey)
	})
}

// objectsOf yields what identifies the objects that an operation adds or deletes.
func objectsOf(op *ruleset.Op) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		switch op.Kind {
		case ruleset.AddChain, ruleset.DeleteChain:
			yield("chain " + op.Chain.Name)
		case ruleset.AddSet, ruleset.DeleteSet:
			yield("set " + op.Set.Name)
		case ruleset.AddElements, ruleset.DeleteElements:
			if op.Set.Interval { // the kernel refuses one that overlaps another
				yield("elements " + op.Set.Name)
				return
			}
			for i := range op.Elements {
				if !yield("element " + op.Set.Name + " " + string(op.Set.ID(&op.Elements[i]))) {
					return
				}
			}
		}
	}
}
