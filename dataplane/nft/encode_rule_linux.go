// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"math/bits"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// The kernel's registers: the first of 16 bytes, and the words that it is made of. Fields of a
// concatenation are loaded side by side into words.
const (
	firstRegister = unix.NFT_REG_1
	firstWord     = unix.NFT_REG32_00
	words         = 16
)

// expressions returns the encoded expressions of a rule, and adds its anonymous sets to the batch.
func (e *encoder) expressions(object nfnl.Object, r *ruleset.Rule) [][]byte {
	var exprs []expr.Any
	for _, m := range r.Matches {
		switch m := m.(type) {
		case ruleset.Compare:
			exprs = append(exprs, e.compare(object, m)...)
		case ruleset.Lookup:
			exprs = append(exprs, e.lookup(object, m.Fields, e.named(object, m.Set, m.Fields, false), m.Not)...)
		case ruleset.In:
			exprs = append(exprs, e.lookup(object, m.Fields, e.anonymousSet(object, m.Fields, m.Elements, false), m.Not)...)
		default:
			e.fail(object, "unknown match %T", m)
		}
	}
	for _, s := range r.Statements {
		exprs = append(exprs, e.statement(object, s)...)
	}
	encoded := make([][]byte, 0, len(exprs))
	for _, x := range exprs {
		data, err := expr.Marshal(unix.NFPROTO_INET, x)
		if err != nil {
			e.fail(object, "%w", err)
		}
		encoded = append(encoded, data)
	}
	return encoded
}

func (e *encoder) statement(object nfnl.Object, s ruleset.Statement) []expr.Any {
	switch s := s.(type) {
	case ruleset.Verdict:
		code, ok := verdictCode(s.Kind)
		if !ok || (s.Chain != "") != takesChain(s.Kind) {
			e.fail(object, "no such verdict: %d %q", s.Kind, s.Chain)
		}
		return []expr.Any{&expr.Verdict{Kind: code, Chain: s.Chain}}
	case ruleset.VMap:
		var ref setRef
		if s.Map != "" {
			ref = e.named(object, s.Map, s.Fields, true)
		} else {
			ref = e.anonymousSet(object, s.Fields, s.Elements, true)
		}
		load := e.load(object, s.Fields)
		return append(load, &expr.Lookup{
			SourceRegister: firstRegister, IsDestRegSet: true, DestRegister: unix.NFT_REG_VERDICT,
			SetName: ref.name, SetID: ref.id,
		})
	case ruleset.Log:
		return []expr.Any{&expr.Log{Key: 1 << unix.NFTA_LOG_PREFIX, Data: []byte(s.Prefix)}}
	case ruleset.Counter:
		return []expr.Any{&expr.Counter{}}
	}
	e.fail(object, "unknown statement %T", s)
	return nil
}

func (e *encoder) lookup(object nfnl.Object, fields []ruleset.Field, ref setRef, not bool) []expr.Any {
	return append(e.load(object, fields), &expr.Lookup{
		SourceRegister: firstRegister, SetName: ref.name, SetID: ref.id, Invert: not,
	})
}

// named finds a set of the table, whose key must be of the fields' types.
func (e *encoder) named(object nfnl.Object, name string, fields []ruleset.Field, verdicts bool) setRef {
	ref, ok := e.sets[name]
	if !ok {
		e.fail(object, "no set %s", name)
		return setRef{}
	}
	same := slices.EqualFunc(fields, ref.spec.key, func(f ruleset.Field, t ruleset.Type) bool { return f.Type() == t })
	if !same || ref.spec.verdicts != verdicts {
		e.fail(object, "fields do not suit set %s", name)
	}
	return ref
}

// compare tests one field. An interface name of fewer than 16 bytes stands for all that begin with
// it. The states of a connection are bits, one of which a packet has: several of them mean any.
func (e *encoder) compare(object nfnl.Object, c ruleset.Compare) []expr.Any {
	size := c.Field.Type().Size()
	prefix := c.Field.Type() == ruleset.TypeIfname && c.Last == nil && len(c.Value) > 0 && len(c.Value) < size
	if len(c.Value) != size && !prefix || c.Last != nil && len(c.Last) != size {
		e.fail(object, "value %v does not fit field %d", c.Value, c.Field)
	}
	if c.Field == ruleset.CtState && (c.Last != nil || c.Not && !oneBit(c.Value)) {
		e.fail(object, "states are no range, and only one can be negated")
	}
	exprs := e.load(object, []ruleset.Field{c.Field})
	op := expr.CmpOpEq
	if c.Not {
		op = expr.CmpOpNeq
	}
	switch {
	case c.Field == ruleset.CtState && !c.Not:
		none := make([]byte, size)
		return append(exprs,
			&expr.Bitwise{SourceRegister: firstRegister, DestRegister: firstRegister, Len: uint32(size), Mask: c.Value, Xor: none},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: firstRegister, Data: none}) // Any bit left under the mask.
	case c.Last != nil:
		if length, ok := ruleset.PrefixLen(c.Value, c.Last); ok && isAddress(c.Field.Type()) {
			return comparePrefix(c, length, op)
		}
		return append(exprs, &expr.Range{Op: op, Register: firstRegister, FromData: c.Value, ToData: c.Last})
	}
	return append(exprs, &expr.Cmp{Op: op, Register: firstRegister, Data: c.Value})
}

// comparePrefix loads no more of an address than its prefix, and masks the rest: so does nft, and prints
// it as a prefix again.
func comparePrefix(c ruleset.Compare, length int, op expr.CmpOp) []expr.Any {
	if length > 0 && length%8 == 0 {
		size := length / 8
		return []expr.Any{
			loadField(c.Field, firstRegister, uint32(size)),
			&expr.Cmp{Op: op, Register: firstRegister, Data: c.Value[:size]},
		}
	}
	size := len(c.Value)
	mask := make([]byte, size)
	for i := range mask {
		mask[i] = ^(c.Value[i] ^ c.Last[i])
	}
	return []expr.Any{
		loadField(c.Field, firstRegister, uint32(size)),
		&expr.Bitwise{SourceRegister: firstRegister, DestRegister: firstRegister, Len: uint32(size), Mask: mask, Xor: make([]byte, size)},
		&expr.Cmp{Op: op, Register: firstRegister, Data: c.Value},
	}
}

// load puts the fields side by side into registers.
func (e *encoder) load(object nfnl.Object, fields []ruleset.Field) []expr.Any {
	var exprs []expr.Any
	offset := 0
	for _, f := range fields {
		size := f.Type().Size()
		if size == 0 || offset+wordsOf(size) > words {
			e.fail(object, "field %d is unknown or does not fit", f)
			return nil
		}
		register := uint32(firstRegister)
		if offset > 0 {
			register = uint32(firstWord + offset)
		}
		exprs = append(exprs, loadField(f, register, uint32(size)))
		offset += wordsOf(size)
	}
	return exprs
}

// loadField is only called for fields that have a type.
func loadField(f ruleset.Field, register, size uint32) expr.Any {
	network := func(offset uint32) expr.Any {
		return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size}
	}
	transport := func(offset uint32) expr.Any {
		return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: size}
	}
	meta := func(key expr.MetaKey) expr.Any { return &expr.Meta{Key: key, Register: register} }
	switch f {
	case ruleset.IIFName:
		return meta(expr.MetaKeyIIFNAME)
	case ruleset.OIFName:
		return meta(expr.MetaKeyOIFNAME)
	case ruleset.NFProto:
		return meta(expr.MetaKeyNFPROTO)
	case ruleset.L4Proto:
		return meta(expr.MetaKeyL4PROTO)
	case ruleset.CtState:
		return &expr.Ct{Key: expr.CtKeySTATE, Register: register}
	case ruleset.IPSaddr:
		return network(12)
	case ruleset.IPDaddr:
		return network(16)
	case ruleset.IP6Saddr:
		return network(8)
	case ruleset.IP6Daddr:
		return network(24)
	case ruleset.Sport, ruleset.ICMPType, ruleset.ICMPv6Type:
		return transport(0)
	case ruleset.ICMPCode, ruleset.ICMPv6Code:
		return transport(1)
	default: // ruleset.Dport
		return transport(2)
	}
}

// verdictCode returns the kernel's number of a verdict.
func verdictCode(k ruleset.VerdictKind) (expr.VerdictKind, bool) {
	switch k {
	case ruleset.Accept:
		return expr.VerdictAccept, true
	case ruleset.Drop:
		return expr.VerdictDrop, true
	case ruleset.Return:
		return expr.VerdictReturn, true
	case ruleset.Jump:
		return expr.VerdictJump, true
	case ruleset.Goto:
		return expr.VerdictGoto, true
	}
	return 0, false
}

func oneBit(v ruleset.Value) bool {
	n := 0
	for _, b := range v {
		n += bits.OnesCount8(b)
	}
	return n == 1
}

func isAddress(t ruleset.Type) bool { return t == ruleset.TypeIPv4 || t == ruleset.TypeIPv6 }

func takesChain(k ruleset.VerdictKind) bool { return k == ruleset.Jump || k == ruleset.Goto }
