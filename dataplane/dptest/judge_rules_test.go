// SPDX-License-Identifier: Apache-2.0

package dptest_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// do returns rules with nothing but actions.
func do(actions ...policy.Action) []dataplane.Rule {
	var rules []dataplane.Rule
	for _, a := range actions {
		rules = append(rules, dataplane.Rule{Action: a})
	}
	return rules
}

// tierOf is a tier with one policy for each list of rules, all of them staged or none.
type tierOf struct {
	action   policy.Action
	policies [][]dataplane.Rule
	staged   bool
}

func judgeTiers(tiers []tierOf, profiles [][]dataplane.Rule) dptest.Decision {
	s := dptest.NewState()
	e := &dataplane.Endpoint{Interface: "wl1"}
	for i, tier := range tiers {
		tp := dataplane.TierPolicies{Tier: string(rune('a' + i)), DefaultAction: tier.action}
		for j, rules := range tier.policies {
			k := policy.Key{Kind: policy.KindPolicy, Namespace: tp.Tier, Name: string(rune('a' + j))}
			s.Policies[k] = &dataplane.Policy{Tier: tp.Tier, Staged: tier.staged, Ingress: rules}
			tp.Policies = append(tp.Policies, k)
		}
		e.Ingress = append(e.Ingress, tp)
	}
	for i, rules := range profiles {
		name := string(rune('a' + i))
		s.Profiles[name] = &dataplane.Profile{Ingress: rules}
		e.Profiles = append(e.Profiles, name)
	}
	s.Endpoints[endpointKey] = e
	return s.Judge(dptest.Packet{
		Src: netip.MustParseAddr("10.0.0.2"), Dst: netip.MustParseAddr("10.0.0.1"), Protocol: 253, To: endpointKey,
	}).Ingress
}

func TestJudgeTiers(t *testing.T) {
	allow, deny, pass, log := do(policy.Allow), do(policy.Deny), do(policy.Pass), do(policy.Log)
	none := []dataplane.Rule{}
	tier := func(policies ...[]dataplane.Rule) tierOf { return tierOf{policy.Deny, policies, false} }
	passing := func(policies ...[]dataplane.Rule) tierOf { return tierOf{policy.Pass, policies, false} }
	staged := func(policies ...[]dataplane.Rule) tierOf { return tierOf{policy.Deny, policies, true} }
	type tiers = []tierOf
	type rules = [][]dataplane.Rule
	for _, c := range []struct {
		name     string
		tiers    tiers
		profiles rules
		want     policy.Action
		by       string
	}{
		{"S20 staged", tiers{staged(deny)}, rules{allow}, policy.Allow, "profile a rule 0"},
		{"S20 staged allow", tiers{staged(allow), tier(none)}, nil, policy.Deny, "end of tier b"},
		{"S21 first rule", tiers{tier(do(policy.Deny, policy.Allow))}, nil, policy.Deny, "tier a Policy/a/a rule 0"},
		{"S21 first policy", tiers{tier(none, allow, deny)}, nil, policy.Allow, "tier a Policy/a/b rule 0"},
		{"S22 allow is final", tiers{tier(allow), tier(deny)}, nil, policy.Allow, "tier a Policy/a/a rule 0"},
		{"S23 deny is final", tiers{tier(deny), tier(allow)}, nil, policy.Deny, "tier a Policy/a/a rule 0"},
		{"S24 pass", tiers{tier(do(policy.Pass, policy.Deny),
			deny), tier(allow)}, nil, policy.Allow, "tier b Policy/b/a rule 0"},
		{"S25 pass without profiles", tiers{tier(pass)}, nil, policy.Deny, "no profile decided"},
		{"S25 pass to profiles", tiers{tier(pass)}, rules{allow}, policy.Allow, "profile a rule 0"},
		{"S26 end of tier", tiers{tier(none), tier(allow)}, rules{allow}, policy.Deny, "end of tier a"},
		{"S26 default pass", tiers{passing(none), tier(allow)}, nil, policy.Allow, "tier b Policy/b/a rule 0"},
		{"S27 no rules", tiers{tier(none)}, rules{allow}, policy.Deny, "end of tier a"},
		{"S28 log", tiers{tier(do(policy.Log, policy.Allow))}, nil, policy.Allow, "tier a Policy/a/a rule 1"},
		{"S28 log alone", tiers{tier(log)}, rules{allow}, policy.Deny, "end of tier a"},
		{"S29 unknown action", tiers{tier(do(""))}, rules{allow}, policy.Deny, "tier a Policy/a/a rule 0"},
		{"S30 default pass to profiles", tiers{passing(none)}, rules{allow}, policy.Allow, "profile a rule 0"},
		{"S31 list order", nil, rules{none, deny, allow}, policy.Deny, "profile b rule 0"},
		{"S31 no match", nil, rules{none, log}, policy.Deny, "no profile decided"},
		{"S32 pass in a profile", nil, rules{pass, allow}, policy.Deny, "profile a rule 0"},
		{"S33 nothing", nil, nil, policy.Deny, "no profile decided"},
	} {
		require.Equal(t, dptest.Decision{Action: c.want, By: c.by}, judgeTiers(c.tiers, c.profiles), c.name)
	}
}

func TestJudgeEndpoint(t *testing.T) {
	m := base(t)
	p := dptest.Packet{
		Src: netip.MustParseAddr("::ffff:10.0.0.9"), Dst: netip.MustParseAddr("10.0.0.1"), Protocol: policy.ProtocolUDP,
		DstPort: 80, To: endpointKey,
	}
	require.True(t, m.Judge(p).Allowed(), "addresses are unmapped")
	p.Dst = netip.MustParseAddr("fd00::1")
	require.Equal(t, "addresses of two families", m.Judge(p).Ingress.By)
	p.To = otherKey
	require.Equal(t, dptest.Decision{Action: policy.Deny, By: "unknown endpoint"}, m.Judge(p).Ingress)
	require.True(t, m.Judge(dptest.Packet{}).Allowed(), "policy does not apply")

	s := m.State()
	p = dptest.Packet{
		Src: netip.MustParseAddr("10.0.0.9"), Dst: netip.MustParseAddr("10.0.0.1"), Protocol: 17, To: endpointKey,
		From: endpointKey,
	}
	v := s.Judge(p)
	require.Equal(t, policy.Deny, v.Egress.Action, "both must allow")
	require.Equal(t, policy.Allow, v.Ingress.Action)
	require.False(t, v.Allowed())
	delete(s.Profiles, "prof")
	require.Equal(t, "profile prof is missing", s.Judge(p).Egress.By) // S34
	delete(s.Policies, polKey)
	require.Equal(t, dptest.Decision{Action: policy.Deny, By: "Policy/p is missing"}, s.Judge(p).Ingress)
	s.Endpoints[endpointKey] = &dataplane.Endpoint{Interface: "wl1", Down: true}
	require.Equal(t, dptest.Decision{Action: policy.Deny, By: "endpoint is down"}, s.Judge(p).Ingress) // S35
}

// TestJudgeMatches has matches that the case file does not test.
func TestJudgeMatches(t *testing.T) {
	v4 := dptest.Packet{
		Src: netip.MustParseAddr("10.0.0.9"), Dst: netip.MustParseAddr("10.0.0.1"), Protocol: policy.ProtocolICMP,
		ICMPType: 8, ICMPCode: 1, To: endpointKey,
	}
	v6 := dptest.Packet{
		Src: netip.MustParseAddr("fd00::9"), Dst: netip.MustParseAddr("fd00::1"), Protocol: policy.ProtocolICMPv6,
		ICMPType: 128, To: endpointKey,
	}
	tcp := v4
	tcp.Protocol, tcp.SrcPort, tcp.DstPort = policy.ProtocolTCP, 1234, 80
	n := func(i int) *int { return &i }
	nets := func(s ...string) (m dataplane.Match) {
		for _, p := range s {
			m.Nets = append(m.Nets, netip.MustParsePrefix(p))
		}
		return m
	}
	not := func(m dataplane.Match) dataplane.Match { return dataplane.Match{NotNets: m.Nets} }
	for _, c := range []struct {
		name        string
		rule        dataplane.Rule
		v4, v6, tcp bool
	}{
		{"S41 empty", dataplane.Rule{}, true, true, true},
		{"S44 every one", dataplane.Rule{
			Source: dataplane.Match{Sets: []dataplane.IPSetID{"s:v4", "s:nine"}},
		}, true, false, true},
		{"S44 none", dataplane.Rule{
			Source: dataplane.Match{NotSets: []dataplane.IPSetID{"s:v4", "s:empty"}},
		}, false, true, false},
		{"S45 number or name", dataplane.Rule{Destination: dataplane.Match{
			Ports: []policy.Port{policy.PortNumber(1)}, PortSets: []dataplane.IPSetID{"p:80"},
		}}, false, false, true},
		{"S46 neither", dataplane.Rule{Destination: dataplane.Match{
			NotPorts: []policy.Port{policy.PortNumber(1)}, NotPortSets: []dataplane.IPSetID{"p:80"},
		}}, true, true, false},
		{"S46 conflict", dataplane.Rule{Destination: dataplane.Match{
			Ports: []policy.Port{policy.PortNumber(80)}, NotPorts: []policy.Port{policy.PortNumber(80)},
		}}, false, false, false},
		{"S59 undefined name", dataplane.Rule{
			Destination: dataplane.Match{PortSets: []dataplane.IPSetID{"p:none"}},
		}, false, false, false},
		{"S59 undefined name negated", dataplane.Rule{
			Destination: dataplane.Match{NotPortSets: []dataplane.IPSetID{"p:none"}},
		}, true, true, true},
		{"S62 not tcp", dataplane.Rule{NotProtocol: policy.ProtocolTCP}, true, true, false},
		{"S63 type 0", dataplane.Rule{
			Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{ICMP: &policy.ICMP{Type: n(0)}},
		}, false, false, false},
		{"S64 type", dataplane.Rule{Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{
			ICMP: &policy.ICMP{Type: n(8)},
		}}, true, false, false},
		{"S64 other code", dataplane.Rule{
			Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{ICMP: &policy.ICMP{Type: n(8), Code: n(0)}},
		}, false, false, false},
		{"S64 not type", dataplane.Rule{
			Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{NotICMP: &policy.ICMP{Type: n(8)}},
		}, false, false, false},
		{"S64 not the pair", dataplane.Rule{
			Protocol: policy.ProtocolICMP, HeaderMatch: policy.HeaderMatch{
				NotICMP: &policy.ICMP{Type: n(8), Code: n(0)},
			},
		}, true, false, false},
		{"S66 ICMPv6", dataplane.Rule{
			Protocol: policy.ProtocolICMPv6, HeaderMatch: policy.HeaderMatch{ICMP: &policy.ICMP{Type: n(128)}},
		}, false, true, false},
		{"S67 IPv4", dataplane.Rule{IPVersion: 4}, true, false, true},
		{"S67 IPv6", dataplane.Rule{IPVersion: 6}, false, true, false},
		{"S68 other family", dataplane.Rule{Source: nets("10.0.0.0/8")}, true, false, true},
		{"S68 mixed", dataplane.Rule{Source: nets("11.0.0.0/8", "fd00::/8")}, false, true, false},
		{"S69 not any", dataplane.Rule{Source: not(nets("0.0.0.0/0", "::/0"))}, false, false, false},
		{"S70 any IPv4", dataplane.Rule{Source: nets("0.0.0.0/0")}, true, false, true},
		{"S92 empty set", dataplane.Rule{
			Source: dataplane.Match{Sets: []dataplane.IPSetID{"s:empty"}},
		}, false, false, false},
	} {
		c.rule.Action = policy.Allow
		s := dptest.NewState()
		s.Sets["s:v4"] = dptest.Set{Members: []dataplane.Member{member("10.0.0.0/8")}}
		s.Sets["s:nine"] = dptest.Set{Members: []dataplane.Member{member("10.0.0.9/32"), member("fd00::9/128")}}
		s.Sets["s:empty"] = dptest.Set{}
		s.Sets["p:80"] = dptest.Set{
			Type: dataplane.IPSetPorts, Members: []dataplane.Member{ports("10.0.0.1/32", policy.ProtocolTCP, 80)},
		}
		s.Profiles["p"] = &dataplane.Profile{Ingress: []dataplane.Rule{c.rule}}
		s.Endpoints[endpointKey] = &dataplane.Endpoint{Interface: "wl1", Profiles: []string{"p"}}
		require.Equal(t, c.v4, s.Judge(v4).Allowed(), "%s v4", c.name)
		require.Equal(t, c.v6, s.Judge(v6).Allowed(), "%s v6", c.name)
		require.Equal(t, c.tcp, s.Judge(tcp).Allowed(), "%s tcp", c.name)
	}
}
