// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// fieldForm has the type and the load of a field. For an unknown field, size is zero.
type fieldForm struct {
	typ  ruleset.Type
	size int
	load ruleset.Load
}

// fieldForms returns the forms of all fields, indexed by field.
func fieldForms() *[256]fieldForm {
	all := new([256]fieldForm)
	for _, f := range ruleset.Fields() {
		all[f] = fieldForm{f.Type(), f.Type().Size(), f.Load()}
	}
	return all
}

// load loads fields into adjacent registers.
func (e *ruleEncoder) load(fields []ruleset.Field) {
	at := 0
	for _, f := range fields {
		form := &e.forms[f]
		size := form.size
		if size == 0 || at+wordsOf(size) > words {
			e.fail("field %v is unknown or does not fit", f)
			return
		}
		to := register(at)
		if form.load.Size != 0 {
			e.fail("field %v can only be compared", f)
			return
		}
		e.exprs.loadField(form.load, to, uint32(size))
		if l := &form.load; l.Mask != 0 {
			keep := maskBytes(l.Mask, size)
			e.exprs.mask(to, keep, make([]byte, size))
			if l.Shift != 0 {
				e.exprs.shiftRight(to, uint32(size), l.Shift)
			}
		}
		at += wordsOf(size)
	}
}

func (x *exprs) loadField(l ruleset.Load, to, size uint32) {
	switch l.Origin {
	case ruleset.FromMeta:
		x.meta(l.Key, to)
	case ruleset.FromPayload:
		x.payload(l.Base, l.Offset, size, to)
	case ruleset.FromCt:
		direction := -1
		if l.Direction != ruleset.DirectionNone {
			direction = int(l.Direction)
		}
		x.ct(l.Key, direction, to)
	case ruleset.FromFib:
		m := x.begin("fib")
		x.Uint32(unix.NFTA_FIB_DREG, to)
		x.Uint32(unix.NFTA_FIB_RESULT, l.Key)
		x.Uint32(unix.NFTA_FIB_FLAGS, l.Flags)
		x.end(m)
	case ruleset.FromExthdr:
		m := x.begin("exthdr")
		x.Uint32(unix.NFTA_EXTHDR_DREG, to)
		x.Uint8(unix.NFTA_EXTHDR_TYPE, uint8(l.Key))
		x.Uint32(unix.NFTA_EXTHDR_OFFSET, 0)
		x.Uint32(unix.NFTA_EXTHDR_LEN, size)
		x.Uint32(unix.NFTA_EXTHDR_OP, unix.NFT_EXTHDR_OP_IPV6)
		x.Uint32(unix.NFTA_EXTHDR_FLAGS, unix.NFT_EXTHDR_F_PRESENT)
		x.end(m)
	}
}

// maskBytes returns a number in network byte order.
func maskBytes(mask uint32, size int) []byte {
	return binary.BigEndian.AppendUint32(make([]byte, max(0, size-4)), mask)[max(0, 4-size):]
}

// width returns the number of bytes that the kernel loads for a field.
func (f *fieldForm) width() int {
	if f.load.Size != 0 {
		return int(f.load.Size)
	}
	return f.size
}

// loadBits loads the bytes that contain a field's bits, and clears all other bits.
func (x *exprs) loadBits(f *fieldForm) {
	width := f.width()
	x.loadField(f.load, firstRegister, uint32(width))
	x.mask(firstRegister, maskBytes(f.load.Mask, width), make([]byte, width))
}

// shifted returns a value in the form in which loadBits loads it.
func (f *fieldForm) shifted(v []byte) []byte {
	var n uint32
	for _, b := range v {
		n = n<<8 | uint32(b)
	}
	return maskBytes(n<<f.load.Shift, f.width())
}

// compare tests one field. An interface name of fewer than 16 bytes stands for all names that begin
// with it. Bits without a mask match if any of them is set.
func (e *ruleEncoder) compare(c ruleset.Compare) {
	if bytes.Equal(c.Last, c.Value) { // nft also encodes a range of one value as that value
		c.Last = nil
	}
	form := &e.forms[c.Field]
	t, size := form.typ, form.size
	prefix := t == ruleset.TypeIfname && c.Last == nil && len(c.Value) > 0 && len(c.Value) < size
	badMask := c.Mask != nil && (len(c.Mask) != size || c.Last != nil)
	if len(c.Value) != size && !prefix || c.Last != nil && len(c.Last) != size || badMask || size == 0 {
		e.fail("value %v does not fit field %v", c.Value, c.Field)
		return
	}
	op := uint32(unix.NFT_CMP_EQ)
	if c.Not {
		op = unix.NFT_CMP_NEQ
	}
	fields := [1]ruleset.Field{c.Field}
	x := &e.exprs
	switch {
	case c.Last != nil:
		e.compareRange(c, op)
	case c.Mask != nil:
		e.load(fields[:])
		if !c.Whole() { // nft also omits a mask with all bits
			x.mask(firstRegister, c.Mask, make([]byte, size))
		}
		x.cmp(op, c.Value)
	case t.Bits():
		none := make([]byte, size)
		e.load(fields[:])
		x.mask(firstRegister, c.Value, none)
		x.cmp(op^1, none) // whether any bit is left under the mask: EQ and NEQ are 0 and 1
	case form.load.Mask != 0:
		x.loadBits(form)
		x.cmp(op, form.shifted(c.Value))
	case form.load.Flags&ruleset.FibPresent != 0: // nft and older kernels use a word of 4 bytes
		e.load(fields[:])
		x.cmp(op, append(slices.Clone(c.Value), 0, 0, 0))
	default:
		e.load(fields[:])
		x.cmp(op, c.Value)
	}
}

// compareRange compares with an interval. If the interval is a prefix of addresses, it loads only
// the bytes of the prefix and masks the other bits, as nft does. So nft lists it as a prefix again.
func (e *ruleEncoder) compareRange(c ruleset.Compare, op uint32) {
	form := &e.forms[c.Field]
	t := form.typ
	length, ok := 0, false
	if t.Address() {
		length, ok = ruleset.PrefixLen(c.Value, c.Last)
	}
	x := &e.exprs
	switch size := len(c.Value); {
	case ok && length > 0 && length%8 == 0 && form.load.Origin == ruleset.FromPayload:
		e.exprs.loadField(form.load, firstRegister, uint32(length/8))
		x.cmp(op, c.Value[:length/8])
	case form.load.Mask != 0:
		x.loadBits(form)
		x.within(op, form.shifted(c.Value), form.shifted(c.Last))
	case ok:
		keep := make([]byte, size)
		for i := range keep {
			keep[i] = ^(c.Value[i] ^ c.Last[i])
		}
		e.exprs.loadField(form.load, firstRegister, uint32(size))
		x.mask(firstRegister, keep, make([]byte, size))
		x.cmp(op, c.Value)
	default:
		e.load([]ruleset.Field{c.Field})
		x.within(op, c.Value, c.Last)
	}
}
