// SPDX-License-Identifier: Apache-2.0

package dptest_test

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/internal/fieldwalk"
	"github.com/wayleave/wayleave/policy"
)

// Every field of a rule except its ID changes the verdict on some packet. Backends are tested
// against these verdicts.
func TestEveryFieldOfRulesIsJudged(t *testing.T) {
	filled := dataplane.Rule{}
	fieldwalk.Fill(reflect.ValueOf(&filled).Elem(), policy.PortRange(80, 90), policy.Deny, policy.ProtocolTCP)
	filled.IPVersion = 4
	for _, side := range []*dataplane.Match{&filled.Source, &filled.Destination} {
		side.Sets, side.NotSets = []dataplane.IPSetID{"s:a"}, []dataplane.IPSetID{"s:a"}
		side.PortSets, side.NotPortSets = []dataplane.IPSetID{"p:a"}, []dataplane.IPSetID{"p:a"}
	}
	var packets []dptest.Packet
	for _, pair := range [][2]string{{"10.1.0.1", "10.2.0.1"}, {"10.2.0.1", "10.1.0.1"}, {"fd00::1", "fd00::2"}} {
		for _, proto := range []policy.Protocol{policy.ProtocolTCP, policy.ProtocolUDP, policy.ProtocolICMP} {
			for _, n := range []uint16{1, 7, 80} {
				packets = append(packets, dptest.Packet{
					Src: netip.MustParseAddr(pair[0]), Dst: netip.MustParseAddr(pair[1]), Protocol: proto,
					To: endpointKey, SrcPort: n, DstPort: n, ICMPType: uint8(n), ICMPCode: uint8(n),
					Header: policy.Header{DSCP: policy.DSCP(n % 64)},
				})
			}
		}
	}
	judged := func(r dataplane.Rule) (verdicts string) {
		s := dptest.NewState()
		member := dataplane.Member{Prefix: netip.MustParsePrefix("10.1.0.1/32")}
		s.Sets["s:a"] = dptest.Set{Members: []dataplane.Member{member}}
		member.Protocol, member.Port = policy.ProtocolTCP, 80
		s.Sets["p:a"] = dptest.Set{Type: dataplane.IPSetPorts, Members: []dataplane.Member{member}}
		s.Profiles["p"] = &dataplane.Profile{Ingress: []dataplane.Rule{r}}
		s.Endpoints[endpointKey] = &dataplane.Endpoint{Profiles: []string{"p"}}
		for _, p := range packets {
			verdicts += string(s.Judge(p).Ingress.Action) + " "
		}
		return verdicts
	}
	plain := judged(dataplane.Rule{Action: policy.Allow})
	require.False(t, strings.Contains(plain, "Deny"))
	fields := 0
	for i, leaf := range fieldwalk.Leaves(reflect.ValueOf(&filled).Elem()) {
		rule := dataplane.Rule{Action: policy.Allow}
		fieldwalk.Leaves(reflect.ValueOf(&rule).Elem())[i].Value.Set(leaf.Value)
		require.Equal(t, leaf.Path == ".ID", plain == judged(rule), leaf.Path)
		fields++
	}
	require.Greater(t, fields, 20)
}
