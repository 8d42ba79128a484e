// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
)

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

func shopIndex() *probe.Index {
	w := verdict.World{}
	w.Set(
		&policy.WorkloadEndpoint{
			Namespace: "shop", Name: "web-1", Addresses: addrs("10.0.0.1", "fd00::1"),
			Ports: []policy.EndpointPort{
				{Name: "http", Protocol: policy.ProtocolTCP, Port: 80},
				{Name: "http", Protocol: policy.ProtocolTCP, Port: 8080},
				{Name: "http", Protocol: policy.ProtocolUDP, Port: 443},
			},
		},
		&policy.WorkloadEndpoint{Namespace: "shop", Name: "web-2", Addresses: addrs("10.0.0.2")},
		&policy.WorkloadEndpoint{Namespace: "shop", Name: "new"},
		&policy.WorkloadEndpoint{Namespace: "data", Name: "db", Addresses: addrs("fd00::3")},
		&policy.ServiceBackends{
			Namespace: "shop", Name: "s-1", Service: "web", Addresses: addrs("10.0.0.2", "10.0.0.1"),
		},
		&policy.ServiceBackends{
			Namespace: "shop", Name: "s-2", Service: "web", Addresses: addrs("10.0.0.1", "192.0.2.9"),
		},
		&policy.ServiceBackends{Namespace: "shop", Name: "none", Service: "none"},
	)
	return probe.NewIndex(w,
		probe.Excluded{Name: "kube-system/agent", Addresses: addrs("192.0.2.1"), Why: "is outside"},
		probe.Excluded{Name: "shop/done", Why: "has finished"})
}

func names(parties []probe.Party) []string {
	var out []string
	for _, p := range parties {
		out = append(out, p.Name)
	}
	return out
}

func TestFind(t *testing.T) {
	b := shopIndex()
	require.Equal(t, []string{"data/db", "shop/new", "shop/web-1", "shop/web-2"}, names(b.Endpoints()))
	for _, row := range []struct {
		text string
		want []string
		says string
	}{
		{"shop/web-1", []string{"shop/web-1"}, ""},
		{"shop/web-*", []string{"shop/web-1", "shop/web-2"}, ""},
		{"*/*", []string{"data/db", "shop/web-1", "shop/web-2"}, ""},
		{"198.51.100.7", []string{"198.51.100.7"}, ""},
		{"::ffff:198.51.100.7", []string{"198.51.100.7"}, ""},
		{"svc/shop/web", []string{"shop/web-1", "shop/web-2", "192.0.2.9"}, ""},
		{"kube-system/agent", []string{"kube-system/agent"}, ""},
		{"shop/*x", nil, `no known pod matches "shop/*x"`},
		{"*", nil, "no known pod"},
		{"[*", nil, "syntax error"},
		{"kube-system/*", nil, "no known pod"},
		{"shop/done", nil, "shop/done has finished"},
		{"shop/new", nil, "shop/new has no address"},
		{"shop/web", nil, `"shop/web" is neither`},
		{"web-1", nil, "neither"},
		{"", nil, "neither"},
		{"fe80::1%eth0", nil, "zone"},
		{"svc/shop/none", nil, "no backends"},
		{"svc/shop/other", nil, "no known EndpointSlice"},
	} {
		got, err := b.Find(row.text)
		if row.says != "" {
			require.ErrorContains(t, err, row.says, row.text)
			continue
		}
		require.NoError(t, err, row.text)
		require.Equal(t, row.want, names(got), row.text)
	}
	outside, err := b.Find("kube-system/agent")
	require.NoError(t, err)
	require.Equal(t, "kube-system/agent is outside", outside[0].Note)
	require.Zero(t, outside[0].Endpoint)
}

func TestParsePort(t *testing.T) {
	for text, want := range map[string]string{
		"tcp/80": "tcp/80", "TCP/80": "tcp/80", "6/80": "tcp/80", "udp/53": "udp/53", "sctp/9": "sctp/9",
		"tcp/http": "tcp/http", "http": "http", "icmp": "icmp", "ICMPv6": "icmpv6", "icmp/0": "icmp/0",
		"icmp/3/4": "icmp/3/4", "icmpv6/135": "icmpv6/135", "ip/47": "ip/47", "udplite": "udplite",
	} {
		p, err := probe.ParsePort(text)
		require.NoError(t, err, text)
		require.Equal(t, want, p.String())
		again, err := probe.ParsePort(p.String())
		require.NoError(t, err, text)
		require.Equal(t, p, again)
	}
	for _, text := range []string{
		"", "80", "0", "tcp", "tcp/", "tcp/0", "tcp/65536", "tcp/80:81", "tcp/80/1", "frob/1", "icmp/", "icmp/255",
		"icmp/256", "icmp/8/256", "icmp/8/0/0", "ip/6", "ip/0", "ip/256", "ip/047", "udplite/1", "-", "a b",
	} {
		_, err := probe.ParsePort(text)
		require.ErrorContains(t, err, `"`+text+`"`, text)
	}
}

func TestFlows(t *testing.T) {
	b := shopIndex()
	for _, row := range []struct {
		from, to, port string
		want           []string
	}{
		{"shop/web-1", "10.9.9.9", "tcp/80", []string{"TCP 10.0.0.1:40000 -> 10.9.9.9:80"}},
		{"shop/web-1", "data/db", "icmp", []string{"ICMPv6 type 128 code 0 fd00::1 -> fd00::3"}},
		{"shop/web-1", "data/db", "icmp/8", nil},
		{"shop/web-1", "data/db", "icmpv6/135", []string{"ICMPv6 type 135 code 0 fd00::1 -> fd00::3"}},
		{"shop/web-1", "shop/web-2", "icmpv6", nil},
		{"shop/web-1", "shop/web-2", "icmp", []string{"ICMP type 8 code 0 10.0.0.1 -> 10.0.0.2"}},
		{"shop/web-1", "shop/web-2", "ip/47", []string{"47 10.0.0.1 -> 10.0.0.2"}},
		{"shop/web-2", "data/db", "tcp/1", nil},
		{"shop/web-2", "shop/web-1", "tcp/http", []string{
			"TCP 10.0.0.2:40000 -> 10.0.0.1:80", "TCP 10.0.0.2:40000 -> 10.0.0.1:8080",
		}},
		{"shop/web-2", "10.0.0.1", "http", []string{
			"TCP 10.0.0.2:40000 -> 10.0.0.1:80", "TCP 10.0.0.2:40000 -> 10.0.0.1:8080",
			"UDP 10.0.0.2:40000 -> 10.0.0.1:443",
		}},
		{"shop/web-1", "shop/web-2", "http", nil},
	} {
		from, err := b.Find(row.from)
		require.NoError(t, err)
		to, err := b.Find(row.to)
		require.NoError(t, err)
		port, err := probe.ParsePort(row.port)
		require.NoError(t, err)
		var got []string
		for _, flow := range port.Flows(from[0], to[0]) {
			require.NoError(t, flow.Validate())
			require.Equal(t, from[0].Endpoint, flow.SrcEndpoint)
			require.Equal(t, to[0].Endpoint, flow.DstEndpoint)
			got = append(got, flow.String())
		}
		require.Equal(t, row.want, got, "%s -> %s %s", row.from, row.to, row.port)
	}
}

func TestSame(t *testing.T) {
	b := shopIndex()
	for _, row := range []struct {
		a, b string
		want bool
	}{
		{"shop/web-1", "shop/web-1", true},
		{"shop/web-1", "shop/web-2", false},
		{"shop/web-1", "10.0.0.1", true},
		{"10.0.0.2", "shop/web-1", false},
		{"10.0.0.2", "10.0.0.2", true},
		{"192.0.2.1", "kube-system/agent", true},
	} {
		x, err := b.Find(row.a)
		require.NoError(t, err)
		y, err := b.Find(row.b)
		require.NoError(t, err)
		require.Equal(t, row.want, probe.Same(x[0], y[0]), row)
	}
}
