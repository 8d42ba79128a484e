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

// recently is an upper bound of the time that a packet spends in our chains, with a large margin for
// interrupts and hypervisors.
const recently = 50 * time.Millisecond

// epochs commits operations that packets see, and begins a new epoch where packets could use them in part.
type epochs struct {
	epoch   ruleset.Epoch
	desired *desiredState
	writer  *writer
	tx      *transactor
	grace   *graceWaiter
	// withoutEpoch is set if the last transaction that packets see began no new epoch, or has elements
	// of interval sets, which the kernel switches later. seen is closed at the end of a grace period
	// after that transaction.
	withoutEpoch bool
	seen         <-chan struct{}
	// overlap is that of moments.
	overlap bool
}

// moments returns how packets see transactions.
func (e *epochs) moments() moments { return moments{epoch: e.hasSet(), overlap: e.overlap} }

// hasSet reports whether the desired state has the Epoch's set.
func (e *epochs) hasSet() bool {
	return e.epoch.Set != "" && e.desired.Set(e.epoch.Set) != nil
}

// needsEpoch reports whether a packet could use some of the operations and not others. It cannot if the
// operations are Apart, or if they change a single element of a verdict map. A packet may look up an
// element of a set, or of another map, twice: in several rules, or for its sender and its receiver.
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

// commitLive commits operations that packets see. It begins a new epoch
//
//   - if a packet could use the operations in part;
//   - if the table was read back, because foreign objects may be deleted;
//   - if chains are added, because they are empty to a packet that entered before;
//   - soon after a transaction without a new epoch, if no grace period has passed since: a packet could
//     use the state before both and the state after both.
//
// Errors: *netlink.SizeError if the transaction is larger than the limit; those of write and submit.
func (e *epochs) commitLive(ops []ruleset.Op, d *readback.Difference) error {
	return e.commitWith(ops, d, e.writeEpoch)
}

// epochWriter writes operations and begins a new epoch. begun is false if it could not.
type epochWriter func([]ruleset.Op, *readback.Difference) (begun bool, err error)

// commitWith is commitLive with another epochWriter.
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

// mayOverlap reports whether the last transaction began no new epoch, and a packet that entered before it may
// still be under way.
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

// await waits for the grace periods that have begun.
func (e *epochs) await() {
	e.grace.await()
	if e.seen != nil {
		<-e.seen
	}
}

// writeEpoch writes operations and begins a new epoch. The kernel cannot change a rule twice in one
// transaction, so if the operations change rules of an Epoch chain, that chain is emptied first and
// refilled last. begun is false if there is no new epoch: the operations change the Epoch
// themselves, or a chain of it has a temporary rule.
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

// writeEpochOfShadows is writeEpoch for the live phase of a shadowPlan: it adds a first rule to chains,
// whose other rules are those of the desired state before. With d, the table is not in that state, so
// the places of the rules that look into the Epoch's set are not known.
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
// empty them. It returns a nil map if the transaction cannot begin an epoch; see writeEpoch.
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

// insertRules returns the operations that fill an empty chain.
func insertRules(c *ruleset.Chain) (ops []ruleset.Op) {
	for i := range c.Rules {
		ops = append(ops, ruleset.Op{Kind: ruleset.InsertRule, Chain: c, Index: i, Rule: c.Rules[i]})
	}
	return ops
}

// replaceEpochSet writes the operations that replace the Epoch's set and the rules that look into it,
// and those that fill the chains that were emptied. The other chains have the rules of the desired
// state, after the temporary first rules that heads counts.
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

// changesEpoch reports whether an operation changes the set, or adds, deletes or changes the policy of
// one of the chains.
func (e *epochs) changesEpoch(op ruleset.Op) bool {
	return e.replacesEpoch(op) || (op.Kind == ruleset.AddChain || op.Kind == ruleset.DeleteChain) &&
		slices.Contains(e.epoch.Chains, op.Chain.Name)
}

// replacesEpoch reports whether an operation changes the set, or the policy of one of the chains.
func (e *epochs) replacesEpoch(op ruleset.Op) bool {
	if op.Kind == ruleset.ChangePolicy {
		return slices.Contains(e.epoch.Chains, op.Chain.Name)
	}
	return op.Set != nil && op.Set.Name == e.epoch.Set
}
