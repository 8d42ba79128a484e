// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
)

// Encode returns the message for an event. It returns an error in these cases:
//
//   - the event is of an unknown type;
//   - the event has no object;
//   - the event has a value that a message cannot express, such as an ICMP match without a type.
func Encode(e dataplane.Event) (*wirepb.Event, error) {
	if isNil(e) {
		return nil, fmt.Errorf("codec: event %T is nil", e)
	}
	c, m := newCursor(), &wirepb.Event{}
	known := encodePolicies(c, m, e) || encodeEndpoints(c, m, e) || encodeNetwork(c, m, e) || encodeNames(c, m, e)
	if _, ok := e.(*dataplane.InSync); ok {
		m.Event, known = &wirepb.Event_InSync{InSync: &wirepb.InSync{}}, true
	}
	switch {
	case !known:
		return nil, fmt.Errorf("codec: event %T is unknown", e)
	case m.GetEvent() == nil:
		return nil, fmt.Errorf("codec: event %T has no object", e)
	case c.err != nil:
		return nil, fmt.Errorf("codec: %s: %w", object(m), c.err)
	}
	return m, nil
}

// isNil reports whether an event is nil, or a nil pointer of a type of events.
func isNil(e dataplane.Event) bool {
	v := reflect.ValueOf(e)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Decode returns the event of a message. It returns an error in these cases:
//
//   - the message has no event of a known type;
//   - the message, or a message within it, has an unknown field;
//   - a field has a value that the protocol forbids a server to send.
func Decode(m *wirepb.Event) (dataplane.Event, error) {
	if !hasContent(m) {
		return nil, errors.New("codec: message without known content")
	}
	c := newCursor()
	refuseUnknownFields(c, m)
	e := decodeEvent(c, m)
	if c.err != nil {
		return nil, fmt.Errorf("codec: %s: %w", object(m), c.err)
	}
	return e, nil
}

// hasContent reports whether the message has an event. A typed nil pointer does not count, because
// generated getters panic on it.
func hasContent(m *wirepb.Event) bool {
	message := m.ProtoReflect()
	return message.WhichOneof(message.Descriptor().Oneofs().Get(0)) != nil
}

// decodeEvent decodes the event, which the message must have.
func decodeEvent(c *cursor, m *wirepb.Event) dataplane.Event {
	if e := decodePolicies(c, m); e != nil {
		return e
	}
	if e := decodeEndpoints(c, m); e != nil {
		return e
	}
	if e := decodeNetwork(c, m); e != nil {
		return e
	}
	if e := decodeNames(c, m); e != nil {
		return e
	}
	return &dataplane.InSync{}
}
