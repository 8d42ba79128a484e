// SPDX-License-Identifier: Apache-2.0

package policysync_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/wire/policysync"
	"github.com/wayleave/wayleave/policy"
)

// A rule that matches an unknown field allows nothing: Allow matches nothing, Deny and Pass deny.
// Its other criteria still apply.
func TestUnknownFieldsNeverAllow(t *testing.T) {
	const dscp, icmp, port = policysync.UnknownDSCP, policysync.UnknownICMP, policysync.UnknownSrcPort
	echo, code := 8, 1
	withDSCP := func(a policy.Action) dataplane.Rule {
		return dataplane.Rule{Action: a, HeaderMatch: policy.HeaderMatch{DSCP: []policy.DSCP{46}}}
	}
	withoutDSCP := func(a policy.Action) dataplane.Rule {
		return dataplane.Rule{Action: a, HeaderMatch: policy.HeaderMatch{NotDSCP: []policy.DSCP{46}}}
	}
	withICMP := func(a policy.Action) dataplane.Rule {
		return dataplane.Rule{Action: a, HeaderMatch: policy.HeaderMatch{ICMP: &policy.ICMP{Type: &echo, Code: &code}}}
	}
	withoutICMP := func(a policy.Action) dataplane.Rule {
		return dataplane.Rule{Action: a, HeaderMatch: policy.HeaderMatch{NotICMP: &policy.ICMP{Type: &echo}}}
	}
	from := func(a policy.Action, m dataplane.Match) dataplane.Rule { return dataplane.Rule{Action: a, Source: m} }
	ports := []policy.Port{policy.PortNumber(1000)}
	onPort, notOnPort := dataplane.Match{Ports: ports}, dataplane.Match{NotPorts: ports}
	named := dataplane.Match{PortSets: []dataplane.IPSetID{"p"}}
	notNamed := dataplane.Match{NotPortSets: []dataplane.IPSetID{"p"}}
	elsewhere := withDSCP(policy.Deny)
	elsewhere.Destination.Ports = ports
	allow := dataplane.Rule{Action: policy.Allow}
	tcp, udp, ping := policy.ProtocolTCP, policy.ProtocolUDP, policy.ProtocolICMP
	for name, c := range map[string]struct {
		unknown  policysync.Unknown
		protocol policy.Protocol
		rule     dataplane.Rule
		then     policy.Action // the packet's action if everything is allowed after the rule
		by       string
	}{
		"S176 deny":                        {dscp, tcp, withDSCP(policy.Deny), policy.Deny, "rule 0"},
		"S176 deny not":                    {dscp, tcp, withoutDSCP(policy.Deny), policy.Deny, "rule 0"},
		"S176 pass":                        {dscp, tcp, withDSCP(policy.Pass), policy.Deny, "rule 0"},
		"S176 allow":                       {dscp, tcp, withDSCP(policy.Allow), policy.Allow, "rule 1"},
		"S176 allow not":                   {dscp, tcp, withoutDSCP(policy.Allow), policy.Allow, "rule 1"},
		"S176 log":                         {dscp, tcp, withDSCP(policy.Log), policy.Allow, "rule 1"},
		"S176 other port":                  {dscp, tcp, elsewhere, policy.Allow, "rule 1"},
		"S176 known":                       {icmp | port, tcp, withDSCP(policy.Deny), policy.Allow, "rule 1"},
		"S64 deny":                         {icmp, ping, withICMP(policy.Deny), policy.Deny, "rule 0"},
		"S64 deny not":                     {icmp, ping, withoutICMP(policy.Deny), policy.Deny, "rule 0"},
		"S64 allow":                        {icmp, ping, withICMP(policy.Allow), policy.Allow, "rule 1"},
		"S64 allow not":                    {icmp, ping, withoutICMP(policy.Allow), policy.Allow, "rule 1"},
		"S64 other protocol":               {icmp, tcp, withICMP(policy.Deny), policy.Allow, "rule 1"},
		"S64 known":                        {dscp, ping, withICMP(policy.Deny), policy.Allow, "rule 1"},
		"S45 deny":                         {port, tcp, from(policy.Deny, onPort), policy.Deny, "rule 0"},
		"S45 deny name":                    {port, udp, from(policy.Deny, named), policy.Deny, "rule 0"},
		"S46 deny not":                     {port, tcp, from(policy.Deny, notOnPort), policy.Deny, "rule 0"},
		"S46 deny not name":                {port, tcp, from(policy.Deny, notNamed), policy.Deny, "rule 0"},
		"S45 allow":                        {port, tcp, from(policy.Allow, onPort), policy.Allow, "rule 1"},
		"S51 protocol without the field":   {port, ping, from(policy.Deny, onPort), policy.Allow, "rule 1"},
		"S45 known":                        {dscp, tcp, from(policy.Deny, onPort), policy.Allow, "rule 1"},
		"S41 unknown fields do not matter": {dscp | icmp | port, tcp, allow, policy.Allow, "rule 0"},
	} {
		state := world(0, "a")
		state.Sets["p"] = dptest.Set{Type: dataplane.IPSetPorts}
		rules := []dataplane.Rule{c.rule, allow}
		state.Policies[policyKey("a")] = &dataplane.Policy{Tier: "default", Ingress: rules, Egress: rules}
		e := state.Endpoints[key("a")]
		e.Egress = e.Ingress
		s := &policysync.State{Key: key("a"), Objects: state}
		p := dptest.Packet{
			Src: netip.MustParseAddr("10.0.0.2"), Dst: netip.MustParseAddr("10.1.0.0"), Protocol: c.protocol,
			SrcPort: 2000, DstPort: 80,
		}
		want := dptest.Decision{Action: c.then, By: "tier default Policy/n/a " + c.by}
		// The values of unknown fields have no effect.
		for _, value := range []uint8{0, 8, 46} {
			if c.unknown&dscp != 0 {
				p.DSCP = policy.DSCP(value)
			}
			if c.unknown&icmp != 0 {
				p.ICMPType, p.ICMPCode = value, 1
			}
			if c.unknown&port != 0 {
				p.SrcPort = 1000 + uint16(value)
			}
			require.Equal(t, want, s.Ingress(p, c.unknown), "%s %d", name, value)
			require.Equal(t, want, s.Egress(p, c.unknown), "%s %d", name, value)
		}

		// The same holds in a profile.
		e.Ingress, e.Profiles = nil, []string{"x"}
		state.Profiles["x"] = &dataplane.Profile{Ingress: rules}
		want.By = "profile x " + c.by
		require.Equal(t, want, s.Ingress(p, c.unknown), name)
		require.Equal(t, rules[0], state.Profiles["x"].Ingress[0], "the state does not change")
	}
}
