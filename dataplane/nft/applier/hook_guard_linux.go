// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/encode"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// hookGuard is a table that drops packets while base chains replace others. It closes a gap of the
// kernel. A packet may be delayed between a new base chain and the old one. The new chain comes
// first, and accepts the packet, because it has no rules yet. If the old chain is deleted
// meanwhile, it accepts the packet, too. The guard is a table of its own. The reason is that the
// transaction could remove a chain of our table from the hook together with the old chain.
//
// The rules of the guard drop only while a set has elements, and these expire. The kernel deletes
// the guard with the process. Before Linux 5.12, it cannot do so: then a comment identifies the
// guard, and the next process deletes it.
type hookGuard struct {
	*encode.Encoder
	table  string
	chains []*ruleset.Chain
}

// hookGuardTime is the longest time for which a guard drops. The kernel's time for the transaction
// is part of it.
const hookGuardTime = 10 * time.Second

// hookGuards adds and deletes the hookGuard of a change.
type hookGuards struct {
	tools
	conn *nfnl.Conn
	// owned is false if the kernel does not support owners of tables.
	owned bool
	// guard is set while base chains are replaced, and as long as the guard cannot be deleted.
	guard *hookGuard
	// cleaned is set once no guard of a killed process is left in the kernel.
	cleaned bool
}

// guardComment is the comment of a guard table without an owner.
const guardComment = "drops packets while base chains are replaced"

// under makes a change under a guard. The guard's base chains come after the given hooks. If the
// parameter dropping is set, the guard drops from its beginning; otherwise it drops from the
// transaction on that contains hookGuard.drop. After the change, under waits for a grace period and
// deletes the guard. There is no guard if there are no hooks, or if the kernel refuses the guard,
// for example because another table has its name. The result waited reports whether there was a
// grace period.
//
// Errors: those of the change, and of sending the guard's transactions.
func (h *hookGuards) under(
	hooks []*ruleset.Hook, dropping bool, change func() error,
) (waited bool, err error) {
	if err := h.add(hooks, dropping); err != nil {
		return false, err
	}
	err = change()
	if h.guard == nil {
		return false, err
	}
	_ = h.grace.synchronize() // without a grace period, both base chains may accept a delayed packet
	return true, errors.Join(err, h.remove())
}

// add adds the guard, and waits until every packet under way sees it.
func (h *hookGuards) add(hooks []*ruleset.Hook, dropping bool) error {
	if err := h.remove(); err != nil {
		return err
	}
	w := h.writer
	g := &hookGuard{table: h.table()}
	for _, hook := range hooks {
		if hook.Type == ruleset.HookNAT { // translationGuards are for these
			continue
		}
		after := *hook
		after.Type, after.Policy = ruleset.HookFilter, ruleset.Verdict{Kind: ruleset.Accept}
		if after.Priority == math.MaxInt32 { // there is no later priority: the guard comes before the old chain
			dropping = true
		} else {
			after.Priority++
		}
		g.chains = append(g.chains, &ruleset.Chain{Name: fmt.Sprintf("guard-%d", len(g.chains)), Hook: &after})
	}
	if len(g.chains) == 0 {
		return nil
	}
	g.Encoder = encode.New(w.batch, h.cfg.Family, g.table, func(string) *ruleset.Set { return guardSet() })
	w.beginOps(nil)
	if h.owned {
		g.CreateTable(encode.TableOwner, "")
	} else {
		g.CreateTable(0, guardComment)
	}
	g.AddSet(guardSet())
	for _, c := range g.chains {
		g.AddChain(c)
	}
	if dropping {
		g.drop()
	}
	if err := errors.Join(w.Err(), g.Err()); err != nil {
		return err
	}
	h.guard = g // also set if the result of submit is not known
	err := h.tx.submit()
	if isRefused(err) {
		h.guard = nil
		h.cfg.Logger.Warn("nftables: cannot add the guard table; "+
			"delayed packets may pass while base chains are replaced", "table", g.table, "err", err)
		return nil
	}
	if err == nil {
		_ = h.grace.synchronize() // without a grace period, a delayed packet may bypass the guard
	}
	return err
}

func (h *hookGuards) table() string { return h.cfg.Name + "-guard" }

// guardSet returns the set by which a guard drops. While it drops, the set has an element for each
// kind of packet.
func guardSet() *ruleset.Set {
	return &ruleset.Set{Name: "dropping", Key: []ruleset.Type{ruleset.TypeNFProto}, Timeouts: true}
}

// drop writes the elements and rules with which a guard drops.
func (g *hookGuard) drop() {
	if g == nil {
		return
	}
	set := guardSet()
	var elements []ruleset.Element
	for _, family := range []uint8{
		unix.NFPROTO_IPV4, unix.NFPROTO_ARP, unix.NFPROTO_NETDEV, unix.NFPROTO_BRIDGE, unix.NFPROTO_IPV6,
	} {
		elements = append(elements,
			ruleset.Element{Key: []ruleset.Value{ruleset.Byte(family)}, Timeout: hookGuardTime})
	}
	g.AddElements(set, elements)
	r := dropGuard()
	r.Matches = []ruleset.Match{ruleset.Lookup{Fields: []ruleset.Field{ruleset.NFProto}, Set: set.Name}}
	for _, c := range g.chains {
		g.AddRule(c.Name, 0, &r, encode.Position{Flags: unix.NLM_F_CREATE | unix.NLM_F_APPEND})
	}
}

// remove deletes the guard. The first time, it also deletes the guard of a killed process. If the
// guard was never added, a table of that name may belong to another process: then it stays. If the
// deletion fails, the next call tries again.
//
// Errors: errChanged if the kernel refuses the deletion; those of reading the table, and of sending
// the transaction.
func (h *hookGuards) remove() error {
	if h.guard == nil && h.cleaned {
		return nil
	}
	table := h.table()
	head, err := readback.New(h.conn, h.cfg.Family, table).Head()
	if err != nil {
		return fmt.Errorf("read table %s: %w", table, err)
	}
	if h.ours(head) {
		h.writer.batch.Reset()
		encode.New(h.writer.batch, h.cfg.Family, table, nil).DeleteTable()
		_, err = h.tx.commit(h.writer.batch, nil)
		if isRefused(err) {
			return fmt.Errorf("%w: delete table %s: %w", errChanged, table, err)
		}
		if err != nil {
			return err
		}
	} else if head.Exists && h.guard != nil {
		h.cfg.Logger.Warn("nftables: another process has a table with the name of the guard table, and keeps it",
			"table", table)
	}
	h.guard, h.cleaned = nil, true
	return nil
}

// ours reports whether a table with the guard's name is a guard that our socket owns, or a guard
// without an owner.
func (h *hookGuards) ours(head readback.Head) bool {
	if h.owned {
		return head.Owner == h.conn.Port()
	}
	return bytes.Equal(head.Userdata, encode.TableUserdata(guardComment))
}

// replacedHooks returns the hooks of deleted base chains that others may replace. If the operations
// add base chains, these are the hooks of all base chains that the operations delete. If there are
// any operations, the hooks of foreign base chains are among them.
func replacedHooks(ops []ruleset.Op, d *readback.Difference) (hooks []*ruleset.Hook) {
	added := slices.ContainsFunc(ops, func(op ruleset.Op) bool {
		return op.Kind == ruleset.AddChain && op.Chain.Hook != nil
	})
	for i := range ops {
		if op := &ops[i]; added && op.Kind == ruleset.DeleteChain && op.Chain.Hook != nil {
			hooks = append(hooks, op.Chain.Hook)
		}
	}
	if d != nil && len(ops) > 0 {
		for _, name := range d.Foreign.Bases {
			if hook := d.Hooks[name]; hook != nil {
				hooks = append(hooks, hook)
			}
		}
	}
	return hooks
}
