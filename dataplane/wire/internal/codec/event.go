// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
)

// Encode returns the message of an event. Errors: the event is of no known type, or has no object.
func Encode(e dataplane.Event) (*wirepb.Event, error) {
	m := &wirepb.Event{}
	known := encodePolicy(m, e) || encodeEndpoint(m, e) || encodeNetwork(m, e) || encodeNames(m, e)
	if _, ok := e.(*dataplane.InSync); ok {
		m.Event, known = &wirepb.Event_InSync{InSync: &wirepb.InSync{}}, true
	}
	if !known {
		return nil, fmt.Errorf("codec: event %T is unknown or has no object", e)
	}
	return m, nil
}

// Decode returns the event of a message.
func Decode(m *wirepb.Event) (dataplane.Event, error) {
	d := &decoder{}
	e := d.event(m)
	if e == nil && d.err == nil {
		d.fail("no content that is known")
	}
	if d.err != nil {
		return nil, fmt.Errorf("codec: %s%w", name(m), d.err)
	}
	return e, nil
}

// name returns the name of the content, as "policy_update: ".
func name(m *wirepb.Event) string {
	message := m.ProtoReflect()
	field := message.WhichOneof(message.Descriptor().Oneofs().Get(0))
	if field == nil {
		return ""
	}
	return string(field.Name()) + ": "
}

// event decodes the content. It returns nil if it knows none of it, or after an error.
func (d *decoder) event(m *wirepb.Event) dataplane.Event {
	for _, decode := range []func(*decoder, *wirepb.Event) dataplane.Event{
		decodePolicy, decodeEndpoint, decodeNetwork, decodeNames,
	} {
		if e := decode(d, m); e != nil || d.err != nil {
			return e
		}
	}
	if m.GetInSync() != nil {
		return &dataplane.InSync{}
	}
	return nil
}

// decoder has the first error, and the field that is being decoded.
type decoder struct {
	err   error
	field []segment
}

// segment is a part of a field's path.
type segment struct {
	name  string
	index int // in a list; -1 if it is no list
}

// in decodes a field.
func (d *decoder) in(name string, decode func()) { d.at(segment{name, -1}, decode) }

func (d *decoder) at(s segment, decode func()) {
	d.field = append(d.field, s)
	decode()
	d.field = d.field[:len(d.field)-1]
}

// fail records the first error.
func (d *decoder) fail(format string, args ...any) {
	if d.err != nil {
		return
	}
	path := ""
	for i, s := range d.field {
		if i > 0 {
			path += "."
		}
		path += s.name
		if s.index >= 0 {
			path += fmt.Sprintf("[%d]", s.index)
		}
	}
	if path != "" {
		path += ": "
	}
	d.err = errors.New(path + fmt.Sprintf(format, args...))
}

// list decodes the items of a list.
func list[M, T any](d *decoder, name string, messages []M, decode func(*decoder, M, *T)) []T {
	if len(messages) == 0 {
		return nil
	}
	out := make([]T, len(messages))
	for i, m := range messages {
		d.field = append(d.field, segment{name, i})
		decode(d, m, &out[i])
		d.field = d.field[:len(d.field)-1]
	}
	return out
}

// number decodes a number of at most most.
func number[T ~uint8 | ~uint16 | ~int](d *decoder, name string, n, most uint32) T {
	if n > most {
		d.in(name, func() { d.fail("%d, at most %d", n, most) })
		return 0
	}
	return T(n)
}

// text decodes an identity, which is not empty.
func (d *decoder) text(name, text string) string {
	if text == "" {
		d.in(name, func() { d.fail("empty") })
	}
	return text
}

// enum decodes an enum whose Go values begin with 0, where the first valid number of the message is 1.
func enum[T ~uint8, E interface {
	~int32
	Number() protoreflect.EnumNumber
}](d *decoder, name string, e, last E) T {
	if e < 1 || e > last {
		d.in(name, func() { d.fail("unknown value %d", int32(e)) })
		return 0
	}
	return T(e - 1)
}
