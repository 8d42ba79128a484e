// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"errors"
	"fmt"

	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// encodeReplace returns the transaction that puts the table in the place of whatever has its name.
// Adding it first is what makes the deletion good when there is none. Chains come before the
// elements and rules that go to them, sets before the rules that look into them.
//
// With unhook it takes the old base chains out first, which the kernel refuses if one of that name has jumps to it.
func encodeReplace(t *ruleset.Table, unhook bool) (*nfnl.Batch, error) {
	e := &encoder{Batch: nfnl.NewBatch(), table: t.Name, sets: make(map[string]setRef, len(t.Sets))}
	if t.Family != ruleset.FamilyINet {
		return nil, fmt.Errorf("nft: encode table %s: unknown family %d", t.Name, t.Family)
	}
	e.newTable()
	if unhook {
		e.unhook(t)
	}
	e.deleteTable()
	e.newTable()
	for _, c := range t.Chains {
		e.chain(c)
	}
	for _, s := range t.Sets {
		e.namedSet(s)
	}
	for _, c := range t.Chains {
		for i := range c.Rules {
			e.rule(c.Name, i+1, &c.Rules[i])
		}
	}
	return e.Batch, errors.Join(e.errs...)
}

// encodeRemove returns the transaction that deletes the table, whether it exists or not.
func encodeRemove(table string) *nfnl.Batch {
	e := &encoder{Batch: nfnl.NewBatch(), table: table}
	e.newTable()
	e.deleteTable()
	return e.Batch
}

// encoder writes the messages of one table. What cannot be encoded is an error,
// never a message with less in it.
type encoder struct {
	*nfnl.Batch
	table string
	// sets that rules may refer to, by name. Each set of a transaction has a number, by which anonymous ones are found.
	sets  map[string]setRef
	setID uint32
	errs  []error
}

func (e *encoder) fail(o nfnl.Object, format string, args ...any) {
	e.errs = append(e.errs, fmt.Errorf("nft: encode %s: %w", o, fmt.Errorf(format, args...)))
}

func (e *encoder) newTable() {
	e.Message(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, unix.NFPROTO_INET, nfnl.Object{Kind: "table", Name: e.table})
	e.String(unix.NFTA_TABLE_NAME, e.table)
	e.Uint32(unix.NFTA_TABLE_FLAGS, 0)
}

func (e *encoder) deleteTable() {
	e.Message(unix.NFT_MSG_DELTABLE, 0, unix.NFPROTO_INET, nfnl.Object{Kind: "table", Name: e.table})
	e.String(unix.NFTA_TABLE_NAME, e.table)
}

// unhook deletes the old table's base chains ahead of everything else. Once a transaction takes effect, the kernel goes
// through it in order, and until it comes to an old base chain, packets still pass that
// chain, whose maps are empty by then: they drop. Adding a chain first is what makes its deletion good.
func (e *encoder) unhook(t *ruleset.Table) {
	for _, c := range t.Chains {
		if c.Hook != nil {
			for _, typ := range []uint16{unix.NFT_MSG_NEWCHAIN, unix.NFT_MSG_DELCHAIN} {
				e.Message(typ, 0, unix.NFPROTO_INET, nfnl.Object{Kind: "chain", Name: c.Name})
				e.String(unix.NFTA_CHAIN_TABLE, e.table)
				e.String(unix.NFTA_CHAIN_NAME, c.Name)
			}
		}
	}
}

func (e *encoder) chain(c *ruleset.Chain) {
	object := nfnl.Object{Kind: "chain", Name: c.Name}
	e.Message(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, unix.NFPROTO_INET, object)
	e.String(unix.NFTA_CHAIN_TABLE, e.table)
	e.String(unix.NFTA_CHAIN_NAME, c.Name)
	if c.Hook == nil {
		return
	}
	policy, ok := verdictCode(c.Hook.Policy.Kind)
	if c.Hook.Policy.Kind != ruleset.Accept && c.Hook.Policy.Kind != ruleset.Drop || !ok {
		e.fail(object, "policy %d is neither accept nor drop", c.Hook.Policy.Kind)
	}
	hook := e.Begin(unix.NFTA_CHAIN_HOOK)
	e.Uint32(unix.NFTA_HOOK_HOOKNUM, uint32(c.Hook.Point))
	e.Uint32(unix.NFTA_HOOK_PRIORITY, uint32(int32(c.Hook.Priority)))
	e.End(hook)
	e.Uint32(unix.NFTA_CHAIN_POLICY, uint32(policy))
	e.String(unix.NFTA_CHAIN_TYPE, "filter")
}

// maxComment is the longest comment that nft accepts, without the zero byte that ends it.
const maxComment = 128

func (e *encoder) rule(chain string, index int, r *ruleset.Rule) {
	object := nfnl.Object{Kind: "rule", Name: chain, Index: index}
	exprs := e.expressions(object, r) // First, for it adds messages of its own: those of anonymous sets.
	e.Message(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, unix.NFPROTO_INET, object)
	e.String(unix.NFTA_RULE_TABLE, e.table)
	e.String(unix.NFTA_RULE_CHAIN, chain)
	list := e.Begin(unix.NFTA_RULE_EXPRESSIONS)
	for _, x := range exprs {
		elem := e.Begin(unix.NFTA_LIST_ELEM)
		e.Raw(x)
		e.End(elem)
	}
	e.End(list)
	if r.Comment == "" {
		return
	}
	if len(r.Comment) > maxComment {
		e.fail(object, "comment of %d bytes, longer than %d", len(r.Comment), maxComment)
		return
	}
	e.Bytes(unix.NFTA_RULE_USERDATA, userdata.AppendString(nil, userdata.TypeComment, r.Comment))
}
