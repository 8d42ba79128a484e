// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/encode"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// writer writes operations as one transaction, and records the handles of rules.
type writer struct {
	*encode.Encoder
	batch   *nfnl.Batch
	handles *handles
	sets    encode.Sets
	// fresh has the sets that the operations add.
	fresh map[string]*ruleset.Set
	// echo is the flag that requests echoes with the handles of new rules, or zero.
	echo uint16
	// flushed is set if the rules of the chains to delete are already deleted, or will be.
	flushed bool
	// pauseMonitor is set if a short transaction causes many notifications, for example by deleting
	// many chains.
	pauseMonitor bool
	// flags are the flags with which the table is created.
	flags uint32
}

func newWriter(cfg *Config, desired *desiredState, reader *readback.Reader) *writer {
	w := &writer{
		batch: nfnl.NewBatch(), handles: newHandles(reader.Handles),
		sets:  func(name string) *ruleset.Set { return desired.Set(name) },
		fresh: map[string]*ruleset.Set{},
	}
	w.Encoder = encode.New(w.batch, cfg.Family, cfg.Name, w.find)
	return w
}

// beginOps begins a transaction with these operations.
func (w *writer) beginOps(ops []ruleset.Op) {
	w.Begin(w.flags)
	w.handles.forget()
	w.echo, w.flushed, w.pauseMonitor = 0, false, false
	rules := 0
	for i := range ops {
		if k := ops[i].Kind; k == ruleset.InsertRule || k == ruleset.ReplaceRule {
			rules++
		}
	}
	if rules <= echoes {
		w.echo = unix.NLM_F_ECHO
	}
}

// announce records the sets that the next operations add, in one or more transactions, because
// rules reference them.
func (w *writer) announce(ops []ruleset.Op) {
	clear(w.fresh)
	for i := range ops {
		if ops[i].Kind == ruleset.AddSet {
			w.fresh[ops[i].Set.Name] = ops[i].Set
		}
	}
}

// find returns a set in its new state.
func (w *writer) find(name string) *ruleset.Set {
	if s := w.fresh[name]; s != nil {
		return s
	}
	return w.sets(name)
}

// op writes the first operation of rest. The others follow in the same transaction.
func (w *writer) op(rest []ruleset.Op) error {
	op := &rest[0]
	switch op.Kind {
	case ruleset.AddSet:
		w.AddSet(op.Set)
	case ruleset.DeleteSet:
		w.flushDeletedChains(rest)
		w.DeleteSet(op.Set.Name)
	case ruleset.AddElements:
		w.AddElements(op.Set, op.Elements)
	case ruleset.DeleteElements:
		w.DeleteElements(op.Set, op.Elements)
	case ruleset.AddChain:
		w.AddChain(op.Chain)
		w.handles.add(op.Chain.Name)
	case ruleset.ChangePolicy:
		w.ChangePolicy(op.Chain)
	case ruleset.DeleteChain:
		w.flushDeletedChains(rest)
		w.DeleteChain(op.Chain.Name)
		w.handles.drop(op.Chain.Name)
	case ruleset.InsertRule, ruleset.DeleteRule, ruleset.ReplaceRule:
		return w.ruleOp(op)
	default:
		return fmt.Errorf("applier: encode operation: unknown kind %d", op.Kind)
	}
	return nil
}

// flushDeletedChains deletes the rules of all chains that the transaction deletes, once in a
// transaction. These rules may refer to each other's chains, and to sets that are deleted, too.
func (w *writer) flushDeletedChains(rest []ruleset.Op) {
	if w.flushed {
		return
	}
	w.flushed = true
	chains := 0
	for i := range rest {
		if rest[i].Kind == ruleset.DeleteChain {
			w.FlushChain(rest[i].Chain.Name)
			chains++
		}
	}
	w.pauseMonitor = w.pauseMonitor || chains > maxNotifiedChains
}

// ruleOp writes an operation on one rule.
func (w *writer) ruleOp(op *ruleset.Op) error {
	chain := op.Chain.Name
	slots, err := w.handles.chain(chain)
	if err != nil {
		return fmt.Errorf("applier: handles of chain %s: %w", chain, err)
	}
	limit := len(slots)
	if op.Kind == ruleset.InsertRule {
		limit++
	}
	if op.Index < 0 || op.Index >= limit {
		return fmt.Errorf("chain %s has %d rules, and none at %d: %w", chain, len(slots), op.Index, errChanged)
	}
	if op.Kind == ruleset.InsertRule {
		at := encode.Position{Flags: unix.NLM_F_CREATE | w.echo}
		if op.Index > 0 || len(slots) == 0 {
			at.Flags |= unix.NLM_F_APPEND
		}
		if op.Index > 0 && op.Index < len(slots) {
			at.After, at.AfterNew = slots[op.Index-1].handle, slots[op.Index-1].id
		}
		id := w.AddRule(chain, op.Index, &op.Rule, at)
		w.handles.insert(chain, op.Index, slot{id: id})
		return nil
	}
	old := slots[op.Index]
	if old.handle == 0 {
		return fmt.Errorf("applier: encode rule %d of chain %s: changed twice in one transaction", op.Index+1, chain)
	}
	if op.Kind == ruleset.DeleteRule {
		w.DeleteRule(chain, op.Index, old.handle)
		w.handles.remove(chain, op.Index)
		return nil
	}
	at := encode.Position{Flags: unix.NLM_F_REPLACE | w.echo, Replaces: old.handle}
	id := w.AddRule(chain, op.Index, &op.Rule, at)
	w.handles.replace(chain, op.Index, slot{id: id})
	return nil
}

// write writes operations into the batch. If d is not nil, it also deletes the foreign objects in
// d. If more is not nil, it writes further operations after them.
func (w *writer) write(ops []ruleset.Op, d *readback.Difference, more func() error) error {
	w.beginOps(ops)
	first, last := w.foreignMessages(d)
	for _, message := range first {
		message()
	}
	if err := w.writeOps(ops); err != nil {
		return err
	}
	if more != nil {
		if err := more(); err != nil {
			return err
		}
	}
	for _, message := range last {
		message()
	}
	return w.Err()
}

// foreignMessages returns functions that write the deletion of foreign objects. The functions in
// first must be called before all operations, those in last after them. Rules are deleted first,
// and maps before the chains to which they lead.
func (w *writer) foreignMessages(d *readback.Difference) (first, last []func()) {
	if d == nil {
		return nil, nil
	}
	if d.Dormant {
		first = append(first, func() {
			w.SetTableFlags(d.Flags)
		})
	}
	for _, name := range d.Foreign.Chains {
		first = append(first, func() { w.FlushChain(name) })
		last = append(last, func() { w.DeleteChain(name) })
	}
	var sets []func()
	for _, name := range d.Foreign.Sets {
		sets = append(sets, func() { w.DeleteSet(name) })
	}
	last = append(sets, last...)
	for _, o := range d.Foreign.Objects {
		last = append(last, func() {
			w.DeleteObject(o.Name, o.Type)
		})
	}
	for _, name := range d.Foreign.Flowtables {
		last = append(last, func() {
			w.DeleteFlowtable(name)
		})
	}
	return first, last
}

// writeOps writes operations into the batch that was begun.
func (w *writer) writeOps(ops []ruleset.Op) error {
	for i := range ops {
		if err := w.op(ops[i:]); err != nil {
			return err
		}
	}
	return nil
}
