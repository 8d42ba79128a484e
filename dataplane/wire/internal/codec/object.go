// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

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

// kindAndIdentity returns the kind and the identity of a message's object.
func kindAndIdentity(m *wirepb.Event) (kind, identity string) {
	switch m := m.GetEvent().(type) {
	case *wirepb.Event_IpSetUpdate:
		return "ipset", m.IpSetUpdate.GetId()
	case *wirepb.Event_IpSetDelta:
		return "ipset", m.IpSetDelta.GetId()
	case *wirepb.Event_IpSetRemove:
		return "remove ipset", m.IpSetRemove
	case *wirepb.Event_PolicyUpdate:
		return "policy", keyText(m.PolicyUpdate.GetKey())
	case *wirepb.Event_PolicyRemove:
		return "remove policy", keyText(m.PolicyRemove)
	case *wirepb.Event_ProfileUpdate:
		return "profile", m.ProfileUpdate.GetName()
	case *wirepb.Event_ProfileRemove:
		return "remove profile", m.ProfileRemove
	case *wirepb.Event_EndpointUpdate:
		return "endpoint", keyText(m.EndpointUpdate.GetKey())
	case *wirepb.Event_EndpointRemove:
		return "remove endpoint", keyText(m.EndpointRemove)
	case *wirepb.Event_HostEndpointUpdate:
		return "host endpoint", keyText(m.HostEndpointUpdate.GetKey())
	case *wirepb.Event_HostEndpointRemove:
		return "remove host endpoint", keyText(m.HostEndpointRemove)
	case *wirepb.Event_InSync:
		return "in-sync", ""
	default:
		return networkIdentity(m)
	}
}

func networkIdentity(m any) (kind, identity string) {
	switch m := m.(type) {
	case *wirepb.Event_RouteUpdate:
		return "route", prefixText(m.RouteUpdate.GetDestination())
	case *wirepb.Event_RouteRemove:
		return "remove route", prefixText(m.RouteRemove)
	case *wirepb.Event_TunnelUpdate:
		return "tunnel", tunnelText(m.TunnelUpdate.GetKey())
	case *wirepb.Event_TunnelRemove:
		return "remove tunnel", tunnelText(m.TunnelRemove)
	case *wirepb.Event_NodeUpdate:
		return "node", m.NodeUpdate.GetName()
	case *wirepb.Event_NodeRemove:
		return "remove node", m.NodeRemove
	case *wirepb.Event_PoolUpdate:
		return "pool", m.PoolUpdate.GetName()
	case *wirepb.Event_PoolRemove:
		return "remove pool", m.PoolRemove
	case *wirepb.Event_ServiceUpdate:
		return "service", keyText(m.ServiceUpdate.GetKey())
	case *wirepb.Event_ServiceRemove:
		return "remove service", keyText(m.ServiceRemove)
	case *wirepb.Event_NamespaceUpdate:
		return "namespace", m.NamespaceUpdate.GetName()
	case *wirepb.Event_NamespaceRemove:
		return "remove namespace", m.NamespaceRemove
	case *wirepb.Event_ServiceAccountUpdate:
		return "service account", accountText(m.ServiceAccountUpdate.GetKey())
	case *wirepb.Event_ServiceAccountRemove:
		return "remove service account", accountText(m.ServiceAccountRemove)
	}
	return "event", ""
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
