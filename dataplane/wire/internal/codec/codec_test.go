// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/codec"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/internal/fieldwalk"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/worlds"
)

// filled returns an event of each type with all fields set.
func filled() []dataplane.Event {
	events := []dataplane.Event{
		&dataplane.IPSetUpdate{}, &dataplane.IPSetDelta{}, &dataplane.PolicyUpdate{}, &dataplane.ProfileUpdate{},
		&dataplane.EndpointUpdate{}, &dataplane.HostEndpointUpdate{}, &dataplane.EndpointRemove{},
		&dataplane.HostEndpointRemove{}, &dataplane.ProfileRemove{}, &dataplane.PolicyRemove{},
		&dataplane.IPSetRemove{}, &dataplane.RouteRemove{}, &dataplane.TunnelRemove{}, &dataplane.TunnelUpdate{},
		&dataplane.RouteUpdate{},
		&dataplane.NodeUpdate{}, &dataplane.NodeRemove{}, &dataplane.PoolUpdate{}, &dataplane.PoolRemove{},
		&dataplane.ServiceUpdate{}, &dataplane.ServiceRemove{}, &dataplane.NamespaceUpdate{},
		&dataplane.NamespaceRemove{}, &dataplane.ServiceAccountUpdate{}, &dataplane.ServiceAccountRemove{},
		&dataplane.InSync{},
	}
	member := dataplane.Member{
		Prefix: netip.MustParsePrefix("10.1.0.1/32"), Protocol: policy.ProtocolTCP, Port: 80,
	}
	for _, e := range events {
		fieldwalk.Fill(reflect.ValueOf(e).Elem(),
			policy.PortRange(80, 90), policy.Pass, member, dataplane.IPSetPorts, dataplane.PoolIPIP,
			dataplane.EncapIPIP)
		switch e := e.(type) {
		case *dataplane.PolicyUpdate:
			fixRules(e.Policy.Ingress, e.Policy.Egress)
		case *dataplane.ProfileUpdate:
			fixRules(e.Profile.Ingress, e.Profile.Egress)
		case *dataplane.TunnelUpdate:
			e.Tunnel.IPVersion = 6
		case *dataplane.TunnelRemove:
			e.Key.IPVersion = 6
		}
	}
	return events
}

// fixRules makes the values of rules ones that exist.
func fixRules(lists ...[]dataplane.Rule) {
	for _, rules := range lists {
		for i := range rules {
			rules[i].IPVersion = 6
		}
	}
}

// roundTrip encodes an event, sends it through bytes, and decodes it.
func roundTrip(t testing.TB, e dataplane.Event) dataplane.Event {
	t.Helper()
	m, err := codec.Encode(e)
	require.NoError(t, err)
	data, err := proto.Marshal(m)
	require.NoError(t, err)
	again := &wirepb.Event{}
	require.NoError(t, proto.Unmarshal(data, again))
	back, err := codec.Decode(again)
	require.NoError(t, err)
	return back
}

// Every field of every event arrives, and so does every change of one.
func TestEveryField(t *testing.T) {
	for _, e := range filled() {
		require.Equal(t, e, roundTrip(t, e))
	}
}

// The events of random worlds arrive as they are.
func TestRandomWorlds(t *testing.T) {
	for seed := range uint64(30) {
		gen := worlds.New(worlds.Config{Seed: seed})
		graph, err := calcgraph.New(calcgraph.Config{Node: worlds.Node})
		require.NoError(t, err)
		graph.InSync()
		for range 5 {
			for range 30 {
				graph.Update(gen.Update())
			}
			for _, e := range graph.Flush().Events {
				back := roundTrip(t, e)
				require.Equal(t, e.String(), back.String())
				require.Equal(t, fmt.Sprintf("%T", e), fmt.Sprintf("%T", back))
			}
		}
	}
}

// Members of both families and types keep their order.
func TestMembers(t *testing.T) {
	nets := &dataplane.IPSetUpdate{ID: "s:a"}
	for _, p := range []string{"10.0.0.0/8", "10.0.0.1/32", "192.0.2.0/24", "fd00::/8", "fd00::1/128"} {
		nets.Members = append(nets.Members, dataplane.Member{Prefix: netip.MustParsePrefix(p)})
	}
	require.Equal(t, nets, roundTrip(t, nets))
	ports := &dataplane.IPSetDelta{ID: "p:a", Added: []dataplane.Member{
		{Prefix: netip.MustParsePrefix("10.0.0.1/32"), Protocol: 6, Port: 80},
		{Prefix: netip.MustParsePrefix("fd00::1/128"), Protocol: 132, Port: 65535},
	}}
	require.Equal(t, ports, roundTrip(t, ports))
	m, err := codec.Encode(nets)
	require.NoError(t, err)
	require.Equal(t, []byte{10, 0, 0, 0, 8}, m.GetIpSetUpdate().GetMembers().GetIpv4Prefixes()[:5])
}

// What has no object cannot be encoded.
func TestEncodeErrors(t *testing.T) {
	for _, e := range []dataplane.Event{
		nil, &dataplane.PolicyUpdate{}, &dataplane.ProfileUpdate{}, &dataplane.EndpointUpdate{},
		&dataplane.HostEndpointUpdate{}, &dataplane.RouteUpdate{}, &dataplane.TunnelUpdate{}, &dataplane.PoolUpdate{},
		&dataplane.NodeUpdate{}, &dataplane.ServiceUpdate{}, &dataplane.NamespaceUpdate{},
		&dataplane.ServiceAccountUpdate{},
	} {
		_, err := codec.Encode(e)
		require.ErrorContains(t, err, "is unknown or has no object")
	}
}

// What a message must not have is refused, with the name of the field.
func TestDecodeErrors(t *testing.T) {
	policyWith := func(r *wirepb.Rule) *wirepb.Event {
		r.Action = max(r.GetAction(), wirepb.Action_ACTION_ALLOW)
		return &wirepb.Event{Event: &wirepb.Event_PolicyUpdate{PolicyUpdate: &wirepb.PolicyUpdate{
			Key: &wirepb.Key{Kind: "Policy", Name: "p"}, Ingress: []*wirepb.Rule{{Action: 1}, r},
		}}}
	}
	route := func(p *wirepb.Prefix) *wirepb.Event {
		return &wirepb.Event{Event: &wirepb.Event_RouteRemove{RouteRemove: p}}
	}
	set := func(m *wirepb.Members) *wirepb.Event {
		return &wirepb.Event{Event: &wirepb.Event_IpSetUpdate{IpSetUpdate: &wirepb.IPSetUpdate{
			Id: "s:a", Type: wirepb.IPSetType_IP_SET_TYPE_NETS, Members: m,
		}}}
	}
	mapped := append(make([]byte, 10), 0xff, 0xff, 10, 0, 0, 1)
	for want, m := range map[string]*wirepb.Event{
		"codec: no content that is known":                                   {},
		"codec: policy_update: ingress[1].action: unknown value 9":          policyWith(&wirepb.Rule{Action: 9}),
		"codec: policy_update: ingress[1].ip_version: 5, want 4, 6 or none": policyWith(&wirepb.Rule{IpVersion: 5}),
		"codec: policy_update: ingress[1].protocol: 256, at most 255":       policyWith(&wirepb.Rule{Protocol: 256}),
		"codec: policy_update: ingress[1].dscp: 64, at most 63": policyWith(
			&wirepb.Rule{Dscp: []byte{64}},
		),
		"codec: policy_update: ingress[1].icmp.type: 256, at most 255": policyWith(
			&wirepb.Rule{Icmp: &wirepb.ICMP{Type: 256}},
		),
		"codec: policy_update: ingress[1].source.sets[0]: empty": policyWith(
			&wirepb.Rule{Source: &wirepb.Match{Sets: []string{""}}},
		),
		"codec: policy_update: ingress[1].destination.ports[0].last: 65536, at most 65535": policyWith(
			&wirepb.Rule{Destination: &wirepb.Match{Ports: []*wirepb.PortRange{{First: 1, Last: 65536}}}}),
		"codec: policy_update: ingress[1].source.not_ports[0]: ends at 1, before its beginning 2": policyWith(
			&wirepb.Rule{Source: &wirepb.Match{NotPorts: []*wirepb.PortRange{{First: 2, Last: 1}}}}),
		"codec: route_remove: destination: no IPv4 or IPv6 address: 01 02": route(
			&wirepb.Prefix{Address: []byte{1, 2}},
		),
		"codec: route_remove: destination: length 33 of a prefix of 10.0.0.1": route(
			&wirepb.Prefix{Address: []byte{10, 0, 0, 1}, Length: 33},
		),
		"codec: route_remove: destination: prefix 10.0.0.1/8 has host bits": route(
			&wirepb.Prefix{Address: []byte{10, 0, 0, 1}, Length: 8},
		),
		"codec: route_remove: destination: no IPv4 or IPv6 address: 00 00 00 00 00 00 00 00 00 00 ff ff 0a 00 00 01": route(
			&wirepb.Prefix{Address: mapped, Length: 128}),
		"codec: ip_set_update: members.ipv4_prefixes: 4 bytes, which is no multiple of 5": set(
			&wirepb.Members{Ipv4Prefixes: []byte{1, 2, 3, 4}},
		),
		"codec: ip_set_update: members.ipv4_prefixes[0]: not a member: 0a 00 00 01 08": set(
			&wirepb.Members{Ipv4Prefixes: []byte{10, 0, 0, 1, 8}},
		),
		"codec: ip_set_update: members.ipv4_prefixes[0]: not a member: 0a 00 00 01 21": set(
			&wirepb.Members{Ipv4Prefixes: []byte{10, 0, 0, 1, 33}},
		),
		"codec: node_remove: name: empty": {
			Event: &wirepb.Event_NodeRemove{},
		},
		"codec: endpoint_remove: key: a key without kind or name": {
			Event: &wirepb.Event_EndpointRemove{},
		},
		"codec: tunnel_remove: key.ip_version: 5, want 4 or 6": {Event: &wirepb.Event_TunnelRemove{
			TunnelRemove: &wirepb.TunnelKey{Node: "n", IpVersion: 5, Encapsulation: 1},
		}},
		"codec: pool_update: type: unknown value 77": {Event: &wirepb.Event_PoolUpdate{PoolUpdate: &wirepb.Pool{
			Name: "p", Cidr: &wirepb.Prefix{Address: []byte{10, 0, 0, 0}, Length: 8}, Type: 77,
		}}},
		"codec: endpoint_update: ingress[0].default_action: Allow, want Deny or Pass": {
			Event: &wirepb.Event_EndpointUpdate{EndpointUpdate: &wirepb.EndpointUpdate{
				Key:     &wirepb.Key{Kind: "WorkloadEndpoint", Name: "e"},
				Ingress: []*wirepb.TierPolicies{{DefaultAction: 1}},
			}},
		},
	} {
		_, err := codec.Decode(m)
		require.EqualError(t, err, want)
	}
	_, err := codec.Decode(nil)
	require.Error(t, err)
}

// The status of objects arrives, and what a message cannot hold is cut.
func TestStatus(t *testing.T) {
	require.Nil(t, codec.EncodeStatus(nil))
	require.NoError(t, codec.DecodeStatus(nil))
	key := func(name string) policy.Key { return policy.Key{Kind: policy.KindWorkloadEndpoint, Name: name} }
	sent := []error{
		&dataplane.ApplyError{Backend: "b", Op: "add", Object: key("a"), Detail: "d", Err: errors.New("x")},
		&dataplane.ApplyError{Object: key("b"), Err: errors.New("y"), Down: true},
		&dataplane.ApplyError{Object: key("c"), Err: errors.New("z"), Pending: true},
	}
	require.Equal(t, errors.Join(sent...), codec.DecodeStatus(codec.EncodeStatus(errors.Join(sent...))))

	long := errors.New("\xff" + strings.Repeat("ä", 5000))
	list := codec.EncodeStatus(errors.Join(sent[0], long))
	require.Len(t, list, 2)
	_, err := proto.Marshal(list[0])
	require.NoError(t, err)
	require.LessOrEqual(t, len(list[0].GetReason()), 4096)
	back := codec.DecodeStatus(list)
	objects, general := dataplane.ApplyErrors(back)
	require.True(t, general)
	require.Len(t, objects, 1)

	require.NoError(t, codec.DecodeStatus([]*wirepb.ObjectStatus{
		{Status: wirepb.Status_STATUS_PROGRAMMED}, {Status: wirepb.Status_STATUS_GONE},
	}))
	_, general = dataplane.ApplyErrors(codec.DecodeStatus([]*wirepb.ObjectStatus{
		{Object: codec.EncodeKey(key("a"))}, {Object: codec.EncodeKey(key("a")), Status: 99},
	}))
	require.True(t, general, "a status that is not known may be a failure")
}

// Whatever bytes come: what decodes can be encoded, and is the same afterwards.
func FuzzDecode(f *testing.F) {
	for _, e := range filled() {
		m, err := codec.Encode(e)
		require.NoError(f, err)
		data, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := &wirepb.Event{}
		if proto.Unmarshal(data, m) != nil {
			return
		}
		if e, err := codec.Decode(m); err == nil {
			require.Equal(t, e, roundTrip(t, e))
		}
	})
}
