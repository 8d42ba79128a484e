// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

// S61: a protocol by number equals the protocol by name.
func TestProtocol(t *testing.T) {
	for in, want := range map[string]policy.Protocol{
		"TCP": 6, "tcp": 6, "6": 6, "UDP": 17, "17": 17, "SCTP": 132, "132": 132, "icmp": 1, "1": 1,
		"ICMPv6": 58, "icmpV6": 58, "58": 58, "udplite": 136, "253": 253, "255": 255,
	} {
		got, err := policy.ParseProtocol(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
		again, err := policy.ParseProtocol(got.String())
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
	for _, in := range []string{
		"", "0", "256", "-1", "+6", "06", "6.0", "tcp ", "any", "ſctp", strings.Repeat("9", 1000),
	} {
		_, err := policy.ParseProtocol(in)
		require.Error(t, err, in)
	}
	require.Equal(t, "UDPLite", policy.ProtocolUDPLite.String())
	require.Equal(t, "2", policy.Protocol(2).String())

	for n := 1; n <= 255; n++ {
		data, err := json.Marshal(policy.Protocol(n))
		require.NoError(t, err)
		var back policy.Protocol
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, policy.Protocol(n), back)
	}
	for _, in := range []string{"0", "256", "null", "true", `"x"`, "[]", "6.0"} {
		var p policy.Protocol
		require.Error(t, json.Unmarshal([]byte(in), &p), in)
	}
}

func TestPort(t *testing.T) {
	for _, c := range []struct {
		in, out, json string
		want          policy.Port
	}{
		{"80", "80", "80", policy.PortNumber(80)},
		{"65535", "65535", "65535", policy.PortNumber(65535)},           // S50
		{"1:65535", "1:65535", `"1:65535"`, policy.PortRange(1, 65535)}, // S50
		{"8000:8999", "8000:8999", `"8000:8999"`, policy.PortRange(8000, 8999)},
		{"80:80", "80", "80", policy.PortNumber(80)}, // S49
		{"http", "http", `"http"`, policy.PortName("http")},
		{"8a", "8a", `"8a"`, policy.PortName("8a")},
		{"A_b.c-d", "A_b.c-d", `"A_b.c-d"`, policy.PortName("A_b.c-d")},
		{strings.Repeat("x", 128), strings.Repeat("x", 128), `"` + strings.Repeat("x", 128) +
			`"`, policy.PortName(strings.Repeat("x", 128))},
	} {
		got, err := policy.ParsePort(c.in)
		require.NoError(t, err, c.in)
		require.Equal(t, c.want, got)
		require.Equal(t, c.out, got.String())
		data, err := json.Marshal(got)
		require.NoError(t, err)
		require.Equal(t, c.json, string(data))
		var back policy.Port
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, got, back)
	}
	for _, in := range []string{
		"", "0", "0:5", "5:0", "65536", "1:65536", "6:5", "1:2:3", ":", "1:", ":1", "-1", "80-90", "1_000", "080",
		" 80", "8 0", "ht tp", "http:https", "a\n", "é", "...", strings.Repeat("x", 129),
	} {
		_, err := policy.ParsePort(in)
		require.Error(t, err, in)
	}
	for _, in := range []string{"0", "65536", "-1", "80.0", "8e1", "null", "true", `""`, "{}"} {
		var p policy.Port
		require.Error(t, json.Unmarshal([]byte(in), &p), in)
	}
}

func TestParseNet(t *testing.T) {
	for in, want := range map[string]string{
		"12.1.0.0/8":          "12.0.0.0/8", // S71
		"10.0.0.1":            "10.0.0.1/32",
		"fd00::1":             "fd00::1/128",
		"fd00::1/64":          "fd00::/64",
		"::ffff:10.0.0.1":     "10.0.0.1/32",
		"::ffff:10.1.2.3/112": "10.1.0.0/16",
		"::ffff:0:0/96":       "0.0.0.0/0",
		"0.0.0.0/0":           "0.0.0.0/0",
		"::/0":                "::/0",
	} {
		got, err := policy.ParseNet(in)
		require.NoError(t, err, in)
		require.Equal(t, netip.MustParsePrefix(want), got, in)
	}
	for _, in := range []string{
		"", "/", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/08", "10.0.0.0/-1", "010.0.0.1", "fe80::1%eth0",
		"fe80::1%eth0/64", "::ffff:10.0.0.0/95", "::ffff:0:0/0", " 10.0.0.1", "10.0.0.1/32 ", "x", "10.0.0.0/255.0.0.0",
	} {
		_, err := policy.ParseNet(in)
		require.Error(t, err, in)
	}
}

func TestNetsJSON(t *testing.T) {
	var nets policy.Nets
	require.NoError(t, json.Unmarshal([]byte(`["10.0.0.1", "12.1.0.0/8"]`), &nets))
	require.Equal(t, prefixes("10.0.0.1/32", "12.0.0.0/8"), nets)
	data, err := json.Marshal(nets)
	require.NoError(t, err)
	require.Equal(t, `["10.0.0.1/32","12.0.0.0/8"]`, string(data))
	for _, in := range []string{"null", `"10.0.0.1"`, "[1]", "[null]", `["x"]`} {
		require.Error(t, json.Unmarshal([]byte(in), &nets), in)
	}
}

func TestKey(t *testing.T) {
	k := policy.Key{Kind: policy.KindPolicy, Namespace: "b", Name: "c"}
	require.Zero(t, k.Compare(k))
	for _, o := range []policy.Key{
		{Kind: policy.KindNetworkSet, Namespace: "z", Name: "z"},
		{Kind: policy.KindPolicy, Namespace: "a", Name: "z"},
		{Kind: policy.KindPolicy, Name: "z"},
		{Kind: policy.KindPolicy, Namespace: "b", Name: "b"},
	} {
		require.Equal(t, 1, k.Compare(o), o)
		require.Equal(t, -1, o.Compare(k), o)
	}
	require.Equal(t, "Policy/b/c", k.String())
	require.Equal(t, "Tier/t", (&policy.Tier{Name: "t"}).Key().String())
}
