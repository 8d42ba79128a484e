// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
)

// maxIdentity is the maximum length in bytes of an identity in an error. Longer ones are cut.
const maxIdentity = 256

// object returns the name of a message's object for errors, in the words of Event.String: "policy
// Policy/shop/web", or "remove node n1". An empty identity is left out.
func object(m *wirepb.Event) string {
	kind, identity := kindAndIdentity(m)
	if len(identity) > maxIdentity {
		identity = identity[:runeStart(identity, maxIdentity)] + "..."
	}
	if !isPrintable(identity) { // so that a line break in the identity cannot forge a log line
		identity = strconv.Quote(identity)
	}
	return strings.TrimSuffix(kind+" "+identity, " ")
}

// kindAndIdentity returns the kind and the identity of a message's object. The kind is in the name
// of the field that has the object.
func kindAndIdentity(m *wirepb.Event) (kind, identity string) {
	message := m.ProtoReflect()
	field := message.WhichOneof(message.Descriptor().Oneofs().Get(0))
	if field == nil {
		return "event", ""
	}
	kind, remove := strings.CutSuffix(string(field.Name()), "_remove")
	if remove {
		kind = "remove " + kind
	}
	words := strings.NewReplacer("_update", "", "_delta", "", "ip_set", "ipset", "in_sync", "in-sync", "_", " ")
	return words.Replace(kind), identityText(message.Get(field))
}

// identityText returns the text of an identity, or of the identity of an object, which is the
// object's first field.
func identityText(v protoreflect.Value) string {
	m, ok := v.Interface().(protoreflect.Message)
	if !ok {
		return v.String()
	}
	switch m := m.Interface().(type) {
	case *wirepb.Key:
		return keyText(m)
	case *wirepb.Prefix:
		return prefixText(m)
	case *wirepb.TunnelKey:
		return tunnelText(m)
	case *wirepb.ServiceAccountKey:
		return accountText(m)
	}
	if first := m.Descriptor().Fields().ByNumber(1); first != nil {
		return identityText(m.Get(first))
	}
	return ""
}

func keyText(m *wirepb.Key) string {
	if m.GetName() == "" {
		return ""
	}
	return DecodeKey(m).String()
}

// prefixText returns the text of a prefix, even if the length is out of range.
func prefixText(m *wirepb.Prefix) string {
	a, ok := netip.AddrFromSlice(m.GetAddress())
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s/%d", a, m.GetLength())
}

func tunnelText(m *wirepb.TunnelKey) string {
	if m.GetNode() == "" {
		return ""
	}
	return fmt.Sprintf("%s/v%d", m.GetNode(), m.GetIpVersion())
}

func accountText(m *wirepb.ServiceAccountKey) string {
	if m.GetName() == "" {
		return ""
	}
	return m.GetNamespace() + "/" + m.GetName()
}

// isPrintable reports whether a text has printable characters only, in valid UTF-8.
func isPrintable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) })
}
