// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
)

const (
	attrHeader = 4
	nested     = 0x8000
	// attrTypeMask removes the flags for nested attributes and byte order from a type.
	attrTypeMask = 0x3fff
)

// Attrs is a buffer of netlink attributes, each padded to four bytes. If the length of an attribute
// does not fit into 16 bits, Data returns an error, and nothing is sent. With a truncated length,
// the kernel would use only a part of the data. Attrs is not safe for concurrent use.
type Attrs struct {
	buf []byte
	err error
}

// Bytes appends an attribute with the value as it is.
func (a *Attrs) Bytes(typ uint16, value []byte) {
	a.header(typ, len(value))
	a.buf = append(a.buf, value...)
	a.pad()
}

// String appends an attribute with a string and its terminating zero byte.
func (a *Attrs) String(typ uint16, value string) {
	a.header(typ, len(value)+1)
	a.buf = append(a.buf, value...)
	a.buf = append(a.buf, 0)
	a.pad()
}

// Addr appends an attribute with an address, of 4 or 16 bytes.
func (a *Attrs) Addr(typ uint16, value netip.Addr) {
	if value.Is4() {
		four := value.As4()
		a.Bytes(typ, four[:])
		return
	}
	sixteen := value.As16()
	a.Bytes(typ, sixteen[:])
}

// Uint32 appends an attribute with a number in network byte order.
func (a *Attrs) Uint32(typ uint16, value uint32) {
	a.header(typ, 4)
	a.buf = binary.BigEndian.AppendUint32(a.buf, value)
}

// Native32 appends an attribute with a number in the byte order of the host.
func (a *Attrs) Native32(typ uint16, value uint32) {
	a.header(typ, 4)
	a.buf = binary.NativeEndian.AppendUint32(a.buf, value)
}

// Uint64 appends an attribute with a number in network byte order.
func (a *Attrs) Uint64(typ uint16, value uint64) {
	a.header(typ, 8)
	a.buf = binary.BigEndian.AppendUint64(a.buf, value)
}

// Uint16 appends an attribute with a number in network byte order.
func (a *Attrs) Uint16(typ, value uint16) {
	a.header(typ, 2)
	a.buf = append(binary.BigEndian.AppendUint16(a.buf, value), 0, 0)
}

// Uint8 appends an attribute of one byte.
func (a *Attrs) Uint8(typ uint16, value uint8) {
	a.header(typ, 1)
	a.buf = append(a.buf, value, 0, 0, 0)
}

// Begin opens a nested attribute. The attributes that are appended before the call of End are
// nested in it. Pass the returned mark to End.
func (a *Attrs) Begin(typ uint16) (mark int) {
	mark = len(a.buf)
	a.header(typ|nested, 0)
	return mark
}

// End closes the nested attribute that Begin opened.
func (a *Attrs) End(mark int) {
	length := len(a.buf) - mark
	a.check(binary.NativeEndian.Uint16(a.buf[mark+2:]), length)
	binary.NativeEndian.PutUint16(a.buf[mark:], uint16(length))
}

// Raw appends encoded attributes.
func (a *Attrs) Raw(attrs []byte) {
	a.buf = append(a.buf, attrs...)
	a.pad()
}

// Extend appends n bytes, a multiple of four, and returns them for the caller to fill. The returned
// slice is valid until the next change of the buffer. Extend is for hot paths.
func (a *Attrs) Extend(n int) []byte {
	old := len(a.buf)
	a.buf = slices.Grow(a.buf, n)[:old+n]
	return a.buf[old:]
}

// PutUint32 overwrites the value of an attribute in the buffer with a number in network byte order.
// The first parameter is the position of the value, as Find returns it.
func (a *Attrs) PutUint32(at int, value uint32) { binary.BigEndian.PutUint32(a.buf[at:], value) }

// OrUint32 sets bits in the number at a position of the buffer.
func (a *Attrs) OrUint32(at int, set uint32) {
	a.PutUint32(at, binary.BigEndian.Uint32(a.buf[at:])|set)
}

// Find returns the position of the value of the first attribute of a type. The search begins at the
// position start, which must be the beginning of an attribute. An attribute of the type must exist.
func (a *Attrs) Find(start int, typ uint16) int {
	for at := start; at+attrHeader <= len(a.buf); {
		if binary.NativeEndian.Uint16(a.buf[at+2:])&attrTypeMask == typ {
			return at + attrHeader
		}
		at += padded(int(binary.NativeEndian.Uint16(a.buf[at:])))
	}
	return len(a.buf)
}

// From returns the data from a mark on. The slice is valid until the next change of the buffer.
func (a *Attrs) From(mark int) []byte { return a.buf[mark:] }

// Data returns the buffer and the first error. The slice is valid until the next change of the
// buffer.
func (a *Attrs) Data() ([]byte, error) { return a.buf, a.err }

// Reset removes all attributes, and keeps the memory.
func (a *Attrs) Reset() { a.buf, a.err = a.buf[:0], nil }

// Size returns the number of bytes from the mark on.
func (a *Attrs) Size(mark int) int { return len(a.buf) - mark }

// Cap returns the capacity of the buffer in bytes.
func (a *Attrs) Cap() int { return cap(a.buf) }

func (a *Attrs) header(typ uint16, length int) {
	length += attrHeader
	a.check(typ, length)
	a.buf = binary.NativeEndian.AppendUint16(a.buf, uint16(length))
	a.buf = binary.NativeEndian.AppendUint16(a.buf, typ)
}

func (a *Attrs) check(typ uint16, length int) {
	if length > math.MaxUint16 && a.err == nil {
		a.err = fmt.Errorf("netlink: attribute %d of %d bytes: longer than %d", typ&^nested, length, math.MaxUint16)
	}
}

func (a *Attrs) pad() {
	for len(a.buf)%4 != 0 {
		a.buf = append(a.buf, 0)
	}
}

func padded(length int) int { return (length + 3) &^ 3 }
