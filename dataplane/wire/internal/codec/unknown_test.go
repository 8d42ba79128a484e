// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wayleave/wayleave/dataplane/wire/internal/codec"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
)

// path has the fields that lead from a message to one within it.
type path []protoreflect.FieldDescriptor

// pathsOf returns the paths to all messages within a message, and to itself.
func pathsOf(t *testing.T, m protoreflect.MessageDescriptor) []path {
	paths := []path{nil}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if f.IsMap() {
			require.Nil(t, f.MapValue().Message(), "codec does not check messages in the map %s", f.FullName())
			continue
		}
		if f.Message() != nil {
			for _, rest := range pathsOf(t, f.Message()) {
				paths = append(paths, append(path{f}, rest...))
			}
		}
	}
	return paths
}

// String returns the path as errors have it.
func (p path) String() string {
	var names []string
	for _, f := range p {
		name := string(f.Name())
		if f.IsList() {
			name += "[1]"
		}
		names = append(names, name)
	}
	return strings.Join(names, ".")
}

// within makes the messages of a path, and returns the last one. In a list, that is the second
// element.
func (p path) within(m protoreflect.Message) protoreflect.Message {
	for _, f := range p {
		if f.IsList() {
			list := m.Mutable(f).List()
			list.AppendMutable()
			m = list.AppendMutable().Message()
		} else {
			m = m.Mutable(f).Message()
		}
	}
	return m
}

// unknown is a field that no message has.
func unknown() []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1)
}

// A packet may be denied only because of a field of a newer version. Without the field, a rule
// would match more, or a set would be empty. So an unknown field is refused in every message of an
// event.
func TestUnknownFieldsAreRefused(t *testing.T) {
	seen := map[protoreflect.Name]bool{}
	for _, p := range pathsOf(t, (*wirepb.Event)(nil).ProtoReflect().Descriptor()) {
		event := &wirepb.Event{}
		last := p.within(event.ProtoReflect())
		last.SetUnknown(unknown())
		_, err := codec.Decode(event)
		if len(p) == 0 {
			require.Error(t, err)
			event.Event = &wirepb.Event_InSync{InSync: &wirepb.InSync{}}
			_, err = codec.Decode(event)
			require.EqualError(t, err, "codec: in-sync: unknown field")
			continue
		}
		want := strings.TrimPrefix(fmt.Sprintf("%s: unknown field", p[1:]), ": ")
		require.ErrorContains(t, err, ": "+want, p)
		last.SetUnknown(nil)
		if _, err = codec.Decode(event); err != nil {
			require.NotContains(t, err.Error(), "unknown field", p)
		}
		seen[last.Descriptor().Name()] = true
	}
	for _, name := range []protoreflect.Name{"Members", "Prefix", "Key", "FloatingAddress", "PortRange", "ICMP"} {
		require.True(t, seen[name], name)
	}
}

// CheckKnown refuses unknown fields of all messages around events.
func TestUnknownFieldsAroundEventsAreRefused(t *testing.T) {
	for _, p := range pathsOf(t, (*wirepb.ServerMessage)(nil).ProtoReflect().Descriptor()) {
		message := &wirepb.ServerMessage{}
		last := p.within(message.ProtoReflect())
		require.NoError(t, codec.CheckKnown(message), p)
		last.SetUnknown(unknown())
		err := codec.CheckKnown(message)
		if strings.Contains(p.String(), "events") {
			require.NoError(t, err, "Decode checks events")
			continue
		}
		want := strings.TrimPrefix(fmt.Sprintf("%s: unknown field", p), ": ")
		require.EqualError(t, err, "codec: ServerMessage: "+want)
	}
}

// A known field of another wire type is unknown to protobuf, and refused.
func TestFieldOfAnotherWireTypeIsRefused(t *testing.T) {
	members := protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), 1)
	set := &wirepb.IPSetUpdate{}
	require.NoError(t, proto.Unmarshal(members, set))
	set.Id, set.Type = "s:a", wirepb.IPSetType_IP_SET_TYPE_NETS
	_, err := codec.Decode(&wirepb.Event{Event: &wirepb.Event_IpSetUpdate{IpSetUpdate: set}})
	require.EqualError(t, err, "codec: ipset s:a: unknown field")
}
