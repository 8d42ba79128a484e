// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// recently is an upper bound of the time that a packet spends in our chains. It has a large margin
// for interrupts and hypervisors.
const recently = 50 * time.Millisecond

// epochs commits operations that packets see. It begins a new epoch if packets could use the
// operations in part.
type epochs struct {
	epoch   ruleset.Epoch
	desired *desiredState
	writer  *writer
	tx      *transactor
	grace   *graceWaiter
	// withoutEpoch is set if the last transaction that packets see began no new epoch. It is also
	// set if that transaction has elements of interval sets, which the kernel changes later. seen
	// is closed at the end of a grace period after that transaction.
	withoutEpoch bool
	seen         <-chan struct{}
	// overlap is the value of shadowConditions.overlap.
	overlap bool
}

// shadowConditions returns the conditions for the next transaction.
func (e *epochs) shadowConditions() shadowConditions {
	return shadowConditions{epoch: e.hasSet(), overlap: e.overlap}
}

// hasSet reports whether the desired state has the set of the Epoch.
func (e *epochs) hasSet() bool {
	return e.epoch.Set != "" && e.desired.Set(e.epoch.Set) != nil
}

// needsEpoch reports whether a packet could use some of the operations and not others. It could not
// if the operations are Apart, or if they change a single element of a verdict map. A packet may
// look up an element of any other set or map twice: in several rules, or for its sender and its
// receiver.
func needsEpoch(live []ruleset.Op) bool {
	if len(live) > 0 && live[0].Apart {
		return false
	}
	key := ""
	for i := range live {
		op := &live[i]
		if op.Kind != ruleset.AddElements && op.Kind != ruleset.DeleteElements ||
			!op.Set.Verdicts || op.Set.Interval {
			return true
		}
		for k := range op.Elements {
			id := op.Set.Name + " " + string(op.Set.ID(&op.Elements[k]))
			if key != "" && key != id {
				return true
			}
			key = id
		}
	}
	return false
}

// commitLive commits operations that packets see. It begins a new epoch in these cases:
//
//   - A packet could use the operations in part.
//   - The table was read back: foreign objects may be deleted.
//   - Chains are added: to a packet that entered before, they are empty.
//   - A transaction without a new epoch came shortly before, and no grace period has ended since. A
//     packet could use the state before both transactions and the state after both.
//
// Errors: *netlink.SizeError if the transaction is larger than the limit; those of write and
// submit.
func (e *epochs) commitLive(ops []ruleset.Op, d *readback.Difference) error {
	return e.commitWith(ops, d, e.writeEpoch)
}

// epochWriter writes operations and begins a new epoch. If it could not begin one, begun is false.
type epochWriter func([]ruleset.Op, *readback.Difference) (begun bool, err error)

// commitWith does what commitLive does, with the given epochWriter.
func (e *epochs) commitWith(ops []ruleset.Op, d *readback.Difference, write epochWriter) error {
	p := phasesOf(ops)
	live := p.live
	needs := e.hasSet() && (d != nil || needsEpoch(live) || len(live) > 0 && p.addsChains())
	if needs {
		e.grace.await()
	}
	begun, err := false, error(nil)
	if needs || e.hasSet() && e.mayOverlap() {
		begun, err = write(ops, d)
	} else {
		err = e.writer.write(ops, d, nil)
	}
	if err == nil {
		err = e.tx.submitWhole()
	}
	if err != nil {
		return err
	}
	if e.withoutEpoch = !begun || anyLate(live); e.withoutEpoch && e.hasSet() {
		e.seen = e.grace.request()
	}
	if needs {
		e.grace.begin()
	}
	return nil
}

// mayOverlap reports whether the last transaction began no new epoch, and a packet may still be
// under way that entered before that transaction.
func (e *epochs) mayOverlap() bool {
	if !e.withoutEpoch || e.tx.now().Sub(e.tx.committed) >= recently {
		return false
	}
	select {
	case <-e.seen:
		return e.grace.mayNotWait()
	default:
		return true
	}
}

// await waits for all grace periods that have begun.
func (e *epochs) await() {
	e.grace.await()
	if e.seen != nil {
		<-e.seen
	}
}

// writeEpoch writes operations and begins a new epoch. The kernel cannot change a rule twice in one
// transaction. So if the operations change rules of a chain of the Epoch, writeEpoch first deletes
// all rules of this chain. It adds the new rules of the chain last. writeEpoch begins no new epoch
// if the operations themselves change the Epoch, or if a chain of the Epoch has a temporary rule.
// Then begun is false.
func (e *epochs) writeEpoch(ops []ruleset.Op, d *readback.Difference) (begun bool, err error) {
	refilled, deletions, err := e.refilled(ops)
	if err != nil {
		return false, err
	}
	if refilled == nil {
		return false, e.writer.write(ops, d, nil)
	}
	rest := slices.DeleteFunc(slices.Clone(ops), func(op ruleset.Op) bool {
		return isRuleOp(&op) && refilled[op.Chain.Name] != nil
	})
	return true, e.writer.write(append(deletions, rest...), d, func() error { return e.replaceEpochSet(refilled, nil) })
}

// writeEpochOfShadows does what writeEpoch does, for the live phase of a shadowPlan. That phase
// adds a first rule to chains whose other rules are those of the old desired state. If d is not
// nil, the table may not be in that state. Then the positions of the rules that reference the
// Epoch's set are not known, and it begins no new epoch.
func (e *epochs) writeEpochOfShadows(ops []ruleset.Op, d *readback.Difference) (begun bool, err error) {
	if d != nil || !e.hasSet() || slices.ContainsFunc(ops, e.changesEpoch) {
		return false, e.writer.write(ops, d, nil)
	}
	heads := map[string]int{}
	for i := range ops {
		if isRuleOp(&ops[i]) {
			heads[ops[i].Chain.Name]++
		}
	}
	return true, e.writer.write(ops, d, func() error { return e.replaceEpochSet(nil, heads) })
}

// refilled returns the chains to empty and refill, in their new state, and the operations that
// empty them. If the transaction cannot begin an epoch, it returns a nil map: see writeEpoch.
func (e *epochs) refilled(ops []ruleset.Op) (chains map[string]*ruleset.Chain, deletions []ruleset.Op, err error) {
	if !e.hasSet() || slices.ContainsFunc(ops, e.replacesEpoch) {
		return nil, nil, nil
	}
	e.writer.handles.forget()
	chains = map[string]*ruleset.Chain{}
	added, moved := map[string]int{}, map[string]bool{}
	for i := range ops {
		op := &ops[i]
		if op.Chain == nil || !slices.Contains(e.epoch.Chains, op.Chain.Name) {
			continue
		}
		name := op.Chain.Name
		switch op.Kind {
		case ruleset.AddChain, ruleset.DeleteChain:
			if moved[name] { // the chain is replaced
				return nil, nil, nil
			}
			moved[name] = true
			if chains[name] = op.Chain; op.Kind == ruleset.DeleteChain {
				chains[name] = &ruleset.Chain{Name: name}
			}
			continue
		case ruleset.InsertRule:
			added[name]++
		case ruleset.DeleteRule:
			added[name]--
		}
		chains[name] = op.Chain
	}
	for _, name := range e.epoch.Chains {
		c := chains[name]
		if c == nil {
			c = e.desired.Chain(name)
		}
		if c == nil || moved[name] {
			continue
		}
		slots, err := e.writer.handles.chain(name)
		if err != nil {
			return nil, nil, fmt.Errorf("applier: handles of chain %s: %w", name, err)
		}
		if len(slots)+added[name] != len(c.Rules) { // the chain has a temporary rule
			return nil, nil, nil
		}
		if chains[name] == nil {
			continue
		}
		for i := len(slots) - 1; i >= 0; i-- {
			deletions = append(deletions, ruleset.Op{Kind: ruleset.DeleteRule, Chain: c, Index: i})
		}
	}
	return chains, deletions, nil
}

// insertRules returns the operations that add all rules of a chain to an empty chain.
func insertRules(c *ruleset.Chain) (ops []ruleset.Op) {
	for i := range c.Rules {
		ops = append(ops, ruleset.Op{Kind: ruleset.InsertRule, Chain: c, Index: i, Rule: c.Rules[i]})
	}
	return ops
}

// replaceEpochSet writes operations that replace the Epoch's set and the rules that reference it,
// and operations that refill the emptied chains. The other chains have the rules of the desired
// state, behind temporary first rules; heads has the number of the latter.
func (e *epochs) replaceEpochSet(emptied map[string]*ruleset.Chain, heads map[string]int) error {
	name := e.epoch.Set
	set := e.desired.Set(name)
	elements := e.desired.View(name).Elements()
	var rules, ops []ruleset.Op
	for _, chain := range e.epoch.Chains {
		c := e.desired.Chain(chain)
		if c == nil || emptied[chain] != nil {
			continue
		}
		for i := range c.Rules {
			if slices.Contains(slices.Collect(c.Rules[i].Sets()), name) {
				op := ruleset.Op{Kind: ruleset.InsertRule, Chain: c, Index: heads[chain] + i, Rule: c.Rules[i]}
				rules = append(rules, op)
			}
		}
	}
	for _, op := range slices.Backward(rules) {
		op.Kind = ruleset.DeleteRule
		ops = append(ops, op)
	}
	ops = append(ops,
		ruleset.Op{Kind: ruleset.DeleteElements, Set: set, Elements: elements},
		ruleset.Op{Kind: ruleset.DeleteSet, Set: set},
		ruleset.Op{Kind: ruleset.AddSet, Set: set},
		ruleset.Op{Kind: ruleset.AddElements, Set: set, Elements: elements})
	ops = append(ops, rules...)
	for _, name := range slices.Sorted(maps.Keys(emptied)) {
		ops = append(ops, insertRules(emptied[name])...)
	}
	e.writer.flushed = true // chains to delete were flushed before, or will be
	return e.writer.writeOps(ops)
}

// changesEpoch reports whether an operation changes the set of the Epoch, or adds, deletes or
// changes the policy of one of its chains.
func (e *epochs) changesEpoch(op ruleset.Op) bool {
	return e.replacesEpoch(op) || (op.Kind == ruleset.AddChain || op.Kind == ruleset.DeleteChain) &&
		slices.Contains(e.epoch.Chains, op.Chain.Name)
}

// replacesEpoch reports whether an operation changes the set of the Epoch, or the policy of one of
// its chains.
func (e *epochs) replacesEpoch(op ruleset.Op) bool {
	if op.Kind == ruleset.ChangePolicy {
		return slices.Contains(e.epoch.Chains, op.Chain.Name)
	}
	return op.Set != nil && op.Set.Name == e.epoch.Set
}
