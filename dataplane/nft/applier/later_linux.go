// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"context"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// maxLater bounds the elements, sets, chains and rules that wait for Finish.
const maxLater = 20_000

// leftover has deletions that may be made once a grace period is over.
type leftover struct {
	ops  []ruleset.Op
	over <-chan struct{}
}

// leftovers are all deletions that wait. There is a list for each grace period, in their order: an
// object may refer to one that is deleted later, never to one that is deleted earlier.
type leftovers struct {
	lists []leftover
	// size counts the elements, sets, chains and rules; names counts what identifies the objects, and
	// the keys of the elements.
	size  int
	names map[string]int
}

// add adds deletions after all others.
func (l *leftovers) add(ops []ruleset.Op, over <-chan struct{}) {
	last := len(l.lists) - 1
	if last < 0 || l.lists[last].over != over {
		l.lists, last = append(l.lists, leftover{over: over}), last+1
	}
	l.lists[last].ops = append(l.lists[last].ops, ops...)
	l.count(ops, 1)
}

// take removes the first n lists and returns their deletions.
func (l *leftovers) take(n int) (ops []ruleset.Op) {
	for _, list := range l.lists[:n] {
		l.count(list.ops, -1)
		ops = append(ops, list.ops...)
	}
	if l.lists = slices.Delete(l.lists, 0, n); len(l.lists) == 0 {
		*l = leftovers{} // a map keeps its memory
	}
	return ops
}

// takeOver takes the deletions whose grace period is over.
func (l *leftovers) takeOver() []ruleset.Op {
	n := slices.IndexFunc(l.lists, func(list leftover) bool {
		select {
		case <-list.over:
			return false
		default:
			return true
		}
	})
	if n < 0 {
		n = len(l.lists)
	}
	return l.take(n)
}

// count adds deletions to size and names, or with -1 removes them.
func (l *leftovers) count(ops []ruleset.Op, by int) {
	if l.names == nil {
		l.names = map[string]int{}
	}
	name := func(s string) {
		if l.names[s] += by; l.names[s] == 0 {
			delete(l.names, s)
		}
	}
	for i := range ops {
		op := &ops[i]
		l.size += by * max(1, len(op.Elements))
		if op.Chain != nil {
			l.size += by * len(op.Chain.Rules)
		}
		for s := range objectsOf(op) {
			name(s)
		}
		for k := range op.Elements {
			name(keyName(op.Elements[k].Key))
		}
	}
}

// keyName identifies an element's key, whichever set has it.
func keyName(key []ruleset.Value) string {
	return "key " + string(new(ruleset.Set).ID(&ruleset.Element{Key: key}))
}

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
	if len(a.later.lists) == 0 {
		return nil
	}
	return a.later.lists[0].over
}

// Finish waits for the grace period that Unfinished stands for, and deletes what no packet uses any
// more. What UpdateVisible has left during that grace period may need the next one: Unfinished then
// returns another channel. If the deletion fails, the next call of Update or Resync reads the table
// back.
//
// Errors: *Error; ErrClosed; that of the context if it is done before the grace period ends.
func (a *Applier) Finish(ctx context.Context) error {
	if err := a.ready(ctx); err != nil {
		return err
	}
	over := a.Unfinished()
	if over == nil {
		return nil
	}
	select {
	case <-over:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := a.tx.cut(a.later.takeOver()); err != nil {
		a.desired.synced = false
		return a.fail("delete unused objects of table", err)
	}
	return nil
}

// finishLater deletes everything that was left, after the last grace period.
func (a *Applier) finishLater() error {
	n := len(a.later.lists)
	if n == 0 {
		return nil
	}
	<-a.later.lists[n-1].over
	return a.tx.cut(a.later.take(n))
}

// deleteUnused deletes objects that packets under way may still use, after a grace period. With
// UpdateVisible, that is left to Finish. Without the grace period, a packet that is delayed between
// two lookups, by an interrupt or a hypervisor, would miss deleted elements. If the kernel refuses
// membarrier, that may happen.
func (a *Applier) deleteUnused(ops []ruleset.Op) error {
	if len(ops) == 0 {
		return nil
	}
	a.grace.begin()
	a.later.add(ops, a.grace.over)
	if a.leaves && a.later.size <= maxLater && !slices.ContainsFunc(ops, deletesBase) {
		return nil
	}
	return a.finishLater()
}

// deletesBase reports whether an operation deletes a base chain. Such a chain sees packets as long as
// it is there, so it is not left to Finish.
func deletesBase(op ruleset.Op) bool { return op.Kind == ruleset.DeleteChain && op.Chain.Hook != nil }

// mustFinishFirst reports whether operations cannot be carried out before Finish: they add
// something again that is still to be deleted, or would delete something that it refers to. Or they
// add an element of a map whose value is the key of an element that is still to be deleted: packets
// would look up the latter.
func (a *Applier) mustFinishFirst(ops []ruleset.Op) bool {
	if a.later.size == 0 {
		return false
	}
	live := phasesOf(ops).live
	if needsShadows(live, a.epochs.hasSet()) || slices.ContainsFunc(live, func(op ruleset.Op) bool {
		return op.Kind == ruleset.DeleteChain || op.Kind == ruleset.DeleteSet
	}) {
		return true
	}
	isKey := func(el ruleset.Element) bool { return len(el.Data) > 0 && a.later.names[keyName(el.Data)] > 0 }
	return slices.ContainsFunc(ops, func(op ruleset.Op) bool {
		for name := range objectsOf(&op) {
			if a.later.names[name] > 0 {
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
