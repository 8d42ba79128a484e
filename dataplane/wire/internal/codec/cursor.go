// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
)

// cursor has the path of the field that is being translated, and the first error. Translation does
// not stop at an error: the caller checks err at the end, and then discards the result.
type cursor struct {
	path []segment
	err  error
	// event is the descriptor of Event, whose unknown fields Decode checks.
	event protoreflect.MessageDescriptor
}

// segment is one field of a path.
type segment struct {
	name  string
	index int // index of an item; -1 if the field is not a list
}

// newCursor returns a cursor before the first field.
func newCursor() *cursor {
	const depth = 4 // as in ingress[0].source.nets[0].address
	return &cursor{path: make([]segment, 0, depth), event: (*wirepb.Event)(nil).ProtoReflect().Descriptor()}
}

// enter begins a field within the current one.
func (c *cursor) enter(name string) { c.path = append(c.path, segment{name, -1}) }

// enterItem begins an item of a list.
func (c *cursor) enterItem(name string, index int) { c.path = append(c.path, segment{name, index}) }

// leave ends a field.
func (c *cursor) leave() { c.path = c.path[:len(c.path)-1] }

// fail records an error of the current field, if it is the first.
func (c *cursor) fail(format string, args ...any) {
	if c.err != nil {
		return
	}
	var text strings.Builder
	for i, s := range c.path {
		if i > 0 {
			text.WriteByte('.')
		}
		text.WriteString(s.name)
		if s.index >= 0 {
			text.WriteString("[" + strconv.Itoa(s.index) + "]")
		}
	}
	if text.Len() > 0 {
		text.WriteString(": ")
	}
	fmt.Fprintf(&text, format, args...)
	c.err = errors.New(text.String())
}

// failIn records an error of a field within the current one.
func (c *cursor) failIn(name, format string, args ...any) {
	c.enter(name)
	c.fail(format, args...)
	c.leave()
}

// decodeList decodes the items of a list. An empty list becomes nil.
func decodeList[M, T any](c *cursor, name string, messages []M, decode func(*cursor, M, *T)) []T {
	if len(messages) == 0 {
		return nil
	}
	out := make([]T, len(messages))
	for i, m := range messages {
		c.enterItem(name, i)
		decode(c, m, &out[i])
		c.leave()
	}
	return out
}

// decodeName decodes a name in a list of names. It must not be empty.
func decodeName[T ~string](c *cursor, name string, out *T) {
	if name == "" {
		c.fail("empty")
	}
	*out = T(name)
}

// identity decodes a text that identifies an object. It must not be empty.
func identity[T ~string](c *cursor, name, text string) T {
	if text == "" {
		c.failIn(name, "empty")
	}
	return T(text)
}

// number decodes a number from first to last.
func number[T ~uint8 | ~uint16 | ~int](c *cursor, name string, n, first, last uint32) T {
	if n < first || n > last {
		c.failIn(name, "%d, want %d to %d", n, first, last)
		return 0
	}
	return T(n)
}

// ipVersion decodes an IP version: 4, 6 or, if zero is set, 0.
func ipVersion(c *cursor, name string, v uint32, zero bool) int {
	if v != 4 && v != 6 && (v != 0 || !zero) {
		c.failIn(name, "%d, want 4 or 6", v)
		return 0
	}
	return int(v)
}

// encodeIPVersion encodes an IP version: 0, 4 or 6.
func encodeIPVersion(c *cursor, name string, v int) uint32 {
	if v != 0 && v != 4 && v != 6 {
		c.failIn(name, "%d, want 4 or 6", v)
		return 0
	}
	return uint32(v)
}

// encodeEnum encodes the Go values 0, 1, and so on as the enum values 1, 2, and so on up to last.
// The enum value 0 is not valid.
func encodeEnum[E ~int32, T ~uint8](c *cursor, name string, v T, last E) E {
	if E(v) >= last {
		c.failIn(name, "unknown value %d", uint8(v))
		return 0
	}
	return E(v) + 1
}

// decodeEnum is the reverse of encodeEnum.
func decodeEnum[T ~uint8, E ~int32](c *cursor, name string, e, last E) T {
	if e < 1 || e > last {
		c.failIn(name, "unknown value %d", int32(e))
		return 0
	}
	return T(e - 1)
}
