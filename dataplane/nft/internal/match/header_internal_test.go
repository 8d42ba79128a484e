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

// A match on a field of one protocol's header has the alternatives that one on an ICMP type has,
// whatever the rule says of protocols and ports.
func TestFieldsOfOneProtocol(t *testing.T) {
	typ, all, none := 8, 0, 0
	ports := dataplane.Match{Ports: []policy.Port{policy.PortNumber(80)}}
	notPorts := dataplane.Match{NotPorts: []policy.Port{policy.PortNumber(80)}}
	for _, f := range sets.Families() {
		for _, p := range []policy.Protocol{0, policy.ProtocolTCP, icmpOf(f), 253} {
			for _, not := range []policy.Protocol{0, policy.ProtocolTCP, icmpOf(f), 253} {
				for _, side := range []dataplane.Match{{}, ports, notPorts} {
					for _, must := range []bool{false, true} {
						rule := dataplane.Rule{Protocol: p, NotProtocol: not, Destination: side}
						ofType, h := rule, headerMatch{field: ruleset.HeaderICMPType}
						if must {
							ofType.ICMP, h.any = &policy.ICMP{Type: &typ}, []uint16{8}
						} else {
							ofType.NotICMP, h.not = &policy.ICMP{Type: &typ}, []uint16{8}
						}
						want, _ := Matcher{}.ofFamily(&ofType, f, nil)
						got, overlap := Matcher{}.ofFamily(&rule, f, []headerMatch{h})
						require.Equal(t, want, got, "%s, must %t", &ofType, must)
						require.False(t, overlap)
						if all++; len(got) == 0 {
							none++
						}
					}
				}
			}
		}
	}
	require.Greater(t, none, all/4)
	require.Greater(t, all-none, all/4)
}

// Several values are alternatives. Values of fields of other protocols contradict each other, and two
// fields of one protocol do not.
func TestSeveralFieldsOfProtocols(t *testing.T) {
	typ := headerMatch{field: ruleset.HeaderICMPType, any: []uint16{3, 4, 8}}
	code := headerMatch{field: ruleset.HeaderICMPCode, not: []uint16{1}}
	flags := headerMatch{field: ruleset.HeaderTCPFlags, any: []uint16{2}}
	of := func(headers ...headerMatch) (texts []string) {
		alts, _ := Matcher{}.ofFamily(&dataplane.Rule{}, sets.IPv4, headers)
		for _, ms := range alts {
			texts = append(texts, ruleset.Rule{Matches: ms}.String())
		}
		return texts
	}
	require.Equal(t, []string{"icmp type 3-4 icmp code != 1", "icmp type 8 icmp code != 1"}, of(typ, code))
	require.Empty(t, of(typ, flags))
	require.Len(t, of(flags, code), 1, "TCP has no code that must not be")
	require.Equal(t, []string{"icmp code != 1", "meta nfproto ipv4 meta l4proto != icmp"}, of(code))
}
