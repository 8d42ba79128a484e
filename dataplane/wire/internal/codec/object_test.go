// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/codec"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/policy"
)

// nameOf returns the name of a message's object in errors.
func nameOf(t *testing.T, m *wirepb.Event) string {
	m.ProtoReflect().SetUnknown(unknown())
	_, err := codec.Decode(m)
	require.ErrorContains(t, err, "unknown field")
	return strings.TrimSuffix(strings.TrimPrefix(err.Error(), "codec: "), ": unknown field")
}

// TestObjectsHaveNames: errors name the object of each message, and its kind even if the object
// has no identity.
func TestObjectsHaveNames(t *testing.T) {
	key := policy.Key{Kind: "Kind", Namespace: "shop", Name: "web"}
	dst, account := netip.MustParsePrefix("2001:db8::/32"), dataplane.ServiceAccountKey{Namespace: "shop", Name: "web"}
	tunnel := dataplane.TunnelKey{Node: "n1", IPVersion: 6, Encapsulation: dataplane.EncapVXLAN}
	seen := map[protoreflect.Name]bool{}
	for _, c := range []struct {
		kind, identity string
		event          dataplane.Event
	}{
		{"ipset", "s:a", &dataplane.IPSetUpdate{ID: "s:a"}},
		{"ipset", "s:a", &dataplane.IPSetDelta{ID: "s:a"}},
		{"remove ipset", "s:a", &dataplane.IPSetRemove{ID: "s:a"}},
		{"policy", "Kind/shop/web", &dataplane.PolicyUpdate{Key: key, Policy: &dataplane.Policy{}}},
		{"remove policy", "Kind/shop/web", &dataplane.PolicyRemove{Key: key}},
		{"profile", "p", &dataplane.ProfileUpdate{Name: "p", Profile: &dataplane.Profile{}}},
		{"remove profile", "p", &dataplane.ProfileRemove{Name: "p"}},
		{"endpoint", "Kind/shop/web", &dataplane.EndpointUpdate{Key: key, Endpoint: &dataplane.Endpoint{}}},
		{"remove endpoint", "Kind/shop/web", &dataplane.EndpointRemove{Key: key}},
		{
			"host endpoint", "Kind/shop/web",
			&dataplane.HostEndpointUpdate{Key: key, HostEndpoint: &dataplane.HostEndpoint{}},
		},
		{"remove host endpoint", "Kind/shop/web", &dataplane.HostEndpointRemove{Key: key}},
		{"route", "2001:db8::/32", &dataplane.RouteUpdate{Route: &dataplane.Route{Dst: dst}}},
		{"remove route", "2001:db8::/32", &dataplane.RouteRemove{Dst: dst}},
		{"tunnel", "n1/v6", &dataplane.TunnelUpdate{Tunnel: &dataplane.Tunnel{
			Node: "n1", IPVersion: 6, Address: dst.Addr(), ParentAddress: dst.Addr(),
		}}},
		{"remove tunnel", "n1/v6", &dataplane.TunnelRemove{Key: tunnel}},
		{"node", "n1", &dataplane.NodeUpdate{Node: &dataplane.Node{Name: "n1"}}},
		{"remove node", "n1", &dataplane.NodeRemove{Name: "n1"}},
		{"pool", "p", &dataplane.PoolUpdate{Pool: &dataplane.Pool{Name: "p", CIDR: dst}}},
		{"remove pool", "p", &dataplane.PoolRemove{Name: "p"}},
		{"service", "Kind/shop/web", &dataplane.ServiceUpdate{Service: &dataplane.Service{Key: key}}},
		{"remove service", "Kind/shop/web", &dataplane.ServiceRemove{Key: key}},
		{"namespace", "shop", &dataplane.NamespaceUpdate{Namespace: &dataplane.Namespace{Name: "shop"}}},
		{"remove namespace", "shop", &dataplane.NamespaceRemove{Name: "shop"}},
		{"service account", "shop/web", &dataplane.ServiceAccountUpdate{
			ServiceAccount: &dataplane.ServiceAccount{Key: account},
		}},
		{"remove service account", "shop/web", &dataplane.ServiceAccountRemove{Key: account}},
		{"in-sync", "", &dataplane.InSync{}},
	} {
		m, err := codec.Encode(c.event)
		require.NoError(t, err)
		message := m.ProtoReflect()
		field := message.WhichOneof(message.Descriptor().Oneofs().ByName("event"))
		require.False(t, seen[field.Name()])
		seen[field.Name()] = true
		require.Equal(t, strings.TrimSpace(c.kind+" "+c.identity), nameOf(t, m))

		empty := &wirepb.Event{}
		empty.ProtoReflect().Set(field, message.NewField(field))
		require.Equal(t, c.kind, nameOf(t, empty))
	}
	require.Len(t, seen, (&wirepb.Event{}).ProtoReflect().Descriptor().Oneofs().ByName("event").Fields().Len())
}

// TestIncompleteIdentities: an identity in an error does not need to be valid.
func TestIncompleteIdentities(t *testing.T) {
	key := func(k *wirepb.Key) *wirepb.Event {
		return &wirepb.Event{Event: &wirepb.Event_PolicyRemove{PolicyRemove: k}}
	}
	route := func(p *wirepb.Prefix) *wirepb.Event {
		return &wirepb.Event{Event: &wirepb.Event_RouteUpdate{RouteUpdate: &wirepb.Route{Destination: p}}}
	}
	account := func(k *wirepb.ServiceAccountKey) *wirepb.Event {
		return &wirepb.Event{Event: &wirepb.Event_ServiceAccountRemove{ServiceAccountRemove: k}}
	}
	for _, c := range []struct {
		want    string
		message *wirepb.Event
	}{
		{"remove policy", key(nil)},
		{"remove policy", key(&wirepb.Key{Kind: "Policy", Namespace: "shop"})},
		{"remove policy Policy/web", key(&wirepb.Key{Kind: "Policy", Name: "web"})},
		{"remove policy /web", key(&wirepb.Key{Name: "web"})},
		{"route", route(prefix(8, 10))},
		{"route 10.0.0.1/40", route(prefix(40, 10, 0, 0, 1))},
		{"remove tunnel n1/v0", &wirepb.Event{
			Event: &wirepb.Event_TunnelRemove{TunnelRemove: &wirepb.TunnelKey{Node: "n1"}},
		}},
		{"remove service account", account(&wirepb.ServiceAccountKey{Namespace: "shop"})},
		{"remove service account /web", account(&wirepb.ServiceAccountKey{Name: "web"})},
		{"endpoint", &wirepb.Event{Event: &wirepb.Event_EndpointUpdate{}}},
		{"node", &wirepb.Event{Event: &wirepb.Event_NodeUpdate{}}},
		{"in-sync", &wirepb.Event{Event: &wirepb.Event_InSync{}}},
	} {
		require.Equal(t, c.want, nameOf(t, c.message))
	}
}
