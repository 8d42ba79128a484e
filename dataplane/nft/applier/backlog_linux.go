// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// maxLater limits the elements, sets, chains and rules whose deletion may wait for Finish.
const maxLater = 20_000

// leftover has deletions that may be made once the grace period over has ended.
type leftover struct {
	ops  []ruleset.Op
	over <-chan struct{}
}

// leftovers has all deletions that wait, in one list for each grace period. The lists are in order:
// an object may refer to an object that is deleted later, but not to one that is deleted earlier.
type leftovers struct {
	lists []leftover
	// size is the number of the elements, sets, chains and rules. names counts the identifiers of
	// these objects, and the keys of the elements.
	size  int
	names map[string]int
}

// add appends deletions, which may be made once the grace period over has ended.
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
		*l = leftovers{} // a map keeps its memory, so it is replaced
	}
	return ops
}

// takeDue removes and returns the deletions whose grace period has ended.
func (l *leftovers) takeDue() []ruleset.Op {
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

// count adds deletions to size and names. If by is -1, it subtracts them.
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

// keyName returns the identifier of an element's key, whichever set has the element.
func keyName(key []ruleset.Value) string {
	return "key " + string(new(ruleset.Set).ID(&ruleset.Element{Key: key}))
}

// backlog deletes objects that packets under way may still use. It waits for a grace period, or
// leaves the deletion to Finish.
type backlog struct {
	leftovers
	// leaves is set during UpdateVisible: then deletions are left to Finish.
	leaves bool
	tx     *transactor
	grace  *graceWaiter
}

// deleteDue makes the deletions whose grace period has ended.
func (b *backlog) deleteDue() error { return b.tx.cut(b.takeDue()) }

// finish makes all deletions that are left, after the last grace period.
func (b *backlog) finish() error {
	n := len(b.lists)
	if n == 0 {
		return nil
	}
	<-b.lists[n-1].over
	return b.tx.cut(b.take(n))
}

// deleteUnused deletes objects that packets under way may still use, after a grace period. During
// UpdateVisible, it leaves the deletion to Finish. The grace period is for packets that are delayed
// between two lookups, by an interrupt or a hypervisor: they would miss deleted elements. If the
// kernel refuses membarrier, that may happen.
func (b *backlog) deleteUnused(ops []ruleset.Op) error {
	if len(ops) == 0 {
		return nil
	}
	b.grace.begin()
	b.add(ops, b.grace.over)
	if b.leaves && b.size <= maxLater && !slices.ContainsFunc(ops, deletesBase) {
		return nil
	}
	return b.finish()
}

// deletesBase reports whether an operation deletes a base chain. A base chain sees packets as long
// as it exists, so its deletion is not left to Finish.
func deletesBase(op ruleset.Op) bool { return op.Kind == ruleset.DeleteChain && op.Chain.Hook != nil }

// mustFinishFirst reports whether deletions that are left must be made before the operations,
// because the two conflict. They conflict in each of these cases:
//
//   - they need shadows, or delete a chain or set in the live phase: an object that is still to be
//     deleted may refer to it;
//   - they add or delete an object that is still to be deleted;
//   - they add an element to a map, and the element's value is the key of another element that is
//     still to be deleted. Packets would then look up that key.
func (b *backlog) mustFinishFirst(ops []ruleset.Op, c shadowConditions) bool {
	if b.size == 0 {
		return false
	}
	live := phasesOf(ops).live
	if needsShadows(live, c) || slices.ContainsFunc(live, func(op ruleset.Op) bool {
		return op.Kind == ruleset.DeleteChain || op.Kind == ruleset.DeleteSet
	}) {
		return true
	}
	isKey := func(el ruleset.Element) bool { return len(el.Data) > 0 && b.names[keyName(el.Data)] > 0 }
	return slices.ContainsFunc(ops, func(op ruleset.Op) bool {
		for name := range objectsOf(&op) {
			if b.names[name] > 0 {
				return true
			}
		}
		return op.Kind == ruleset.AddElements && slices.ContainsFunc(op.Elements, isKey)
	})
}

// objectsOf yields the identifiers of the objects that an operation adds or deletes.
func objectsOf(op *ruleset.Op) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		switch op.Kind {
		case ruleset.AddChain, ruleset.DeleteChain:
			yield("chain " + op.Chain.Name)
		case ruleset.AddSet, ruleset.DeleteSet:
			yield("set " + op.Set.Name)
		case ruleset.AddElements, ruleset.DeleteElements:
			if op.Set.Interval { // the kernel refuses an element that overlaps another one
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
