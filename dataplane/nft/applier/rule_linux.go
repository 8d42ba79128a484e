// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"cmp"

	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// maxComment is the longest comment that nft accepts, without the zero byte that ends it.
const maxComment = 128

// place is where a rule goes: the flags of its message, and what its attributes say besides.
type place struct {
	flags uint16
	// handle of the rule that it replaces.
	handle uint64
	// after is the rule that it comes after; nil if flags say enough.
	after *slot
}

// rule writes a rule's message, and returns its sequence number.
func (e *encoder) rule(chain string, index int, r *ruleset.Rule, sets setFinder, at place) uint32 {
	object := nfnl.Object{Kind: "rule", Name: chain, Index: index + 1}
	hash := e.ruleExprs(object, r, sets) // First, for it adds messages of its own: those of anonymous sets.
	b := e.batch
	e.message(unix.NFT_MSG_NEWRULE, at.flags, object, unix.NFTA_RULE_CHAIN)
	id := uint32(b.Len())
	if at.handle != 0 {
		b.Uint64(unix.NFTA_RULE_HANDLE, at.handle)
	}
	data, err := e.exprs.Data()
	if err != nil {
		e.fail(object, "%w", err)
	}
	list := b.Begin(unix.NFTA_RULE_EXPRESSIONS)
	start := b.Size(0)
	b.Raw(data)
	for _, i := range e.ids {
		b.PutUint32(start+i.at, i.id)
	}
	b.End(list)
	if at.after != nil {
		position(b, *at.after)
	}
	b.Uint32(unix.NFTA_RULE_ID, id)
	if len(r.Comment) > maxComment {
		e.fail(object, "comment of %d bytes, longer than %d", len(r.Comment), maxComment)
	}
	e.key = ruleUserdata(e.key[:0], r.Comment, hash)
	b.Bytes(unix.NFTA_RULE_USERDATA, e.key)
	return id
}

// ruleUserdata appends a rule's userdata.
func ruleUserdata(data []byte, comment string, hash uint64) []byte {
	if comment != "" {
		data = userdata.AppendString(data, userdata.TypeComment, comment)
	}
	return appendHash(data, hash)
}

// ruleExprs puts the rule's expressions into e.exprs, adds its anonymous sets to the batch, and
// returns the hash of it all.
func (e *encoder) ruleExprs(object nfnl.Object, r *ruleset.Rule, sets setFinder) (hash uint64) {
	e.exprs.Reset()
	e.ids, e.hash = e.ids[:0], hashSeed
	for _, m := range r.Matches {
		switch m := m.(type) {
		case ruleset.Compare:
			e.compare(object, m)
		case ruleset.Lookup:
			set := e.named(object, sets, m.Set, m.Fields)
			e.load(object, m.Fields, set != nil && set.Interval)
			e.exprs.lookup(m.Set, 0, noRegister, m.Not)
		case ruleset.In:
			name, id, ordered := e.anonymousSet(object, m.Fields, m.Elements, false)
			e.load(object, m.Fields, ordered)
			e.ids = append(e.ids, idAt{e.exprs.lookup(name, id, noRegister, m.Not), id})
		case ruleset.Raw:
			e.raw(object, m)
		default:
			e.fail(object, "unknown match %T", m)
		}
	}
	for _, s := range r.Statements {
		e.statement(object, s, sets)
	}
	data, _ := e.exprs.Data()
	for _, i := range e.ids {
		e.exprs.PutUint32(i.at, 0) // What is hashed must not depend on the transaction.
	}
	return mix(mix(e.hash, data), []byte(r.Comment))
}

func (e *encoder) raw(object nfnl.Object, r ruleset.Raw) {
	if len(r.Expressions) == 0 {
		e.fail(object, "raw text %q without expressions", r.Text)
	}
	for _, x := range r.Expressions {
		elem := e.exprs.Begin(unix.NFTA_LIST_ELEM)
		e.exprs.Raw(x)
		e.exprs.End(elem)
	}
}

func (e *encoder) statement(object nfnl.Object, s ruleset.Statement, sets setFinder) {
	x := &e.exprs
	switch s := s.(type) {
	case ruleset.Verdict:
		code := e.verdictCode(object, s)
		x.verdict(code, s.Chain)
	case ruleset.VMap:
		if s.Map != "" {
			set := e.named(object, sets, s.Map, s.Fields)
			e.load(object, s.Fields, set != nil && set.Interval)
			x.lookup(s.Map, 0, unix.NFT_REG_VERDICT, false)
			return
		}
		name, id, ordered := e.anonymousSet(object, s.Fields, s.Elements, true)
		e.load(object, s.Fields, ordered)
		e.ids = append(e.ids, idAt{x.lookup(name, id, unix.NFT_REG_VERDICT, false), id})
	case ruleset.Counter:
		x.bare("counter")
	case ruleset.Notrack:
		x.bare("notrack")
	case ruleset.Log:
		e.log(s)
	case ruleset.Limit:
		e.limit(s)
	case ruleset.Reject:
		e.reject(object, s)
	case ruleset.NAT:
		e.nat(object, s, sets)
	case ruleset.Assign:
		e.assign(object, s, sets)
	case ruleset.Raw:
		e.raw(object, s)
	default:
		e.fail(object, "unknown statement %T", s)
	}
}

func (e *encoder) log(s ruleset.Log) {
	x := &e.exprs
	m := x.begin("log")
	if s.Prefix != "" {
		x.String(unix.NFTA_LOG_PREFIX, s.Prefix)
	}
	if s.Group != nil {
		x.Uint16(unix.NFTA_LOG_GROUP, *s.Group)
	}
	x.end(m)
}

func (e *encoder) limit(s ruleset.Limit) {
	x := &e.exprs
	unit := max(1, uint64(s.Per.Seconds()))
	const packets, defaultBurst = 0, 5
	var flags uint32
	if s.Over {
		flags = unix.NFT_LIMIT_F_INV
	}
	m := x.begin("limit")
	x.Uint64(unix.NFTA_LIMIT_RATE, s.Rate)
	x.Uint64(unix.NFTA_LIMIT_UNIT, unit)
	x.Uint32(unix.NFTA_LIMIT_BURST, cmp.Or(s.Burst, defaultBurst))
	x.Uint32(unix.NFTA_LIMIT_TYPE, packets)
	x.Uint32(unix.NFTA_LIMIT_FLAGS, flags)
	x.end(m)
}

func (e *encoder) reject(object nfnl.Object, s ruleset.Reject) {
	typ, code := uint32(unix.NFT_REJECT_ICMPX_UNREACH), s.Code
	switch s.Kind {
	case ruleset.RejectDefault:
		code = 1
	case ruleset.RejectTCPReset:
		typ = unix.NFT_REJECT_TCP_RST
	case ruleset.RejectICMPX:
	default:
		e.fail(object, "unknown kind of rejection %d", s.Kind)
	}
	x := &e.exprs
	m := x.begin("reject")
	x.Uint32(unix.NFTA_REJECT_TYPE, typ)
	if typ != unix.NFT_REJECT_TCP_RST {
		x.Uint8(unix.NFTA_REJECT_ICMP_CODE, code)
	}
	x.end(m)
}

// assign sets a property of the packet or connection.
func (e *encoder) assign(object nfnl.Object, s ruleset.Assign, sets setFinder) {
	x := &e.exprs
	switch {
	case s.Map != "":
		set := e.named(object, sets, s.Map, s.Fields)
		e.load(object, s.Fields, set != nil && set.Interval)
		x.lookup(s.Map, 0, firstRegister, false)
	case s.From != 0:
		e.load(object, []ruleset.Field{s.From}, false)
	case s.Mask != 0:
		e.load(object, []ruleset.Field{s.Field}, false)
		x.mask(firstRegister, ruleset.Uint32(^s.Mask), ruleset.Uint32(s.Value&s.Mask))
	default:
		x.value(ruleset.Uint32(s.Value), firstRegister)
	}
	switch l := s.Field.Load(); l.Origin {
	case ruleset.FromMeta:
		m := x.begin("meta")
		x.Uint32(unix.NFTA_META_KEY, l.Key)
		x.Uint32(unix.NFTA_META_SREG, firstRegister)
		x.end(m)
	case ruleset.FromCt:
		m := x.begin("ct")
		x.Uint32(unix.NFTA_CT_KEY, l.Key)
		x.Uint32(unix.NFTA_CT_SREG, firstRegister)
		x.end(m)
	default:
		e.fail(object, "field %v cannot be assigned", s.Field)
	}
}

// verdictCode returns the kernel's number of a verdict.
func (e *encoder) verdictCode(object nfnl.Object, v ruleset.Verdict) int32 {
	var code int32
	chain := false
	switch v.Kind {
	case ruleset.Accept:
		code = 1
	case ruleset.Drop:
		code = 0
	case ruleset.Return:
		code = unix.NFT_RETURN
	case ruleset.Jump:
		code, chain = unix.NFT_JUMP, true
	case ruleset.Goto:
		code, chain = unix.NFT_GOTO, true
	default:
		e.fail(object, "no such verdict: %d %q", v.Kind, v.Chain)
	}
	if chain != (v.Chain != "") {
		e.fail(object, "no such verdict: %d %q", v.Kind, v.Chain)
	}
	return code
}
