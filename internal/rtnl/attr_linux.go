// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

const (
	attrHeaderLen = unix.SizeofRtAttr
	// attrType masks the flags of an attribute's type.
	attrType = 0x3fff
)

// The attr functions append an attribute to the message that is open.

func (b *Batch) attr(typ uint16, value []byte) {
	b.attrHeader(typ, len(value))
	b.buf = append(b.buf, value...)
	for len(b.buf)%4 != 0 {
		b.buf = append(b.buf, 0)
	}
}

func (b *Batch) attrHeader(typ uint16, length int) {
	b.buf = binary.NativeEndian.AppendUint16(b.buf, uint16(attrHeaderLen+length))
	b.buf = binary.NativeEndian.AppendUint16(b.buf, typ)
}

func (b *Batch) attr32(typ uint16, value uint32) {
	b.attrHeader(typ, 4)
	b.buf = binary.NativeEndian.AppendUint32(b.buf, value)
}

func (b *Batch) attr8(typ uint16, value uint8) {
	b.attrHeader(typ, 1)
	b.buf = append(b.buf, value, 0, 0, 0)
}

func (b *Batch) attrAddr(typ uint16, a netip.Addr) {
	if a.Is4() {
		four := a.As4()
		b.attr(typ, four[:])
		return
	}
	sixteen := a.As16()
	b.attr(typ, sixteen[:])
}

// beginNested opens an attribute that holds others; endNested closes it.
func (b *Batch) beginNested(typ uint16) (mark int) {
	mark = len(b.buf)
	b.attrHeader(typ, 0)
	return mark
}

func (b *Batch) endNested(mark int) {
	binary.NativeEndian.PutUint16(b.buf[mark:], uint16(len(b.buf)-mark))
}

// attrs walks attributes without allocating: for a.next() { a.typ, a.data }; then a.err.
type attrs struct {
	rest []byte
	typ  uint16
	data []byte
	err  error
}

func (a *attrs) next() bool {
	if len(a.rest) < attrHeaderLen {
		return false
	}
	length := int(binary.NativeEndian.Uint16(a.rest))
	if length < attrHeaderLen || length > len(a.rest) {
		a.err = errMalformed
		return false
	}
	a.typ = binary.NativeEndian.Uint16(a.rest[2:]) & attrType
	a.data = a.rest[attrHeaderLen:length]
	a.rest = a.rest[min((length+3)&^3, len(a.rest)):]
	return true
}

func (a *attrs) uint32() uint32 {
	if len(a.data) != 4 {
		a.err = errMalformed
		return 0
	}
	return binary.NativeEndian.Uint32(a.data)
}

func (a *attrs) uint8() uint8 {
	if len(a.data) != 1 {
		a.err = errMalformed
		return 0
	}
	return a.data[0]
}

func (a *attrs) addr() netip.Addr {
	addr, ok := netip.AddrFromSlice(a.data)
	if !ok {
		a.err = errMalformed
	}
	return addr
}
