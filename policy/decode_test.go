// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"bytes"
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

func encode(t testing.TB, r policy.Resource) []byte {
	t.Helper()
	data, err := policy.Encode(r)
	require.NoError(t, err)
	return data
}

// fullPolicy has every field of a policy.
const fullPolicy = `{
	"kind": "Policy", "namespace": "shop", "name": "web", "tier": "security", "order": -1.5,
	"selector": "app == \"web\"", "serviceAccountSelector": "has(x)", "types": ["ingress", "Egress"],
	"ingress": [{
		"action": "Allow", "ipVersion": 4, "protocol": "tcp",
		"source": {
			"nets": ["12.1.0.0/8", "10.0.0.1", "::ffff:10.1.0.0/112", "fd00::1/64"], "notNets": ["12.0.0.1"],
			"selector": "a == 'b'", "notSelector": "has(c)", "namespaceSelector": "all()",
			"serviceAccounts": {"names": ["default"], "selector": "has(y)"}
		},
		"destination": {"ports": [80, "81", "8000:8999", "http"], "notPorts": [65535]},
		"metadata": {"annotations": {"why": "because"}}
	}],
	"egress": [
		{"action": "Deny", "notProtocol": 253},
		{"action": "Log", "protocol": "1", "icmp": {"type": 0, "code": 0}, "notICMP": {"type": 8}}
	],
	"performanceHints": ["AssumeNeededOnEveryNode"]
}`

func prefixes(list ...string) (nets policy.Nets) {
	for _, s := range list {
		nets = append(nets, netip.MustParsePrefix(s))
	}
	return nets
}

func TestDecodePolicy(t *testing.T) {
	got, err := policy.Decode([]byte(fullPolicy))
	require.NoError(t, err)
	require.NoError(t, got.Validate())
	require.Equal(t, &policy.Policy{
		Namespace: "shop", Name: "web", Tier: "security", Order: ptr(-1.5), Selector: `app == "web"`,
		ServiceAccountSelector: "has(x)", Types: []policy.Type{policy.Ingress, policy.Egress},
		Ingress: []policy.Rule{{
			Action: policy.Allow, IPVersion: 4, Protocol: policy.ProtocolTCP,
			Source: policy.EntityRule{
				// S71
				Nets:    prefixes("12.0.0.0/8", "10.0.0.1/32", "10.1.0.0/16", "fd00::/64"),
				NotNets: prefixes("12.0.0.1/32"), Selector: "a == 'b'", NotSelector: "has(c)",
				NamespaceSelector: "all()",
				ServiceAccounts:   &policy.ServiceAccounts{Names: []string{"default"}, Selector: "has(y)"},
			},
			Destination: policy.EntityRule{
				Ports: []policy.Port{
					policy.PortNumber(80), policy.PortNumber(81), policy.PortRange(8000, 8999), policy.PortName("http"),
				},
				NotPorts: []policy.Port{policy.PortNumber(65535)},
			},
			Metadata: &policy.RuleMetadata{Annotations: map[string]string{"why": "because"}},
		}},
		Egress: []policy.Rule{
			{Action: policy.Deny, NotProtocol: 253},
			{
				Action: policy.Log, Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{
					ICMP:    &policy.ICMP{Type: ptr(0), Code: ptr(0)},
					NotICMP: &policy.ICMP{Type: ptr(8)},
				},
			},
		},
		PerformanceHints: []policy.PerformanceHint{policy.AssumeNeededOnEveryNode},
	}, got)
}

func TestRoundTrip(t *testing.T) {
	for _, r := range good() {
		data := encode(t, r)
		back, err := policy.Decode(data)
		require.NoError(t, err)
		require.Equal(t, r, back)
		require.Equal(t, data, encode(t, back))
		require.True(t, bytes.HasPrefix(data, []byte(`{"kind":"`+string(r.Key().Kind)+`",`)))
	}
	staged := goodPolicy()
	staged.Staged = true
	require.Contains(t, string(encode(t, staged)), `{"kind":"StagedPolicy","namespace":"shop"`)
	require.NotContains(t, string(encode(t, staged)), "staged")
}

// The keys of WireGuard devices are a list of objects.
func TestDecodeWireguardKeys(t *testing.T) {
	const text = `{"kind":"Node","name":"n1","ipv6WireguardAddr":"fd00::1","wireguardKeys":[` +
		`{"publicKey":"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=","port":51820},` +
		`{"publicKey":"AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=","port":51821,"rotating":true}]}`
	got, err := policy.Decode([]byte(text))
	require.NoError(t, err)
	require.NoError(t, got.Validate())
	require.Equal(t, &policy.Node{
		Name: "n1", IPv6WireguardAddr: netip.MustParseAddr("fd00::1"), WireguardKeys: []policy.WireguardKey{
			{PublicKey: wireguardKey(1), Port: 51820}, {PublicKey: wireguardKey(2), Port: 51821, Rotating: true},
		},
	}, got)
	require.Equal(t, text, string(encode(t, got)))
}

// The network kinds as in their documentation, and the resources that they become.
func TestDecodeNetworkKinds(t *testing.T) {
	addr, prefix := netip.MustParseAddr, netip.MustParsePrefix
	for _, c := range []struct {
		in   string
		want policy.Resource
		out  string // the same as in, if empty
	}{
		{
			`{"kind":"HostEndpoint","name":"h","node":"n1","interfaceName":"*","expectedIPs":["192.168.0.5",` +
				`"::ffff:192.168.0.6"]}`,
			&policy.HostEndpoint{
				Name: "h", Node: "n1", InterfaceName: policy.AllInterfaces,
				ExpectedIPs: addrs("192.168.0.5", "192.168.0.6"),
			},
			`{"kind":"HostEndpoint","name":"h","node":"n1","interfaceName":"*","expectedIPs":["192.168.0.5",` +
				`"192.168.0.6"]}`,
		},
		{
			`{"kind":"IPPool","name":"p","cidr":"10.1.2.3/16","vxlanMode":"CrossSubnet","natOutgoing":true,` +
				`"disabled":false}`,
			&policy.IPPool{
				Name: "p", CIDR: prefix("10.1.0.0/16"), VXLANMode: policy.EncapCrossSubnet, NATOutgoing: true,
			},
			`{"kind":"IPPool","name":"p","cidr":"10.1.0.0/16","vxlanMode":"CrossSubnet","natOutgoing":true}`,
		},
		{
			`{"kind":"Block","cidr":"::ffff:10.0.1.0/122","node":"n1","borrowed":[{"address":"::ffff:10.0.1.5",` +
				`"node":"n2"}]}`,
			&policy.Block{CIDR: prefix("10.0.1.0/26"), Node: "n1", Borrowed: []policy.BorrowedAddress{
				{Address: addr("10.0.1.5"), Node: "n2"},
			}},
			`{"kind":"Block","cidr":"10.0.1.0/26","node":"n1","borrowed":[{"address":"10.0.1.5","node":"n2"}]}`,
		},
		{ // host bits stay, and an address without a length gets the full length: S161
			`{"kind":"Node","name":"n1","addresses":["192.168.0.5/24","192.168.0.6","::ffff:192.168.0.7/120",` +
				`"fd01::5/64"],"vxlanTunnelMACAddr":"66:3E:CA:A4:DB:65"}`,
			&policy.Node{
				Name: "n1", Addresses: prefixes("192.168.0.5/24", "192.168.0.6/32", "192.168.0.7/24", "fd01::5/64"),
				VXLANTunnelMACAddr: "66:3e:ca:a4:db:65",
			},
			`{"kind":"Node","name":"n1","addresses":["192.168.0.5/24","192.168.0.6/32","192.168.0.7/24",` +
				`"fd01::5/64"],"vxlanTunnelMACAddr":"66:3e:ca:a4:db:65"}`,
		},
		{
			`{"kind":"Node","name":"n1","ipv4VXLANTunnelAddr":"10.0.1.1","ipv6VXLANTunnelAddr":"fd00::1"}`,
			&policy.Node{Name: "n1", IPv4VXLANTunnelAddr: addr("10.0.1.1"), IPv6VXLANTunnelAddr: addr("fd00::1")}, "",
		},
		{
			`{"kind":"Node","name":"n1","ipv4IPIPTunnelAddr":"::ffff:10.0.1.1"}`,
			&policy.Node{Name: "n1", IPv4IPIPTunnelAddr: addr("10.0.1.1")},
			`{"kind":"Node","name":"n1","ipv4IPIPTunnelAddr":"10.0.1.1"}`,
		},
		{`{"kind":"Node","name":"n1"}`, &policy.Node{Name: "n1"}, ""},
		{
			`{"kind":"ServiceBackends","namespace":"shop","name":"web-1","service":"web",` +
				`"addresses":["10.0.1.5"],"ports":[{"protocol":"TCP","port":80}]}`,
			&policy.ServiceBackends{
				Namespace: "shop", Name: "web-1", Service: "web", Addresses: addrs("10.0.1.5"),
				Ports: []policy.ServicePort{{Protocol: policy.ProtocolTCP, Port: 80}},
			}, "",
		},
		{
			`{"kind":"WorkloadEndpoint","name":"w","node":"n1","interface":"cali0","addresses":["10.0.0.1"],` +
				`"ipNATs":[{"internalIP":"::ffff:10.0.0.1","externalIP":"192.0.2.1"}],` +
				`"allowSpoofedSourcePrefixes":["198.51.100.7/24"]}`,
			&policy.WorkloadEndpoint{
				Name: "w", Node: "n1", Interface: "cali0", Addresses: addrs("10.0.0.1"), IPNATs: []policy.IPNAT{
					{InternalIP: addr("10.0.0.1"), ExternalIP: addr("192.0.2.1")},
				},
				AllowSpoofedSourcePrefixes: prefixes("198.51.100.0/24"),
			},
			`{"kind":"WorkloadEndpoint","name":"w","node":"n1","interface":"cali0","addresses":["10.0.0.1"],` +
				`"ipNATs":[{"internalIP":"10.0.0.1","externalIP":"192.0.2.1"}],` +
				`"allowSpoofedSourcePrefixes":["198.51.100.0/24"]}`,
		},
		{
			`{"kind":"Policy","name":"p","ingress":[{"action":"Deny","source":{"services":{"name":"web",` +
				`"namespace":"shop"}},"destination":{}}],"applyOnForward":true,"preDNAT":true}`,
			&policy.Policy{Name: "p", ApplyOnForward: true, PreDNAT: true, Ingress: []policy.Rule{{
				Action: policy.Deny,
				Source: policy.EntityRule{Services: &policy.ServiceMatch{Name: "web", Namespace: "shop"}},
			}}},
			`{"kind":"Policy","name":"p","ingress":[{"action":"Deny","source":{"services":{"name":"web",` +
				`"namespace":"shop"}}}],"applyOnForward":true,"preDNAT":true}`,
		},
		{
			`{"kind":"StagedPolicy","name":"p","applyOnForward":true,"doNotTrack":true}`,
			&policy.Policy{Name: "p", Staged: true, ApplyOnForward: true, DoNotTrack: true}, "",
		},
	} {
		got, err := policy.Decode([]byte(c.in))
		require.NoError(t, err, c.in)
		require.NoError(t, got.Validate(), c.in)
		require.Equal(t, c.want, got)
		if c.out == "" {
			c.out = c.in
		}
		require.Equal(t, c.out, string(encode(t, got)))
	}
}

// Empty lists and maps equal missing ones.
func TestDecodeEmpty(t *testing.T) {
	got, err := policy.Decode([]byte(`{"kind":"Policy","name":"p","types":[],"ingress":[{"action":"Deny",` +
		`"source":{"nets":[],"ports":[]},"metadata":{}}]}`))
	require.NoError(t, err)
	require.Equal(t,
		&policy.Policy{Name: "p", Ingress: []policy.Rule{{Action: policy.Deny, Metadata: &policy.RuleMetadata{}}}}, got)
	got, err = policy.Decode([]byte(`{"kind":"NetworkSet","name":"s","labels":{},"nets":[]}`))
	require.NoError(t, err)
	require.Equal(t, &policy.NetworkSet{Name: "s"}, got)
}

// undecodable is a text that Decode refuses, with a part of the error.
type undecodable struct{ in, want string }

func requireUndecodable(t *testing.T, texts []undecodable) {
	t.Helper()
	for _, c := range texts {
		got, err := policy.Decode([]byte(c.in))
		require.Nil(t, got, c.in)
		var bad *policy.DecodeError
		require.ErrorAs(t, err, &bad, c.in)
		require.NotEmpty(t, bad.Problems)
		require.ErrorContains(t, err, c.want, c.in)
	}
}

func TestDecodeErrors(t *testing.T) {
	requireUndecodable(t, []undecodable{
		{``, "decode: line 1, column 1: unexpected end"},
		{"{\n \"kind\": \"Policy\",\n \"name\": x}", "line 3, column 10: invalid character 'x'"},
		{`{"kind":"Policy","name":"p"} {}`, "invalid character '{' after top-level value"},
		{`{"kind":"Policy","name":"p"}x`, "after top-level value"},
		{"{\"kind\":\"Policy\",\"name\":\"\xff\"}", "UTF-8"},
		{`{"kind":"Policy","name":"p","selector":"a == '\ud800'"}`, "Policy/p: selector: the text is damaged"},
		{`[]`, "want an object, not a list"},
		{`null`, "want an object, not null"},
		{`{}`, "kind: required"},
		{`{"kind":null}`, "kind: want a string, not null"},
		{`{"kind":"policy","name":"p"}`, `decode policy/p: kind: unknown kind "policy"`},
		{`{"kind":"Ship","namespace":"a","name":"p"}`, `decode Ship/a/p: kind: unknown kind "Ship"`},
		{`{"kind":"HostEndpoint","namespace":"a","name":"p"}`, `decode HostEndpoint/a/p: namespace: unknown field`},
	})
}

func TestDecodeNetworkErrors(t *testing.T) {
	requireUndecodable(t, []undecodable{
		{
			`{"kind":"HostEndpoint","name":"p","expectedIPs":["10.0.0.1/24"]}`,
			`expectedIPs[0]: "10.0.0.1/24" is not an IP address`,
		},
		{`{"kind":"HostEndpoint","name":"p","interfaceName":null}`, `interfaceName: want a string, not null`},
		{`{"kind":"IPPool","name":"p","cidr":null}`, `IPPool/p: cidr: want a string, not null`},
		{`{"kind":"IPPool","name":"p","cidr":"10.0.0.0/33"}`, `cidr: parse net "10.0.0.0/33"`},
		{`{"kind":"IPPool","name":"p","CIDR":"10.0.0.0/8"}`, `CIDR: unknown field: want "cidr"`},
		{
			`{"kind":"IPPool","name":"p","cidr":"10.0.0.0/8","GREMode":"Always"}`,
			`GREMode: unknown field: GRE is not supported, use vxlanMode or ipipMode`,
		},
		{`{"kind":"Tier","name":"t","greMode":"Always"}`, `Tier/t: greMode: unknown field`},
		{`{"kind":"IPPool","name":"p","disabled":"true"}`, `disabled: want true or false, not a string`},
		{`{"kind":"IPPool","name":"p","natOutgoing":null}`, `natOutgoing: want true or false, not null`},
		{`{"kind":"Block","cidr":"10.0.0.0/26","name":"p"}`, `decode Block/10.0.0.0/26: name: unknown field`},
		{
			`{"kind":"Block","cidr":"10.0.0.0/26","borrowed":[{"address":"10.0.0.1","host":"x"}]}`,
			`borrowed[0].host: unknown field`,
		},
		{
			`{"kind":"Node","name":"p","addresses":["192.168.0.5/33"]}`,
			`addresses[0]: "192.168.0.5/33" is not an IP address with the length of its subnet`,
		},
		{
			`{"kind":"Node","name":"p","addresses":["fe80::1%eth0/64"]}`,
			`addresses[0]: "fe80::1%eth0/64" is not an IP address`,
		},
		{
			`{"kind":"Node","name":"p","addresses":["::ffff:10.0.0.1%eth0"]}`,
			`addresses[0]: "::ffff:10.0.0.1%eth0" is not an IP address`,
		},
		{
			`{"kind":"Node","name":"p","addresses":["::ffff:10.0.0.1%eth0/120"]}`,
			`addresses[0]: "::ffff:10.0.0.1%eth0/120" is not an IP address`,
		},
		{
			`{"kind":"Node","name":"p","ipv4VXLANTunnelAddr":"::ffff:10.0.0.1%eth0"}`,
			`ipv4VXLANTunnelAddr: "::ffff:10.0.0.1%eth0" has a zone`,
		},
		{
			`{"kind":"Node","name":"p","ipv6VXLANTunnelAddr":"fe80::1%eth0"}`,
			`ipv6VXLANTunnelAddr: "fe80::1%eth0" has a zone`,
		},
		{
			`{"kind":"Node","name":"p","ipv4IPIPTunnelAddr":"::ffff:10.0.0.1%eth0"}`,
			`ipv4IPIPTunnelAddr: "::ffff:10.0.0.1%eth0" has a zone`,
		},
		{
			`{"kind":"WorkloadEndpoint","name":"p","addresses":["::ffff:10.0.0.1%eth0"]}`,
			`addresses[0]: "::ffff:10.0.0.1%eth0" has a zone`,
		},
		{
			`{"kind":"WorkloadEndpoint","name":"p","ipNATs":[{"externalIP":"::ffff:10.0.0.1%0"}]}`,
			`ipNATs[0].externalIP: "::ffff:10.0.0.1%0" has a zone`,
		},
		{
			`{"kind":"WorkloadEndpoint","name":"p","allowSpoofedSourcePrefixes":["::ffff:10.0.0.1%eth0"]}`,
			`allowSpoofedSourcePrefixes[0]: parse net`,
		},
		{
			`{"kind":"HostEndpoint","name":"p","expectedIPs":["::ffff:10.0.0.1%eth0"]}`,
			`expectedIPs[0]: "::ffff:10.0.0.1%eth0" has a zone`,
		},
		{
			`{"kind":"Block","cidr":"10.0.0.0/26","borrowed":[{"address":"::ffff:10.0.0.1%eth0"}]}`,
			`borrowed[0].address: "::ffff:10.0.0.1%eth0" has a zone`,
		},
		{
			`{"kind":"ServiceBackends","name":"p","addresses":["::ffff:10.0.0.1%eth0"]}`,
			`addresses[0]: "::ffff:10.0.0.1%eth0" has a zone`,
		},
		{`{"kind":"NetworkSet","name":"p","nets":["::ffff:10.0.0.1%eth0"]}`, `nets[0]: parse net`},
		{`{"kind":"Node","name":"p","addresses":[{}]}`, `addresses[0]: want a string, not an object`},
		{`{"kind":"Node","name":"p","ipv4VXLANTunnelAddr":""}`, `ipv4VXLANTunnelAddr: "" is not an IP address`},
		{`{"kind":"Node","name":"p","ipv6VXLANTunnelAddr":null}`, `ipv6VXLANTunnelAddr: want a string, not null`},
		{`{"kind":"Node","name":"p","ipv4IPIPTunnelAddr":4}`, `ipv4IPIPTunnelAddr: want a string, not a number`},
		{
			`{"kind":"ServiceBackends","name":"p","ports":[{"port":0}]}`,
			`ports[0].port: want a number from 1 to 65535, not 0`,
		},
		{`{"kind":"ServiceBackends","name":"p","ports":[{"name":"web"}]}`, `ports[0].name: unknown field`},
	})
}

func TestDecodeFieldErrors(t *testing.T) {
	requireUndecodable(t, []undecodable{
		{`{"Kind":"Policy","name":"p"}`, `kind: required`},
		{
			`{"kind":"Policy","name":"p","Selector":"all()"}`,
			`Policy/p: Selector: unknown field: want "selector"`,
		},
		{`{"kind":"Policy","name":"p","doNotTrack":null}`, `Policy/p: doNotTrack: want true or false, not null`},
		{`{"kind":"Policy","name":"p","preDnat":true}`, `Policy/p: preDnat: unknown field: want "preDNAT"`},
		{`{"kind":"Policy","name":"p","staged":true}`, `Policy/p: staged: use the kind Policy or StagedPolicy`},
		{`{"kind":"Tier","name":"p","namespace":"x"}`, `namespace: unknown field`},
		{`{"kind":"Policy","name":"p","selector":"a","selector":"b"}`, `Policy/p: selector: given twice`},
		{`{"kind":"Policy","kind":"Tier","name":"p"}`, `kind: given twice`},
		{`{"kind":"NetworkSet","name":"p","labels":{"a.b":"x","a.b":"y"}}`, `NetworkSet/p: labels["a.b"]: given twice`},
		{`{"kind":"NetworkSet","name":"p","labels":{"a":1}}`, `labels.a: want a string, not a number`},
		{`{"kind":"NetworkSet","name":"p","labels":[]}`, `labels: want an object, not a list`},
		{`{"kind":"NetworkSet","name":"p","nets":null}`, `nets: want a list, not null`},
		{`{"kind":"NetworkSet","name":"p","nets":"10.0.0.0/8"}`, `nets: want a list, not a string`},
		{`{"kind":"NetworkSet","name":"p","nets":["10.0.0.0/8","fe80::1%eth0"]}`, `nets[1]: parse net "fe80::1%eth0"`},
		{`{"kind":"NetworkSet","name":"p","nets":[10]}`, `nets[0]: want a string, not a number`},
		{`{"kind":"Policy","name":null}`, `name: want a string, not null`},
		{`{"kind":"Policy","name":"p","order":"5"}`, `order: want a number, not a string`},
		{`{"kind":"Policy","name":"p","order":1e999}`, `order: 1e999 is out of range`},
		{`{"kind":"Policy","name":"p","order":null}`, `order: want a number, not null`},
		{
			`{"kind":"WorkloadEndpoint","name":"p","ports":[{"name":"a","protocol":"TCP","port":65536}]}`,
			`ports[0].port: want a number from 1 to 65535`,
		},
		{
			`{"kind":"WorkloadEndpoint","name":"p","ports":[{"name":"a","protocol":"TCP","port":"80"}]}`,
			`ports[0].port: want a number, not a string`,
		},
		{
			`{"kind":"WorkloadEndpoint","name":"p","addresses":["10.0.0.1/32"]}`,
			`addresses[0]: "10.0.0.1/32" is not an IP address`,
		},
		{`{"kind":"WorkloadEndpoint","name":"p","addresses":[""]}`, `addresses[0]: "" is not an IP address`},
		{`{"kind":"WorkloadEndpoint","name":"p","addresses":[1]}`, `addresses[0]: want a string`},
		{
			`{"kind":"WorkloadEndpoint","name":"p","ipNATs":[{"internalIP":null}]}`,
			`ipNATs[0].internalIP: want a string, not null`,
		},
		{
			`{"kind":"WorkloadEndpoint","name":"p","allowSpoofedSourcePrefixes":["x"]}`,
			`allowSpoofedSourcePrefixes[0]: parse net "x"`,
		},
	})
}

// The key in errors has only members that Decode accepts.
func TestDecodeErrorKey(t *testing.T) {
	for in, want := range map[string]policy.Key{
		`{"kind":"Policy","name":"a","Name":"b"}`:                       {Kind: policy.KindPolicy, Name: "a"},
		`{"kind":"Policy","name":"a","NAMESPACE":"b","Kind":"Tier"}`:    {Kind: policy.KindPolicy, Name: "a"},
		`{"kind":"Policy","Name":"b"}`:                                  {Kind: policy.KindPolicy},
		`{"kind":"Policy","name":"a","name":"b"}`:                       {Kind: policy.KindPolicy},
		`{"kind":"Policy","name":"a","n\u0061me":"a","namespace":"c"}`:  {Kind: policy.KindPolicy, Namespace: "c"},
		`{"kind":"Policy","kind":"Tier","name":"a"}`:                    {Name: "a"},
		`{"kind":"Policy","namespace":null,"name":7}`:                   {Kind: policy.KindPolicy},
		`{"kind":"Policy","namespace":"a","name":"\ud800"}`:             {Kind: policy.KindPolicy, Namespace: "a"},
		"{\"kind\":\"Policy\",\"namespace\":\"a\",\"name\":\"b\xff\"}":  {Kind: policy.KindPolicy, Namespace: "a"},
		`{"kind":"Policy","name":"a","x":{"name":"b"},"selector":null}`: {Kind: policy.KindPolicy, Name: "a"},
		`{"kind":"Block","cidr":"10.0.0.7/26","CIDR":"10.9.0.0/26","name":"b","node":1}`: {
			Kind: policy.KindBlock, Name: "10.0.0.0/26",
		},
		`{"kind":"Block","cidr":"x"}`:     {Kind: policy.KindBlock, Name: "x"},
		`{"kind":"Policy","name":"a"`:     {},
		`{"kind":"Policy","name":"a"} {}`: {},
		`[{"kind":"Policy","name":"a"}]`:  {},
	} {
		_, err := policy.Decode([]byte(in))
		var bad *policy.DecodeError
		require.ErrorAs(t, err, &bad, in)
		require.Equal(t, want, bad.Key, in)
	}
}

func TestDecodeReportsAll(t *testing.T) {
	_, err := policy.Decode([]byte(`{"kind":"Policy","name":"p","x":1,"order":true,"egress":[{"protocol":"foo"}]}`))
	var bad *policy.DecodeError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, policy.Key{Kind: policy.KindPolicy, Name: "p"}, bad.Key)
	var fields []string
	for _, p := range bad.Problems {
		fields = append(fields, p.Field)
	}
	require.Equal(t, []string{"x", "order", "egress[0].protocol"}, fields)

	_, err = policy.Decode([]byte(`{"kind":"NetworkSet","name":"p","nets":[` + strings.Repeat("0,", 1e5) + `0]}`))
	require.ErrorAs(t, err, &bad)
	require.Len(t, bad.Problems, 100)
	require.Less(t, len(err.Error()), 1000)
}

// A rule without an action decodes, and is then invalid (S29).
func TestDecodeWithoutAction(t *testing.T) {
	r, err := policy.Decode([]byte(`{"kind":"Profile","name":"p","ingress":[{}]}`))
	require.NoError(t, err)
	require.ErrorContains(t, r.Validate(), "ingress[0].action: required")
}

func TestEncodeErrors(t *testing.T) {
	_, err := policy.Encode(nil)
	require.Error(t, err)
	_, err = policy.Encode((*policy.Tier)(nil))
	require.Error(t, err)
	_, err = policy.Encode(&policy.Tier{Name: "t", Order: ptr(math.NaN())})
	require.ErrorContains(t, err, "encode Tier/t")
}

func TestCanonical(t *testing.T) {
	p := &policy.Policy{Name: "p", Types: []policy.Type{"INGRESS", "other"}, Egress: []policy.Rule{{
		Source:      policy.EntityRule{Nets: prefixes("12.1.0.0/8", "::ffff:0.0.0.0/90")},
		Destination: policy.EntityRule{NotNets: prefixes("::ffff:10.0.0.1/128")},
	}}}
	got := policy.Canonical(p).(*policy.Policy)
	require.Equal(t, []policy.Type{policy.Ingress, "other"}, got.Types)
	require.Equal(t, prefixes("12.0.0.0/8", "::ffff:0.0.0.0/90"), got.Egress[0].Source.Nets)
	require.Equal(t, prefixes("10.0.0.1/32"), got.Egress[0].Destination.NotNets)
	require.Equal(t, prefixes("12.1.0.0/8", "::ffff:0.0.0.0/90"), p.Egress[0].Source.Nets,
		"the argument is not changed")

	w := policy.Canonical(&policy.WorkloadEndpoint{
		Addresses: []netip.Addr{netip.MustParseAddr("::ffff:10.0.0.1")}, MAC: "66:3E:CA:A4:DB:65",
	}).(*policy.WorkloadEndpoint)
	require.Equal(t,
		&policy.WorkloadEndpoint{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, MAC: "66:3e:ca:a4:db:65"}, w)
}

// An IPv4-mapped address with a zone has no IPv4 form. Canonical does not change it, and Validate
// refuses it.
func TestCanonicalKeepsZones(t *testing.T) {
	zoned := netip.MustParseAddr("::ffff:10.0.0.1%eth0")
	one := []netip.Addr{zoned}
	for _, r := range []policy.Resource{
		&policy.HostEndpoint{Name: "h", Node: "n", ExpectedIPs: one},
		&policy.WorkloadEndpoint{Name: "w", Node: "n", Interface: "cali0", Addresses: one},
		&policy.WorkloadEndpoint{
			Name: "w", Node: "n", Interface: "cali0", Addresses: addrs("10.0.0.1"),
			IPNATs: []policy.IPNAT{{InternalIP: netip.MustParseAddr("10.0.0.1"), ExternalIP: zoned}},
		},
		&policy.Block{
			CIDR: netip.MustParsePrefix("10.0.0.0/26"), Borrowed: []policy.BorrowedAddress{{Address: zoned, Node: "n"}},
		},
		&policy.Node{Name: "n", IPv4VXLANTunnelAddr: zoned},
		&policy.Node{Name: "n", IPv4IPIPTunnelAddr: zoned},
		&policy.ServiceBackends{Namespace: "a", Name: "b", Service: "c", Addresses: one},
	} {
		c := policy.Canonical(r)
		require.Equal(t, r, c)
		require.Error(t, c.Validate(), "%+v", r)
	}
}

// Addresses of a node keep their host bits.
func TestCanonicalNetworkKinds(t *testing.T) {
	mapped := netip.MustParseAddr("::ffff:10.0.0.1")
	plain := netip.MustParseAddr("10.0.0.1")
	for _, c := range []struct{ in, want policy.Resource }{
		{
			&policy.HostEndpoint{ExpectedIPs: []netip.Addr{mapped}},
			&policy.HostEndpoint{ExpectedIPs: []netip.Addr{plain}},
		},
		{
			&policy.IPPool{CIDR: netip.MustParsePrefix("10.1.2.3/16")},
			&policy.IPPool{CIDR: netip.MustParsePrefix("10.1.0.0/16")},
		},
		{
			&policy.Block{CIDR: netip.MustParsePrefix("::ffff:10.0.0.1/122"), Borrowed: []policy.BorrowedAddress{
				{Address: mapped},
			}},
			&policy.Block{
				CIDR: netip.MustParsePrefix("10.0.0.0/26"), Borrowed: []policy.BorrowedAddress{{Address: plain}},
			},
		},
		{
			&policy.Node{
				Addresses:           prefixes("10.0.0.1/8", "::ffff:10.0.0.2/104", "::ffff:0.0.0.0/90"),
				IPv4VXLANTunnelAddr: mapped, IPv4IPIPTunnelAddr: mapped, VXLANTunnelMACAddrV6: "AA:00:00:00:00:01",
			},
			&policy.Node{
				Addresses: prefixes("10.0.0.1/8", "10.0.0.2/8", "::ffff:0.0.0.0/90"), IPv4VXLANTunnelAddr: plain,
				IPv4IPIPTunnelAddr: plain, VXLANTunnelMACAddrV6: "aa:00:00:00:00:01",
			},
		},
		{
			&policy.ServiceBackends{Addresses: []netip.Addr{mapped}},
			&policy.ServiceBackends{Addresses: []netip.Addr{plain}},
		},
		{
			&policy.WorkloadEndpoint{
				IPNATs:                     []policy.IPNAT{{InternalIP: mapped, ExternalIP: mapped}},
				AllowSpoofedSourcePrefixes: prefixes("10.0.0.1/8"),
			},
			&policy.WorkloadEndpoint{
				IPNATs:                     []policy.IPNAT{{InternalIP: plain, ExternalIP: plain}},
				AllowSpoofedSourcePrefixes: prefixes("10.0.0.0/8"),
			},
		},
	} {
		before := policy.Clone(c.in)
		require.Equal(t, c.want, policy.Canonical(c.in))
		require.Equal(t, before, c.in, "the argument is not changed")
	}
	for _, r := range append(good(), full(t)...) {
		require.Equal(t, r, policy.Canonical(r))
	}
}
