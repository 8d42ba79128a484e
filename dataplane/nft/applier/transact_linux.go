// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// transact carries out operations in one transaction, or where that is larger than may be, in parts.
func (a *Applier) transact(ops []ruleset.Op) error { return a.sweep(ops, nil) }

// write writes operations into the batch. d has what is to go besides, if it is not nil.
func (a *Applier) write(ops []ruleset.Op, d *difference) error {
	w := a.writer
	w.begin(ops)
	first, last := w.foreignMessages(d)
	for _, message := range first {
		message()
	}
	for i := range ops {
		if err := w.op(ops[i:]); err != nil {
			return err
		}
	}
	for _, message := range last {
		message()
	}
	return w.finish()
}

// foreignMessages return what writes the messages that remove what we never wanted: those that come before all operations, and those
// that come after. Rules go first, and maps before the chains that they lead to.
func (w *writer) foreignMessages(d *difference) (first, last []func()) {
	if d == nil {
		return nil, nil
	}
	if d.dormant {
		first = append(first, func() {
			w.tableMessage(unix.NFT_MSG_NEWTABLE, 0)
			w.batch.Uint32(unix.NFTA_TABLE_FLAGS, 0)
		})
	}
	for _, name := range d.foreignChains {
		first = append(first, func() { w.flushChain(name) })
		last = append(last, func() { w.deleteChain(name) })
	}
	var sets []func()
	for _, name := range d.foreignSets {
		sets = append(sets, func() { w.deleteSet(name) })
	}
	last = append(sets, last...)
	for _, o := range d.objects {
		last = append(last, func() {
			w.batch.Message(unix.NFT_MSG_DELOBJ, 0, w.family, nfnl.Object{Kind: "object", Name: o.name})
			w.batch.String(unix.NFTA_OBJ_TABLE, w.table)
			w.batch.String(unix.NFTA_OBJ_NAME, o.name)
			w.batch.Uint32(unix.NFTA_OBJ_TYPE, o.typ)
		})
	}
	for _, name := range d.flowtables {
		last = append(last, func() {
			w.batch.Message(unix.NFT_MSG_DELFLOWTABLE, 0, w.family, nfnl.Object{Kind: "flowtable", Name: name})
			w.batch.String(nftaFlowtableTable, w.table)
			w.batch.String(nftaFlowtableName, name)
		})
	}
	return first, last
}

// submit sends what was written, and takes over the handles.
func (a *Applier) submit() error {
	echoed, err := a.send(a.writer.batch)
	if err != nil {
		if isRefused(err) {
			a.stats.Refused++
		}
		a.writer.handles.forget()
		return err
	}
	a.writer.handles.commit(echoed)
	return nil
}

// sweep carries out operations, and removes what is not ours if d is not nil, in one transaction. If that is too large, or packets would see
// part of it late, it is done in parts, and what is not ours goes last.
func (a *Applier) sweep(ops []ruleset.Op, d *difference) error {
	// What is not ours may be of the other form of policy. To packets under way, a map that goes is empty: see carried.
	turns := inTurn(ops) || d != nil && d.foreignMaps && len(ops) > 0
	ops, open := seal(ops, turns && torn(phasesOf(ops).live))
	ops, policies := holdPolicies(ops)
	if err := a.program(ops, d, turns); err != nil {
		return err
	}
	return a.unseal(append(open, policies...))
}

// program is sweep without what keeps shut meanwhile. With turns, it is done in parts in any case.
func (a *Applier) program(ops []ruleset.Op, d *difference, turns bool) error {
	a.writer.announce(ops)
	if !turns {
		if err := a.write(ops, d); err != nil {
			return err
		}
		if a.writer.batch.Total() <= a.limit {
			err := a.submit()
			var size *nfnl.SizeError
			if !errors.As(err, &size) {
				return err
			}
			a.limit = size.Limit
		}
		a.writer.handles.forget()
	}
	err := a.inParts(ops, d)
	var size *nfnl.SizeError
	if errors.As(err, &size) && size.Limit < a.limit { // Only now it is known how much may be sent. Some may be done by now.
		a.limit = size.Limit
		return fmt.Errorf("%w, by ourselves: %w", errChanged, err)
	}
	if err != nil || d == nil {
		return err
	}
	return a.sweepForeign(d)
}

// sweepForeign removes what is not ours, in as many transactions as it takes. Rules go before what they refer to.
func (a *Applier) sweepForeign(d *difference) error {
	w := a.writer
	w.begin(nil)
	first, last := w.foreignMessages(d)
	messages := append(first, last...)
	for i, message := range messages {
		message()
		if i < len(messages)-1 && w.batch.Total() < a.limit/2 {
			continue
		}
		if err := w.finish(); err != nil {
			return err
		}
		if err := a.submit(); err != nil {
			return err
		}
		w.begin(nil)
	}
	return nil
}

// rebuild puts a new table in the place of what has its name, in one transaction. The old base chains are taken out first: once a
// transaction takes effect, the kernel goes through it in order, and until it comes to an old base chain, packets still pass that
// chain, whose maps are empty by then: they drop. If that is refused, for others may have put into the
// table what speaks against it, it is done without.
func (a *Applier) rebuild(target *ruleset.State, exists bool) error {
	fresh := ruleset.NewState(a.cfg.Family, a.cfg.Name)
	change, err := fresh.Prepare(whole(fresh, target.Table()))
	if err != nil {
		return fmt.Errorf("applier: rebuild table: %w", err)
	}
	if !exists {
		return a.program(change.Ops, nil, false) // Nothing is forbidden by a table that is not there.
	}
	ops, open := seal(change.Ops, anyLate(change.Ops))
	for _, unhook := range []bool{true, false} {
		if err = a.writeAnew(ops, target, unhook); err != nil {
			return err
		}
		if err = a.submit(); err == nil {
			return a.unseal(open)
		}
		if !isRefused(err) {
			return err
		}
	}
	return err
}

// writeAnew writes the deletion of the table, and all of a new one.
func (a *Applier) writeAnew(ops []ruleset.Op, target *ruleset.State, unhook bool) error {
	w := a.writer
	w.announce(ops)
	w.begin(ops)
	for _, name := range target.ChainNames() {
		if unhook && target.Chain(name).Hook != nil {
			w.plainChain(name) // What was added can be deleted, whether it was there or not.
			w.deleteChain(name)
		}
	}
	w.loud = true
	w.tableMessage(unix.NFT_MSG_DELTABLE, 0)
	w.tableMessage(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE)
	for i := range ops {
		if err := w.op(ops[i:]); err != nil {
			return err
		}
	}
	return w.finish()
}
