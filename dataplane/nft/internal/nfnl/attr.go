// SPDX-License-Identifier: Apache-2.0

package nfnl

import (
	"encoding/binary"
	"fmt"
	"math"
)

const (
	attrHeader = 4
	nested     = 0x8000
)

// Attrs is a buffer of netlink attributes, each padded to four bytes. The first attribute that
// does not fit its 16-bit length is kept as an error, which Batch reports when it is sent: a length must
// never wrap around, or the kernel would take part of the data for all of it.
// Attrs is not safe for concurrent use.
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

// String appends an attribute with a string and the zero byte that ends it.
func (a *Attrs) String(typ uint16, value string) {
	a.header(typ, len(value)+1)
	a.buf = append(a.buf, value...)
	a.buf = append(a.buf, 0)
	a.pad()
}

// Uint32 appends an attribute with a number in network byte order.
func (a *Attrs) Uint32(typ uint16, value uint32) {
	a.header(typ, 4)
	a.buf = binary.BigEndian.AppendUint32(a.buf, value)
}

// Begin opens a nested attribute. What is appended until End, which gets the mark, is inside.
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

// Raw appends attributes that are encoded already.
func (a *Attrs) Raw(attrs []byte) {
	a.buf = append(a.buf, attrs...)
	a.pad()
}

// Size is the number of bytes from the mark on.
func (a *Attrs) Size(mark int) int { return len(a.buf) - mark }

func (a *Attrs) header(typ uint16, length int) {
	length += attrHeader
	a.check(typ, length)
	a.buf = binary.NativeEndian.AppendUint16(a.buf, uint16(length))
	a.buf = binary.NativeEndian.AppendUint16(a.buf, typ)
}

func (a *Attrs) check(typ uint16, length int) {
	if length > math.MaxUint16 && a.err == nil {
		a.err = fmt.Errorf("nfnl: attribute %d of %d bytes: longer than %d", typ&^nested, length, math.MaxUint16)
	}
}

func (a *Attrs) pad() {
	for len(a.buf)%4 != 0 {
		a.buf = append(a.buf, 0)
	}
}
