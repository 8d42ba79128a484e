// SPDX-License-Identifier: Apache-2.0

package worldtext_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/worldtext"
	"github.com/wayleave/wayleave/policy"
)

func TestParse(t *testing.T) {
	updates, synced, err := worldtext.Parse("# why\n\npolicy shop/p order 2.5 select `app == \"web\"` types " +
		"Ingress staged\n" +
		"  ingress Allow proto ICMP icmp 8/0 src.nets 10.0.0.0/8\n  egress - dst.ports 80,http notproto UDP\n" +
		"endpoint shop/web addrs 10.0.0.1 ports http=TCP:80 down\ndelete Tier/sec\ninsync\n")
	require.NoError(t, err)
	require.True(t, synced)
	order, typ, code := 2.5, 8, 0
	p := &policy.Policy{
		Namespace: "shop", Name: "p", Order: &order, Selector: `app == "web"`, Types: []policy.Type{policy.Ingress},
		Staged: true,
		Ingress: []policy.Rule{{
			Action: policy.Allow, Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{
				ICMP: &policy.ICMP{Type: &typ, Code: &code},
			},
			Source: policy.EntityRule{Nets: policy.Nets{netip.MustParsePrefix("10.0.0.0/8")}},
		}},
		Egress: []policy.Rule{{NotProtocol: policy.ProtocolUDP, Destination: policy.EntityRule{
			Ports: []policy.Port{policy.PortNumber(80), policy.PortName("http")},
		}}},
	}
	w := &policy.WorkloadEndpoint{
		Namespace: "shop", Name: "web", Node: worldtext.Node, Interface: "wlweb",
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, AdminState: policy.AdminDown,
		Ports:  []policy.EndpointPort{{Name: "http", Protocol: policy.ProtocolTCP, Port: 80}},
		Labels: map[string]string{},
	}
	tier := policy.Key{Kind: policy.KindTier, Name: "sec"}
	require.Equal(t, []policy.Update{{Key: p.Key(), Resource: p}, {Key: w.Key(), Resource: w}, {Key: tier}}, updates)
	require.Equal(t, []policy.Update{{Key: tier}, {Key: w.Key()}, {Key: p.Key()}},
		worldtext.Reversed(worldtext.Deletions(append(updates, updates...))))
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"tier":                                "line 1: tier: too short",
		"\nthing x":                           `line 2: thing x: unknown kind "thing"`,
		"  ingress Allow":                     "a rule without an object",
		"tier t\n  ingress Allow":             "has no rules",
		"policy p\n  sideways Allow":          `no direction "sideways"`,
		"policy p order x":                    "invalid syntax",
		"policy p order":                      "order has no value",
		"endpoint e addrs 10.0.0":             "10.0.0",
		"policy p\n  ingress Allow icmp x":    "invalid syntax",
		"policy p\n  ingress Allow proto foo": "foo",
	} {
		_, _, err := worldtext.Parse(text)
		require.ErrorContains(t, err, want, text)
	}
}
