// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"cmp"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
)

const (
	// word is the size in bytes to which fields of a concatenation are padded. The registers have
	// space for words of them.
	word  = 4
	words = 16
	// firstRegister is the first register for data, by the number with which the kernel lists it.
	firstRegister = unix.NFT_REG_1
)

// register returns the number of the register that begins at a word, as the kernel lists it. If the
// register could be one of 16 bytes, that is its old number.
func register(at int) uint32 {
	if at%4 == 0 {
		return uint32(firstRegister + at/4)
	}
	return uint32(unix.NFT_REG32_00 + at)
}

// wordsOf returns the number of words that a value takes.
func wordsOf(size int) int { return (size + word - 1) / word }

// Padded returns the size that a value takes as a field of a concatenation.
func Padded(size int) int { return wordsOf(size) * word }

// exprs writes a list of expressions. It has methods for common expressions, which write the
// attributes in the order in which the kernel lists them.
type exprs struct{ netlink.Attrs }

// mark has the positions of an expression that is being written.
type mark struct{ elem, data int }

func (x *exprs) begin(name string) mark {
	m := mark{elem: x.Begin(unix.NFTA_LIST_ELEM)}
	x.String(unix.NFTA_EXPR_NAME, name)
	m.data = x.Begin(unix.NFTA_EXPR_DATA)
	return m
}

func (x *exprs) end(m mark) {
	x.End(m.data)
	x.End(m.elem)
}

// bare writes an expression without attributes.
func (x *exprs) bare(name string) { x.end(x.begin(name)) }

func (x *exprs) meta(key, to uint32) {
	m := x.begin("meta")
	x.Uint32(unix.NFTA_META_KEY, key)
	x.Uint32(unix.NFTA_META_DREG, to)
	x.end(m)
}

func (x *exprs) payload(base, offset, size, to uint32) {
	m := x.begin("payload")
	x.Uint32(unix.NFTA_PAYLOAD_DREG, to)
	x.Uint32(unix.NFTA_PAYLOAD_BASE, base)
	x.Uint32(unix.NFTA_PAYLOAD_OFFSET, offset)
	x.Uint32(unix.NFTA_PAYLOAD_LEN, size)
	x.end(m)
}

// ct loads a property of the connection. If the property has no direction, direction is negative.
func (x *exprs) ct(key uint32, direction int, to uint32) {
	m := x.begin("ct")
	x.Uint32(unix.NFTA_CT_KEY, key)
	x.Uint32(unix.NFTA_CT_DREG, to)
	if direction >= 0 {
		x.Uint8(unix.NFTA_CT_DIRECTION, uint8(direction))
	}
	x.end(m)
}

func (x *exprs) cmp(op uint32, value []byte) {
	m := x.begin("cmp")
	x.Uint32(unix.NFTA_CMP_SREG, firstRegister)
	x.Uint32(unix.NFTA_CMP_OP, op)
	appendData(&x.Attrs, unix.NFTA_CMP_DATA, value)
	x.end(m)
}

// within compares with a range of values, inclusive.
func (x *exprs) within(op uint32, first, last []byte) {
	m := x.begin("range")
	x.Uint32(unix.NFTA_RANGE_SREG, firstRegister)
	x.Uint32(unix.NFTA_RANGE_OP, op)
	appendData(&x.Attrs, unix.NFTA_RANGE_FROM_DATA, first)
	appendData(&x.Attrs, unix.NFTA_RANGE_TO_DATA, last)
	x.end(m)
}

// mask keeps those bits of a register that are set in keep, and then flips those that are set in
// flip.
func (x *exprs) mask(at uint32, keep, flip []byte) {
	m := x.begin("bitwise")
	x.Uint32(unix.NFTA_BITWISE_SREG, at)
	x.Uint32(unix.NFTA_BITWISE_DREG, at)
	x.Uint32(unix.NFTA_BITWISE_LEN, uint32(len(keep)))
	appendData(&x.Attrs, unix.NFTA_BITWISE_MASK, keep)
	appendData(&x.Attrs, unix.NFTA_BITWISE_XOR, flip)
	x.end(m)
}

// shiftRight shifts the value in a register towards the lower bits.
func (x *exprs) shiftRight(at, size uint32, bits uint8) {
	m := x.begin("bitwise")
	x.Uint32(unix.NFTA_BITWISE_SREG, at)
	x.Uint32(unix.NFTA_BITWISE_DREG, at)
	x.Uint32(unix.NFTA_BITWISE_LEN, size)
	x.Uint32(nftaBitwiseOp, nftBitwiseRshift)
	appendData(&x.Attrs, nftaBitwiseData, binary.NativeEndian.AppendUint32(nil, uint32(bits)))
	x.end(m)
}

// value loads a value into a register.
func (x *exprs) value(value []byte, to uint32) {
	m := x.begin("immediate")
	x.Uint32(unix.NFTA_IMMEDIATE_DREG, to)
	appendData(&x.Attrs, unix.NFTA_IMMEDIATE_DATA, value)
	x.end(m)
}

// verdict writes an expression that gives a verdict.
func (x *exprs) verdict(code int32, chain string) {
	m := x.begin("immediate")
	x.Uint32(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
	appendVerdict(&x.Attrs, unix.NFTA_IMMEDIATE_DATA, code, chain)
	x.end(m)
}

// appendVerdict appends a verdict as a nest of data.
func appendVerdict(a *netlink.Attrs, typ uint16, code int32, chain string) {
	data := a.Begin(typ)
	verdict := a.Begin(unix.NFTA_DATA_VERDICT)
	a.Uint32(unix.NFTA_VERDICT_CODE, uint32(code))
	if chain != "" {
		a.String(unix.NFTA_VERDICT_CHAIN, chain)
	}
	a.End(verdict)
	a.End(data)
}

// noRegister is for a lookup that puts no value into a register.
const noRegister = ^uint32(0)

// lookup looks up the value in the first register in a set. If to is a register, the set is a map,
// and its value is put into to.
func (x *exprs) lookup(set string, id, to uint32, not bool) (idAt int) {
	m := x.begin("lookup")
	x.String(unix.NFTA_LOOKUP_SET, set)
	x.Uint32(unix.NFTA_LOOKUP_SREG, firstRegister)
	if to != noRegister {
		x.Uint32(unix.NFTA_LOOKUP_DREG, to)
	}
	var flags uint32
	if not {
		flags = unix.NFT_LOOKUP_F_INV
	}
	x.Uint32(unix.NFTA_LOOKUP_FLAGS, flags)
	if id != 0 {
		x.Uint32(unix.NFTA_LOOKUP_SET_ID, id)
		idAt = x.Size(0) - 4
	}
	x.end(m)
	return idAt
}

func (x *exprs) log(s ruleset.Log) {
	m := x.begin("log")
	if s.Prefix != "" {
		x.String(unix.NFTA_LOG_PREFIX, s.Prefix)
	}
	if s.Group != nil {
		x.Uint16(unix.NFTA_LOG_GROUP, *s.Group)
	}
	x.end(m)
}

func (x *exprs) limit(s ruleset.Limit) {
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
