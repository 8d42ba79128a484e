// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"
	"net/netip"
)

// ErrMalformed means that a message or attribute is truncated or has the wrong length.
var ErrMalformed = errors.New("netlink: malformed message")

// Decoder iterates over attributes without allocating. While Next returns true, Type and Value are
// those of the current attribute. After the loop, check Err. A Decoder is not safe for concurrent
// use.
type Decoder struct {
	// Type, without flags, and Value of the current attribute.
	Type  uint16
	Value []byte
	// Err is ErrMalformed if an attribute is truncated, or read with the wrong type.
	Err  error
	rest []byte
}

// Begin prepares the Decoder for the attributes of a message. body begins with a header of size
// bytes, such as struct ifinfomsg, and the attributes follow. Begin returns this header. If the
// body is too short, the header is zero and Err is set.
func (d *Decoder) Begin(body []byte, size int) (header []byte) {
	if len(body) < size {
		d.Err = ErrMalformed
		return make([]byte, size)
	}
	d.rest = body[size:]
	return body[:size]
}

// Next continues with the next attribute. It returns false at the end.
func (d *Decoder) Next() bool {
	b, length := d.rest, 0
	if len(b) >= attrHeader {
		length = int(binary.NativeEndian.Uint16(b))
	}
	if length < attrHeader || length > len(b) {
		return d.end()
	}
	d.Type = binary.NativeEndian.Uint16(b[2:]) & attrTypeMask
	d.Value, d.rest = b[attrHeader:length], b[min(len(b), (length+3)&^3):]
	return true
}

func (d *Decoder) end() bool {
	if len(d.rest) > 0 {
		d.Err = ErrMalformed
	}
	return false
}

// Nested returns a decoder for the attributes inside of the current attribute. Pass the error of
// that decoder to Join.
func (d *Decoder) Nested() Decoder { return Decoder{rest: d.Value} }

// Join sets Err, unless Err is already set.
func (d *Decoder) Join(err error) {
	if d.Err == nil {
		d.Err = err
	}
}

// Uint8 returns the value as a number of one byte.
func (d *Decoder) Uint8() uint8 {
	if !d.sized(1) {
		return 0
	}
	return d.Value[0]
}

// Uint16 returns the value as a number in network byte order.
func (d *Decoder) Uint16() uint16 {
	if !d.sized(2) {
		return 0
	}
	return binary.BigEndian.Uint16(d.Value)
}

// Uint32 returns the value as a number in network byte order.
func (d *Decoder) Uint32() uint32 {
	if !d.sized(4) {
		return 0
	}
	return binary.BigEndian.Uint32(d.Value)
}

// Native32 returns the value as a number in the byte order of the host.
func (d *Decoder) Native32() uint32 {
	if !d.sized(4) {
		return 0
	}
	return binary.NativeEndian.Uint32(d.Value)
}

// Addr returns the value as an address of 4 or 16 bytes.
func (d *Decoder) Addr() netip.Addr {
	a, ok := netip.AddrFromSlice(d.Value)
	if !ok {
		d.Err = ErrMalformed
	}
	return a
}

func (d *Decoder) sized(size int) bool {
	if len(d.Value) != size {
		d.Err = ErrMalformed
		return false
	}
	return true
}

// NextAttr returns the first attribute of a list: its type without flags, its value, and the rest
// of the list. ok is false if the list is empty or its first attribute is truncated.
func NextAttr(attrs []byte) (typ uint16, value, rest []byte, ok bool) {
	if len(attrs) < attrHeader {
		return 0, nil, nil, false
	}
	length := int(binary.NativeEndian.Uint16(attrs))
	if length < attrHeader || length > len(attrs) {
		return 0, nil, nil, false
	}
	typ = binary.NativeEndian.Uint16(attrs[2:]) & attrTypeMask
	return typ, attrs[attrHeader:length], attrs[min(len(attrs), padded(length)):], true
}

// Attributes yields the type, without flags, and the value of each attribute, up to the first
// truncated one. A loop over NextAttr takes half the time.
func Attributes(attrs []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for typ, value, rest, ok := NextAttr(attrs); ok && yield(typ, value); {
			typ, value, rest, ok = NextAttr(rest)
		}
	}
}

// FindAttr returns the value of the first attribute of a type; nil if there is none.
func FindAttr(attrs []byte, typ uint16) []byte {
	for t, value, rest, ok := NextAttr(attrs); ok; t, value, rest, ok = NextAttr(rest) {
		if t == typ {
			return value
		}
	}
	return nil
}

// Text returns the value of a string attribute up to its zero byte.
func Text(value []byte) string {
	value, _, _ = bytes.Cut(value, []byte{0})
	return string(value)
}

// IsText reports whether the value of an attribute is the string s, with or without a zero byte at
// its end.
func IsText(value []byte, s string) bool {
	return len(value) == len(s)+1 && value[len(s)] == 0 && string(value[:len(s)]) == s ||
		len(value) == len(s) && string(value) == s
}

// Number32 decodes a value of four bytes in network byte order. It returns zero if the value is nil
// or has another length.
func Number32(value []byte) uint32 {
	if len(value) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(value)
}

// Number64 decodes a value of eight bytes in network byte order. It returns zero if the value is
// nil or has another length.
func Number64(value []byte) uint64 {
	if len(value) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(value)
}
