// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netlink"
)

// Parsed objects equal the encoded ones. Parsers do not panic for any bytes.
func FuzzParse(f *testing.F) {
	var b Batch
	routes := []Route{
		{
			Dst: netip.MustParsePrefix("10.0.0.0/8"), Table: 70000, Metric: 7, Protocol: 219, Type: TypeUnicast,
			Index: 3, Gateway: netip.MustParseAddr("192.0.2.1"), OnLink: true, Source: netip.MustParseAddr("192.0.2.9"),
			MTU: 1400,
		},
		{Dst: netip.MustParsePrefix("fd00::/8"), Table: 254, Protocol: 219, Type: TypeBlackhole},
	}
	for i := range routes {
		b.Reset()
		b.AddRoute(&routes[i])
		var got Route
		require.NoError(f, parseRoute(b.Encoded()[netlink.HeaderLen:], &got))
		require.Equal(f, routes[i], got)
		f.Add(bytes.Clone(b.Encoded()[netlink.HeaderLen:]))
	}
	neighbour := Neighbour{
		Addr: netip.MustParseAddr("fd00::1"), Index: 3, MAC: MAC{2, 0, 0, 0, 0, 1}, State: StatePermanent,
		Protocol: 219,
	}
	b.Reset()
	b.AddNeighbour(&neighbour)
	gotNeighbour, err := parseNeighbour(b.Encoded()[netlink.HeaderLen:])
	require.NoError(f, err)
	require.Equal(f, neighbour, gotNeighbour)
	f.Add(bytes.Clone(b.Encoded()[netlink.HeaderLen:]))
	forward := Neighbour{
		Index: 3, MAC: MAC{2, 0, 0, 0, 0, 1}, Addr: netip.MustParseAddr("192.0.2.1"), State: StatePermanent,
		Forward: true,
	}
	b.Reset()
	b.ReplaceNeighbour(&forward)
	gotForward, err := parseNeighbour(b.Encoded()[netlink.HeaderLen:])
	require.NoError(f, err)
	require.Equal(f, forward, gotForward)
	f.Add(bytes.Clone(b.Encoded()[netlink.HeaderLen:]))
	rule := Rule{
		Family: 6, Priority: 5, From: netip.MustParsePrefix("fd00::/8"), To: netip.MustParsePrefix("fd01::/16"),
		UDPSourcePort: 0x1234, Local: true, Table: 70000, Goto: 7, Action: RuleLookup, Protocol: 219,
	}
	b.Reset()
	b.AddRule(&rule)
	gotRule, err := parseRule(b.Encoded()[netlink.HeaderLen:])
	require.NoError(f, err)
	require.Equal(f, rule, gotRule)
	f.Add(bytes.Clone(b.Encoded()[netlink.HeaderLen:]))

	f.Fuzz(func(_ *testing.T, data []byte) {
		var r Route
		_ = parseRoute(data, &r)
		_, _ = parseNeighbour(data)
		_, _ = parseRule(data)
		_, _ = parseLink(data)
		_, _ = parseAddress(data)
	})
}
