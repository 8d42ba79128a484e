// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/internal/codec"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/policy"
)

// malformed is a message that Decode refuses.
type malformed struct {
	want    string // after "codec: "
	message *wirepb.Event
}

// mapped is an IPv4 address in IPv6 form.
func mapped() []byte { return []byte{10: 0xff, 11: 0xff, 12: 10, 15: 1} }

func prefix(length uint32, address ...byte) *wirepb.Prefix {
	return &wirepb.Prefix{Address: address, Length: length}
}

func malformedRules() []malformed {
	with := func(r *wirepb.Rule) *wirepb.Event {
		if r.GetAction() == 0 {
			r.Action = wirepb.Action_ACTION_ALLOW
		}
		return &wirepb.Event{Event: &wirepb.Event_PolicyUpdate{PolicyUpdate: &wirepb.PolicyUpdate{
			Key:     &wirepb.Key{Kind: "Policy", Namespace: "shop", Name: "web"},
			Ingress: []*wirepb.Rule{{Action: 1}, r},
		}}}
	}
	source := func(m *wirepb.Match) *wirepb.Event { return with(&wirepb.Rule{Source: m}) }
	ports := func(first, last uint32) *wirepb.Event {
		return source(&wirepb.Match{NotPorts: []*wirepb.PortRange{{First: first, Last: last}}})
	}
	code := uint32(256)
	list := []malformed{
		{"action: unknown value 5", with(&wirepb.Rule{Action: 5})},
		{"action: unknown value -1", with(&wirepb.Rule{Action: -1})},
		{"ip_version: 5, want 4 or 6", with(&wirepb.Rule{IpVersion: 5})},
		{"protocol: 256, want 0 to 255", with(&wirepb.Rule{Protocol: 256})},
		{"not_protocol: 256, want 0 to 255", with(&wirepb.Rule{NotProtocol: 256})},
		{"icmp.type: 255, want 0 to 254", with(&wirepb.Rule{Icmp: &wirepb.ICMP{Type: 255}})},
		{"not_icmp.code: 256, want 0 to 255", with(&wirepb.Rule{NotIcmp: &wirepb.ICMP{Code: &code}})},
		{"dscp[1]: 64, want 0 to 63", with(&wirepb.Rule{Dscp: []byte{63, 64}})},
		{"not_dscp[0]: 255, want 0 to 63", with(&wirepb.Rule{NotDscp: []byte{255}})},
		{
			"source.nets[0]: prefix length 40 of an IPv4 address",
			source(&wirepb.Match{Nets: []*wirepb.Prefix{prefix(40, 10, 0, 0, 0)}}),
		},
		{
			"source.nets[1]: prefix 10.0.0.1/8 has host bits",
			source(&wirepb.Match{Nets: []*wirepb.Prefix{prefix(8, 10, 0, 0, 0), prefix(8, 10, 0, 0, 1)}}),
		},
		{
			"source.not_nets[0]: prefix length 129 of an IPv6 address",
			source(&wirepb.Match{NotNets: []*wirepb.Prefix{prefix(129, make([]byte, 16)...)}}),
		},
		{
			"source.not_nets[0]: address of 0 bytes, want 4 or 16",
			source(&wirepb.Match{NotNets: []*wirepb.Prefix{nil}}),
		},
		{
			"source.nets[0]: address ::ffff:10.0.0.1 is IPv4 in IPv6 form",
			source(&wirepb.Match{Nets: []*wirepb.Prefix{prefix(128, mapped()...)}}),
		},
		{"source.sets[0]: empty", source(&wirepb.Match{Sets: []string{""}})},
		{"source.not_sets[1]: empty", source(&wirepb.Match{NotSets: []string{"s:a", ""}})},
		{"source.port_sets[0]: empty", source(&wirepb.Match{PortSets: []string{""}})},
		{"source.not_port_sets[0]: empty", source(&wirepb.Match{NotPortSets: []string{""}})},
		{"source.not_ports[0].first: 0, want 1 to 65535", ports(0, 80)},
		{"source.not_ports[0].last: 65536, want 1 to 65535", ports(80, 65536)},
		{"source.not_ports[0]: range from 81 to 80", ports(81, 80)},
		{
			"destination.ports[0].first: 70000, want 1 to 65535",
			with(&wirepb.Rule{Destination: &wirepb.Match{Ports: []*wirepb.PortRange{{First: 70000, Last: 70000}}}}),
		},
	}
	for i := range list {
		list[i].want = "policy Policy/shop/web: ingress[1]." + list[i].want
	}
	return list
}

func malformedSets() []malformed {
	const nets, ports = wirepb.IPSetType_IP_SET_TYPE_NETS, wirepb.IPSetType_IP_SET_TYPE_PORTS
	set := func(typ wirepb.IPSetType, m *wirepb.Members) *wirepb.Event {
		return &wirepb.Event{Event: &wirepb.Event_IpSetUpdate{
			IpSetUpdate: &wirepb.IPSetUpdate{Id: "s:a", Type: typ, Members: m},
		}}
	}
	delta := func(added *wirepb.Members) *wirepb.Event {
		return &wirepb.Event{Event: &wirepb.Event_IpSetDelta{
			IpSetDelta: &wirepb.IPSetDelta{Id: "s:a", Added: added},
		}}
	}
	return []malformed{
		{"ipset s:a: type: unknown value 0", set(0, nil)},
		{"ipset s:a: type: unknown value 3", set(3, nil)},
		{"ipset: id: empty", &wirepb.Event{Event: &wirepb.Event_IpSetDelta{}}},
		{"remove ipset: id: empty", &wirepb.Event{Event: &wirepb.Event_IpSetRemove{}}},
		{
			"ipset s:a: members.ipv4_prefixes: 4 bytes, want a multiple of 5",
			set(nets, &wirepb.Members{Ipv4Prefixes: make([]byte, 4)}),
		},
		{
			"ipset s:a: members.ipv6_prefixes: 18 bytes, want a multiple of 17",
			set(nets, &wirepb.Members{Ipv6Prefixes: make([]byte, 18)}),
		},
		{
			"ipset s:a: members.ipv4_ports: 8 bytes, want a multiple of 7",
			set(ports, &wirepb.Members{Ipv4Ports: make([]byte, 8)}),
		},
		{
			"ipset s:a: added.ipv6_ports: 1 bytes, want a multiple of 19",
			delta(&wirepb.Members{Ipv6Ports: make([]byte, 1)}),
		},
		{
			"ipset s:a: members.ipv4_prefixes[1]: prefix 10.0.0.1/8 has host bits",
			set(nets, &wirepb.Members{Ipv4Prefixes: []byte{10, 0, 0, 0, 8, 10, 0, 0, 1, 8}}),
		},
		{
			"ipset s:a: members.ipv4_prefixes[0]: prefix length 33 of an IPv4 address",
			set(nets, &wirepb.Members{Ipv4Prefixes: []byte{10, 0, 0, 1, 33}}),
		},
		{
			"ipset s:a: members.ipv6_prefixes[0]: address ::ffff:10.0.0.1 is IPv4 in IPv6 form",
			set(nets, &wirepb.Members{Ipv6Prefixes: append(mapped(), 128)}),
		},
		{
			"ipset s:a: members.ipv4_ports[0].protocol: 0, want 1 to 255",
			set(ports, &wirepb.Members{Ipv4Ports: []byte{10, 0, 0, 1, 0, 0, 80}}),
		},
		{
			"ipset s:a: added.ipv4_ports[0].port: 0, want 1 to 65535",
			delta(&wirepb.Members{Ipv4Ports: []byte{10, 0, 0, 1, 6, 0, 0}}),
		},
		{
			"ipset s:a: members: ports in a set of type nets",
			set(nets, &wirepb.Members{Ipv4Ports: []byte{10, 0, 0, 1, 6, 0, 80}}),
		},
		{
			"ipset s:a: members: prefixes in a set of type ports",
			set(ports, &wirepb.Members{Ipv4Prefixes: []byte{10, 0, 0, 0, 8}}),
		},
	}
}

func malformedEndpoints() []malformed {
	key := &wirepb.Key{Kind: "WorkloadEndpoint", Name: "e"}
	endpoint := func(e *wirepb.EndpointUpdate) *wirepb.Event {
		e.Key = key
		return &wirepb.Event{Event: &wirepb.Event_EndpointUpdate{EndpointUpdate: e}}
	}
	tier := func(t *wirepb.TierPolicies) *wirepb.Event {
		return &wirepb.Event{Event: &wirepb.Event_HostEndpointUpdate{HostEndpointUpdate: &wirepb.HostEndpointUpdate{
			Key: &wirepb.Key{Kind: "HostEndpoint", Name: "h"}, PreDnatIngress: []*wirepb.TierPolicies{t},
		}}}
	}
	return []malformed{
		{"endpoint: key.kind: empty", &wirepb.Event{Event: &wirepb.Event_EndpointUpdate{}}},
		{"remove endpoint: key.kind: empty", &wirepb.Event{Event: &wirepb.Event_EndpointRemove{}}},
		{"remove host endpoint: key.name: empty", &wirepb.Event{Event: &wirepb.Event_HostEndpointRemove{
			HostEndpointRemove: &wirepb.Key{Kind: "HostEndpoint"},
		}}},
		{
			"endpoint WorkloadEndpoint/e: addresses[1]: address of 5 bytes, want 4 or 16",
			endpoint(&wirepb.EndpointUpdate{Addresses: [][]byte{{10, 0, 0, 1}, {10, 0, 0, 1, 0}}}),
		},
		{
			"endpoint WorkloadEndpoint/e: profiles[0]: empty",
			endpoint(&wirepb.EndpointUpdate{Profiles: []string{""}}),
		},
		{
			"endpoint WorkloadEndpoint/e: floating[0].external: address of 0 bytes, want 4 or 16",
			endpoint(&wirepb.EndpointUpdate{Floating: []*wirepb.FloatingAddress{{Internal: []byte{10, 0, 0, 1}}}}),
		},
		{
			"endpoint WorkloadEndpoint/e: allowed_sources[0]: prefix 10.0.0.1/31 has host bits",
			endpoint(&wirepb.EndpointUpdate{AllowedSources: []*wirepb.Prefix{prefix(31, 10, 0, 0, 1)}}),
		},
		{
			"host endpoint HostEndpoint/h: pre_dnat_ingress[0].default_action: Allow, want Deny or Pass",
			tier(&wirepb.TierPolicies{DefaultAction: wirepb.Action_ACTION_ALLOW}),
		},
		{
			"host endpoint HostEndpoint/h: pre_dnat_ingress[0].default_action: unknown value 0",
			tier(&wirepb.TierPolicies{}),
		},
		{
			"host endpoint HostEndpoint/h: pre_dnat_ingress[0].policies[0].name: empty",
			tier(&wirepb.TierPolicies{DefaultAction: 3, Policies: []*wirepb.Key{{Kind: "Policy"}}}),
		},
	}
}

func malformedNetwork() []malformed {
	route := func(r *wirepb.Route) *wirepb.Event {
		r.Destination = prefix(16, 10, 1, 0, 0)
		return &wirepb.Event{Event: &wirepb.Event_RouteUpdate{RouteUpdate: r}}
	}
	tunnel := func(k *wirepb.TunnelKey) *wirepb.Event {
		return &wirepb.Event{Event: &wirepb.Event_TunnelRemove{TunnelRemove: k}}
	}
	pool := func(typ wirepb.PoolType) *wirepb.Event {
		return &wirepb.Event{Event: &wirepb.Event_PoolUpdate{
			PoolUpdate: &wirepb.Pool{Name: "p", Cidr: prefix(8, 10, 0, 0, 0), Type: typ},
		}}
	}
	return []malformed{
		{"route 10.1.0.0/16: type: unknown value 0", route(&wirepb.Route{})},
		{"route 10.1.0.0/16: type: unknown value 10", route(&wirepb.Route{Type: 10})},
		{"route 10.1.0.0/16: pool: unknown value 6", route(&wirepb.Route{Type: 1, Pool: 6})},
		{
			"route 10.1.0.0/16: node_address: address of 3 bytes, want 4 or 16",
			route(&wirepb.Route{Type: 1, NodeAddress: []byte{1, 2, 3}}),
		},
		{
			"remove route 10.0.0.1/33: destination: prefix length 33 of an IPv4 address",
			&wirepb.Event{Event: &wirepb.Event_RouteRemove{RouteRemove: prefix(33, 10, 0, 0, 1)}},
		},
		{
			"remove route: destination: address of 0 bytes, want 4 or 16",
			&wirepb.Event{Event: &wirepb.Event_RouteRemove{}},
		},
		{"remove tunnel: key.node: empty", tunnel(nil)},
		{
			"remove tunnel n/v0: key.ip_version: 0, want 4 or 6",
			tunnel(&wirepb.TunnelKey{Node: "n", Encapsulation: 1}),
		},
		{
			"remove tunnel n/v4: key.encapsulation: unknown value 3",
			tunnel(&wirepb.TunnelKey{Node: "n", IpVersion: 4, Encapsulation: 3}),
		},
		{
			"tunnel n/v4: parent_address: address of 0 bytes, want 4 or 16",
			&wirepb.Event{Event: &wirepb.Event_TunnelUpdate{TunnelUpdate: &wirepb.Tunnel{
				Key:     &wirepb.TunnelKey{Node: "n", IpVersion: 4, Encapsulation: 1},
				Address: []byte{10, 0, 0, 1},
			}}},
		},
		{"pool p: type: not set", pool(0)},
		{"pool p: type: unknown value 77", pool(77)},
		{"pool p: type: unknown value -1", pool(-1)},
	}
}

func malformedNames() []malformed {
	node := func(n *wirepb.Node) *wirepb.Event {
		n.Name = "n"
		return &wirepb.Event{Event: &wirepb.Event_NodeUpdate{NodeUpdate: n}}
	}
	service := func(p *wirepb.ServicePort) *wirepb.Event {
		return &wirepb.Event{Event: &wirepb.Event_ServiceUpdate{ServiceUpdate: &wirepb.Service{
			Key:   &wirepb.Key{Kind: "ServiceBackends", Namespace: "shop", Name: "web-1"},
			Ports: []*wirepb.ServicePort{p},
		}}}
	}
	return []malformed{
		{"remove node: name: empty", &wirepb.Event{Event: &wirepb.Event_NodeRemove{}}},
		{"remove pool: name: empty", &wirepb.Event{Event: &wirepb.Event_PoolRemove{}}},
		{"profile: name: empty", &wirepb.Event{Event: &wirepb.Event_ProfileUpdate{}}},
		{"remove profile: name: empty", &wirepb.Event{Event: &wirepb.Event_ProfileRemove{}}},
		{"namespace: name: empty", &wirepb.Event{Event: &wirepb.Event_NamespaceUpdate{}}},
		{"remove namespace: name: empty", &wirepb.Event{Event: &wirepb.Event_NamespaceRemove{}}},
		{"remove service: key.kind: empty", &wirepb.Event{Event: &wirepb.Event_ServiceRemove{}}},
		{
			"service account: key.namespace: empty",
			&wirepb.Event{Event: &wirepb.Event_ServiceAccountUpdate{}},
		},
		{
			"remove service account: key.name: empty",
			&wirepb.Event{Event: &wirepb.Event_ServiceAccountRemove{
				ServiceAccountRemove: &wirepb.ServiceAccountKey{Namespace: "shop"},
			}},
		},
		{
			"node n: addresses[0]: prefix length 33 of an IPv4 address",
			node(&wirepb.Node{Addresses: []*wirepb.Prefix{prefix(33, 10, 0, 0, 1)}}),
		},
		{
			"node n: wireguard_addresses[0]: address ::ffff:10.0.0.1 is IPv4 in IPv6 form",
			node(&wirepb.Node{WireguardAddresses: [][]byte{mapped()}}),
		},
		{
			"node n: wireguard_keys[0].port: 65536, want 0 to 65535",
			node(&wirepb.Node{WireguardKeys: []*wirepb.WireguardKey{{Port: 65536}}}),
		},
		{
			"service ServiceBackends/shop/web-1: ports[0].protocol: 0, want 1 to 255",
			service(&wirepb.ServicePort{Port: 80}),
		},
		{
			"service ServiceBackends/shop/web-1: ports[0].port: 65536, want 1 to 65535",
			service(&wirepb.ServicePort{Protocol: 6, Port: 65536}),
		},
	}
}

// TestDecodeRefuses compares the whole text of the errors: they name the object and the field.
func TestDecodeRefuses(t *testing.T) {
	var all []malformed
	for _, list := range [][]malformed{
		malformedRules(), malformedSets(), malformedEndpoints(), malformedNetwork(), malformedNames(),
	} {
		all = append(all, list...)
	}
	for _, m := range all {
		e, err := codec.Decode(m.message)
		require.EqualError(t, err, "codec: "+m.want)
		require.Nil(t, e)
	}
}

// TestDecodeRefusesNoContent: a message without known content is refused, also one of a newer
// server.
func TestDecodeRefusesNoContent(t *testing.T) {
	newer := &wirepb.Event{}
	require.NoError(t, proto.Unmarshal([]byte{0xfa, 0x01, 0x00}, newer), "field 31 of 0 bytes")
	for _, m := range []*wirepb.Event{nil, {}, newer, {Event: (*wirepb.Event_PolicyUpdate)(nil)}} {
		_, err := codec.Decode(m)
		require.EqualError(t, err, "codec: message without known content")
	}
}

// TestErrorsAreOneLine: a name in an error cannot begin a line of a log, and is not long.
func TestErrorsAreOneLine(t *testing.T) {
	set := func(id string) *wirepb.Event {
		return &wirepb.Event{Event: &wirepb.Event_IpSetUpdate{IpSetUpdate: &wirepb.IPSetUpdate{Id: id}}}
	}
	_, err := codec.Decode(set("a\nb"))
	require.EqualError(t, err, `codec: ipset "a\nb": type: unknown value 0`)
	_, err = codec.Decode(set(strings.Repeat("ä", 1000)))
	require.EqualError(t, err, "codec: ipset "+strings.Repeat("ä", 128)+"...: type: unknown value 0")
}

// foreignEvent has the methods of an event, but is not a type of package dataplane.
type foreignEvent struct{ dataplane.Event }

func TestEncodeRefusesNoObject(t *testing.T) {
	for _, tt := range []struct {
		event dataplane.Event
		want  string
	}{
		{nil, "codec: event <nil> is nil"},
		{(*dataplane.PolicyUpdate)(nil), "codec: event *dataplane.PolicyUpdate is nil"},
		{(*dataplane.InSync)(nil), "codec: event *dataplane.InSync is nil"},
		{foreignEvent{}, "codec: event codec_test.foreignEvent is unknown"},
		{&dataplane.PolicyUpdate{}, "codec: event *dataplane.PolicyUpdate has no object"},
		{&dataplane.ProfileUpdate{}, "codec: event *dataplane.ProfileUpdate has no object"},
		{&dataplane.EndpointUpdate{}, "codec: event *dataplane.EndpointUpdate has no object"},
		{&dataplane.HostEndpointUpdate{}, "codec: event *dataplane.HostEndpointUpdate has no object"},
		{&dataplane.RouteUpdate{}, "codec: event *dataplane.RouteUpdate has no object"},
		{&dataplane.TunnelUpdate{}, "codec: event *dataplane.TunnelUpdate has no object"},
		{&dataplane.PoolUpdate{}, "codec: event *dataplane.PoolUpdate has no object"},
		{&dataplane.NodeUpdate{}, "codec: event *dataplane.NodeUpdate has no object"},
		{&dataplane.ServiceUpdate{}, "codec: event *dataplane.ServiceUpdate has no object"},
		{&dataplane.NamespaceUpdate{}, "codec: event *dataplane.NamespaceUpdate has no object"},
		{&dataplane.ServiceAccountUpdate{}, "codec: event *dataplane.ServiceAccountUpdate has no object"},
	} {
		_, err := codec.Encode(tt.event)
		require.EqualError(t, err, tt.want)
	}
}

// TestEncodeRefusesLoss: a value that the schema cannot express is an error. Without the value, a
// rule could match more packets.
func TestEncodeRefusesLoss(t *testing.T) {
	rule := func(change func(*dataplane.Rule)) dataplane.Event {
		r := dataplane.Rule{Action: policy.Allow, Protocol: policy.ProtocolICMP}
		change(&r)
		return &dataplane.ProfileUpdate{Name: "p", Profile: &dataplane.Profile{Egress: []dataplane.Rule{r}}}
	}
	icmp := func(typ int, code int) dataplane.Event {
		return rule(func(r *dataplane.Rule) { r.ICMP = &policy.ICMP{Type: &typ, Code: &code} })
	}
	address := func(a netip.Addr) dataplane.Event {
		return &dataplane.EndpointUpdate{
			Key:      policy.Key{Kind: policy.KindWorkloadEndpoint, Name: "e"},
			Endpoint: &dataplane.Endpoint{Addresses: []netip.Addr{a}},
		}
	}
	set := func(typ dataplane.IPSetType, m dataplane.Member) dataplane.Event {
		return &dataplane.IPSetUpdate{ID: "s:a", Type: typ, Members: []dataplane.Member{m}}
	}
	net, single := netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("10.0.0.1/32")
	for _, tt := range []struct {
		event dataplane.Event
		want  string // after "codec: "
	}{
		{rule(func(r *dataplane.Rule) { r.Action = "Reject" }), `profile p: egress[0].action: unknown action "Reject"`},
		{
			rule(func(r *dataplane.Rule) { r.IPVersion = 1<<32 + 4 }),
			"profile p: egress[0].ip_version: 4294967300, want 4 or 6",
		},
		{rule(func(r *dataplane.Rule) { r.NotICMP = &policy.ICMP{} }), "profile p: egress[0].not_icmp: no type"},
		{icmp(1<<32+8, 0), "profile p: egress[0].icmp: type 4294967304, want 0 to 254"},
		{icmp(-1, 0), "profile p: egress[0].icmp: type -1, want 0 to 254"},
		{icmp(8, 256), "profile p: egress[0].icmp: code 256, want 0 to 255"},
		{
			rule(func(r *dataplane.Rule) { r.Destination.Ports = []policy.Port{policy.PortName("http")} }),
			`profile p: egress[0].destination.ports[0]: port "http" has a name`,
		},
		{
			rule(func(r *dataplane.Rule) { r.Source.NotNets = make([]netip.Prefix, 1) }),
			"profile p: egress[0].source.not_nets[0]: no prefix",
		},
		{address(netip.Addr{}), "endpoint WorkloadEndpoint/e: addresses[0]: no address"},
		{
			address(netip.MustParseAddr("fe80::1%eth0")),
			"endpoint WorkloadEndpoint/e: addresses[0]: address fe80::1%eth0 has a zone",
		},
		{
			address(netip.MustParseAddr("::ffff:10.0.0.1")),
			"endpoint WorkloadEndpoint/e: addresses[0]: address ::ffff:10.0.0.1 is IPv4 in IPv6 form",
		},
		{set(2, dataplane.Member{Prefix: net}), "ipset s:a: type: unknown value 2"},
		{set(dataplane.IPSetNets, dataplane.Member{}), "ipset s:a: members[0]: no prefix"},
		{
			set(dataplane.IPSetNets, dataplane.Member{Prefix: netip.MustParsePrefix("10.0.0.1/24")}),
			"ipset s:a: members[0]: prefix 10.0.0.1/24 has host bits",
		},
		{
			set(dataplane.IPSetNets, dataplane.Member{Prefix: netip.MustParsePrefix("::ffff:10.0.0.1/128")}),
			"ipset s:a: members[0]: address ::ffff:10.0.0.1 is IPv4 in IPv6 form",
		},
		{
			set(dataplane.IPSetPorts, dataplane.Member{Prefix: single, Port: 80}),
			"ipset s:a: members[0]: port 80 without a protocol",
		},
		{
			set(dataplane.IPSetPorts, dataplane.Member{Prefix: single, Protocol: policy.ProtocolTCP}),
			"ipset s:a: members[0]: protocol TCP without a port",
		},
		{
			set(dataplane.IPSetNets, dataplane.Member{Prefix: net, Protocol: policy.ProtocolTCP}),
			"ipset s:a: members[0]: member 10.0.0.0,tcp:0 of a set of type nets",
		},
		{
			set(dataplane.IPSetPorts, dataplane.Member{Prefix: net}),
			"ipset s:a: members[0]: member 10.0.0.0/24 of a set of type ports",
		},
		{
			set(dataplane.IPSetPorts, dataplane.Member{Prefix: net, Protocol: policy.ProtocolTCP, Port: 80}),
			"ipset s:a: members[0]: prefix 10.0.0.0/24 with a port",
		},
		{
			&dataplane.TunnelRemove{Key: dataplane.TunnelKey{Node: "n", IPVersion: 4, Encapsulation: 2}},
			"remove tunnel n/v4: key.encapsulation: unknown value 2",
		},
		{
			&dataplane.PoolUpdate{Pool: &dataplane.Pool{Name: "p", CIDR: net, Type: 6}},
			"pool p: type: unknown value 6",
		},
		{
			&dataplane.RouteUpdate{Route: &dataplane.Route{Dst: net, Type: 9}},
			"route 10.0.0.0/24: type: unknown value 9",
		},
	} {
		_, err := codec.Encode(tt.event)
		require.EqualError(t, err, "codec: "+tt.want)
		if s, ok := tt.event.(*dataplane.IPSetUpdate); ok && s.Type <= dataplane.IPSetPorts {
			require.EqualError(t, codec.CheckMembers(s.ID, s.Type, s.Members), "codec: "+tt.want)
		}
	}
}
