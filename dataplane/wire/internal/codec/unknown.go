// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
)

// CheckKnown returns an error if a message, or a message within it, has an unknown field. Such a
// field is from a newer version of the protocol. If it were ignored, packets that policy denies
// could pass. CheckKnown does not check events within the message, because Decode does.
func CheckKnown(m proto.Message) error {
	c := newCursor()
	c.refuseUnknown(m.ProtoReflect())
	if c.err != nil {
		return fmt.Errorf("codec: %s: %w", m.ProtoReflect().Descriptor().Name(), c.err)
	}
	return nil
}

// refuseUnknownFields records an error for an unknown field of an event. The path in the error
// begins at the content of the event.
func refuseUnknownFields(c *cursor, m *wirepb.Event) {
	message := m.ProtoReflect()
	if len(message.GetUnknown()) > 0 {
		c.fail("unknown field")
	}
	if field := message.WhichOneof(message.Descriptor().Oneofs().Get(0)); field.Message() != nil {
		c.refuseUnknown(message.Get(field).Message())
	}
}

// refuseUnknown records an error for an unknown field of a message, or of a message within it that
// is no event. It does not look into maps, because the schema has no map of messages.
func (c *cursor) refuseUnknown(m protoreflect.Message) {
	if len(m.GetUnknown()) > 0 {
		c.fail("unknown field")
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.Message() == nil || f.IsMap() || f.Message() == c.event || !m.Has(f):
		case f.IsList():
			name, list := string(f.Name()), m.Get(f).List()
			for i := range list.Len() {
				c.enterItem(name, i)
				c.refuseUnknown(list.Get(i).Message())
				c.leave()
			}
		default:
			c.enter(string(f.Name()))
			c.refuseUnknown(m.Get(f).Message())
			c.leave()
		}
	}
}
