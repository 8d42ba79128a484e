// SPDX-License-Identifier: Apache-2.0

package match

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// A match on a field of one protocol's header also decides about packets of other protocols,
// whatever protocols and ports the rule has.
func TestFieldsOfOneProtocol(t *testing.T) {
	n := func(v int) *int { return &v }
	must := policy.HeaderMatch{ICMP: &policy.ICMP{Type: n(8)}}
	not := policy.HeaderMatch{NotICMP: &policy.ICMP{Type: n(8)}}
	ports := dataplane.Match{Ports: []policy.Port{policy.PortNumber(80)}}
	notPorts := dataplane.Match{NotPorts: []policy.Port{policy.PortNumber(80)}}
	icmp, tcp := policy.ProtocolICMP, policy.ProtocolTCP
	for _, c := range []struct {
		name string
		rule dataplane.Rule
		want []string
	}{
		{"must", dataplane.Rule{HeaderMatch: must}, []string{"icmp type 8"}},
		{"must, of the protocol", dataplane.Rule{Protocol: icmp, HeaderMatch: must}, []string{"icmp type 8"}},
		{"must, of another", dataplane.Rule{Protocol: tcp, HeaderMatch: must}, nil},
		{"must, without the protocol", dataplane.Rule{NotProtocol: icmp, HeaderMatch: must}, nil},
		{"must, with ports", dataplane.Rule{HeaderMatch: must, Destination: ports}, nil},
		{"must, with other ports", dataplane.Rule{HeaderMatch: must, Destination: notPorts}, []string{"icmp type 8"}},
		{"not", dataplane.Rule{HeaderMatch: not}, []string{
			"icmp type != 8", "meta nfproto ipv4 meta l4proto != icmp",
		}},
		{"not, of the protocol", dataplane.Rule{Protocol: icmp, HeaderMatch: not}, []string{"icmp type != 8"}},
		{"not, of another", dataplane.Rule{Protocol: tcp, HeaderMatch: not}, []string{
			"meta nfproto ipv4 meta l4proto tcp",
		}},
		{"not, without the protocol", dataplane.Rule{NotProtocol: icmp, HeaderMatch: not}, []string{
			"meta nfproto ipv4 meta l4proto != icmp",
		}},
		{"not, with ports", dataplane.Rule{HeaderMatch: not, Destination: ports}, []string{
			"meta nfproto ipv4 meta l4proto { tcp, udp, sctp } th dport 80",
		}},
		{"not, with other ports", dataplane.Rule{HeaderMatch: not, Destination: notPorts}, []string{
			"meta nfproto ipv4 meta l4proto { tcp, udp, sctp } th dport != 80", "icmp type != 8",
			"meta nfproto ipv4 meta l4proto != { icmp, tcp, udp, sctp }",
		}},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, ofIPv4(t, c.rule)) })
	}
}

// A negated pair is one match. A missing part means all values.
func TestPairs(t *testing.T) {
	n := func(v int) *int { return &v }
	for _, c := range []struct {
		name string
		m    policy.HeaderMatch
		want []string
	}{
		{"pair", policy.HeaderMatch{ICMP: &policy.ICMP{Type: n(3), Code: n(4)}}, []string{"icmp type 3 icmp code 4"}},
		{"code", policy.HeaderMatch{ICMP: &policy.ICMP{Code: n(4)}}, []string{"icmp code 4"}},
		{"any", policy.HeaderMatch{ICMP: &policy.ICMP{}}, []string{"meta nfproto ipv4 meta l4proto icmp"}},
		{"not pair", policy.HeaderMatch{NotICMP: &policy.ICMP{Type: n(3), Code: n(4)}}, []string{
			"icmp type . icmp code != { 3 . 4 }",
		}},
		{"not code", policy.HeaderMatch{NotICMP: &policy.ICMP{Code: n(4)}}, []string{"icmp code != 4"}},
		{"none", policy.HeaderMatch{NotICMP: &policy.ICMP{}}, nil},
		{"both", policy.HeaderMatch{
			ICMP: &policy.ICMP{Type: n(3)}, NotICMP: &policy.ICMP{Type: n(3), Code: n(4)},
		}, []string{"icmp type 3 icmp type . icmp code != { 3 . 4 }"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, ofIPv4(t, dataplane.Rule{Protocol: policy.ProtocolICMP, HeaderMatch: c.m}))
		})
	}
}

// ofIPv4 returns the texts of a rule's alternatives for IPv4.
func ofIPv4(t *testing.T, rule dataplane.Rule) (texts []string) {
	rule.IPVersion = 4
	alts, overlap, err := Matcher{}.Alternatives(&rule)
	require.NoError(t, err)
	require.False(t, overlap)
	for _, ms := range alts {
		texts = append(texts, ruleset.Rule{Matches: ms}.String())
	}
	return texts
}

// Values that no packet can have are refused.
func TestHeaderValuesAreChecked(t *testing.T) {
	n := func(v int) *int { return &v }
	for _, m := range []policy.HeaderMatch{
		{ICMP: &policy.ICMP{Type: n(256)}},
		{ICMP: &policy.ICMP{Type: n(0), Code: n(-1)}},
		{NotICMP: &policy.ICMP{Type: n(-1)}},
		{NotICMP: &policy.ICMP{Type: n(3), Code: n(256)}},
		{DSCP: []policy.DSCP{64}},
	} {
		require.Error(t, Matcher{}.Check(&dataplane.Rule{HeaderMatch: m}), m.HeaderString())
	}
}

// Ranges are merged, and excluded values are removed from them.
func TestSpans(t *testing.T) {
	all := []span{{0, 255}}
	for _, c := range []struct{ any, not, want []span }{
		{[]span{{4, 4}, {1, 2}, {3, 3}, {9, 9}}, nil, []span{{1, 4}, {9, 9}}},
		{[]span{{1, 9}, {2, 3}}, nil, []span{{1, 9}}},
		{all, []span{{0, 0}, {7, 9}, {255, 255}}, []span{{1, 6}, {10, 254}}},
		{[]span{{1, 2}, {5, 6}, {8, 9}}, []span{{2, 5}, {8, 20}}, []span{{1, 1}, {6, 6}}},
		{[]span{{1, 2}}, []span{{0, 1}, {2, 3}}, nil},
		{all, all, nil},
	} {
		require.Equal(t, c.want, without(mergeSpans(c.any), mergeSpans(c.not)))
	}
}

// Several values are alternatives. Values of fields of different protocols contradict each other.
// Two fields of one protocol do not.
func TestSeveralFieldsOfProtocols(t *testing.T) {
	typ := headerMatch{field: ruleset.HeaderICMPType, any: []span{{3, 4}, {8, 8}}}
	code := headerMatch{field: ruleset.HeaderICMPCode, not: []span{{1, 1}}}
	flags := headerMatch{field: ruleset.HeaderTCPFlags, any: []span{{2, 2}}}
	of := func(headers ...headerMatch) (texts []string) {
		alts, _ := Matcher{}.ofFamily(&dataplane.Rule{}, sets.IPv4, headers)
		for _, ms := range alts {
			texts = append(texts, ruleset.Rule{Matches: ms}.String())
		}
		return texts
	}
	require.Equal(t, []string{"icmp type 3-4 icmp code != 1", "icmp type 8 icmp code != 1"}, of(typ, code))
	require.Empty(t, of(typ, flags))
	require.Len(t, of(flags, code), 1, "a packet of TCP has no code")
	require.Equal(t, []string{"icmp code != 1", "meta nfproto ipv4 meta l4proto != icmp"}, of(code))
}
