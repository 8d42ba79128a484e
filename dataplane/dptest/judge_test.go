// SPDX-License-Identifier: Apache-2.0

package dptest_test

import (
	"bufio"
	"encoding/json"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// caseFile is one line of testdata/packets.jsonl: one endpoint's resolved policy, and packets
// through it.
type caseFile struct {
	Name, Suite string
	Family      int
	Tiers       []struct {
		Name      string
		EndAction string `json:"end_action"`
		Policies  []caseRules
	}
	Profiles []caseRules
	IPSets   map[string][]string `json:"ip_sets"`
	Packets  []struct {
		Proto    policy.Protocol
		Src, Dst netip.Addr
		SrcPort  uint16 `json:"src_port"`
		DstPort  uint16 `json:"dst_port"`
		ICMPType uint8  `json:"icmp_type"`
		ICMPCode uint8  `json:"icmp_code"`
		Verdict  string
	}
}

type caseRules struct {
	Name  string
	Rules []caseRule
}

type casePorts []struct{ First, Last uint16 }

type caseProtocol struct {
	Name   string
	Number uint8
}

type caseICMP struct{ Type, Code int }

type caseRule struct {
	Action                                                   string
	IPVersion                                                int
	Protocol, NotProtocol                                    caseProtocol
	ICMPType, NotICMPType                                    *int
	ICMPTypeCode, NotICMPTypeCode                            *caseICMP
	SrcNet, NotSrcNet, DstNet, NotDstNet                     []netip.Prefix
	SrcPorts, NotSrcPorts, DstPorts, NotDstPorts             casePorts
	SrcIPSetIDs, NotSrcIPSetIDs, DstIPSetIDs, NotDstIPSetIDs []string
	SrcNamedPortIPSetIDs, NotSrcNamedPortIPSetIDs            []string
	DstNamedPortIPSetIDs, NotDstNamedPortIPSetIDs            []string
}

// TestJudgeCases runs every packet of every case, as ingress and as egress of the endpoint. The
// cases test the matches of rules, which are the same in both directions.
func TestJudgeCases(t *testing.T) {
	f, err := os.Open("testdata/packets.jsonl")
	require.NoError(t, err)
	defer f.Close()
	packets := 0
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c caseFile
		d := json.NewDecoder(strings.NewReader(lines.Text()))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(&c))
		require.Equal(t, "workload", c.Suite)
		state := c.state(t)
		for i, p := range c.Packets {
			want := map[string]policy.Action{"allow": policy.Allow, "deny": policy.Deny}[p.Verdict]
			packet := dptest.Packet{
				Src: p.Src, Dst: p.Dst, Protocol: p.Proto, SrcPort: p.SrcPort, DstPort: p.DstPort, ICMPType: p.ICMPType,
				ICMPCode: p.ICMPCode,
			}
			packet.From = endpointKey
			require.Equal(t, want, state.Judge(packet).Egress.Action, "%s packet %d egress", c.Name, i)
			require.Equal(t, dptest.Decision{}, state.Judge(packet).Ingress)
			packet.From, packet.To = policy.Key{}, endpointKey
			require.Equal(t, want, state.Judge(packet).Ingress.Action, "%s packet %d ingress", c.Name, i)
			require.Equal(t, want == policy.Allow, state.Judge(packet).Allowed())
			packets++
		}
	}
	require.NoError(t, lines.Err())
	require.Greater(t, packets, 200)
}

// state translates the case. A tier without policies is not listed at an endpoint (S14).
func (c *caseFile) state(t *testing.T) dptest.State {
	s := dptest.NewState()
	s.InSync = true
	ports := map[string]bool{}
	e := &dataplane.Endpoint{Interface: "wl1"}
	for _, tier := range c.Tiers {
		tp := dataplane.TierPolicies{
			Tier:          tier.Name,
			DefaultAction: map[string]policy.Action{"deny": policy.Deny, "pass": policy.Pass}[tier.EndAction],
		}
		for _, p := range tier.Policies {
			rules := convert(t, p.Rules, ports)
			key := policy.Key{Kind: policy.KindPolicy, Name: tier.Name + "." + p.Name}
			s.Policies[key] = &dataplane.Policy{Tier: tier.Name, Ingress: rules, Egress: rules}
			tp.Policies = append(tp.Policies, key)
		}
		if len(tp.Policies) > 0 {
			e.Ingress = append(e.Ingress, tp)
		}
	}
	e.Egress = e.Ingress
	for _, p := range c.Profiles {
		rules := convert(t, p.Rules, ports)
		s.Profiles[p.Name] = &dataplane.Profile{Ingress: rules, Egress: rules}
		e.Profiles = append(e.Profiles, p.Name)
	}
	s.Endpoints[endpointKey] = e
	for id, members := range c.IPSets {
		set := dptest.Set{}
		if ports[id] {
			set.Type = dataplane.IPSetPorts
		}
		for _, m := range members {
			set.Members = append(set.Members, parseMember(t, m))
		}
		s.Sets[dataplane.IPSetID(id)] = set
	}
	return s
}

func parseMember(t *testing.T, s string) dataplane.Member {
	prefix, port, _ := strings.Cut(s, ",")
	m := dataplane.Member{Prefix: netip.MustParsePrefix(prefix)}
	if port != "" {
		proto, number, _ := strings.Cut(port, ":")
		n, err := strconv.ParseUint(number, 10, 16)
		require.NoError(t, err)
		m.Protocol, m.Port = caseProtocol{Name: proto}.convert(), uint16(n)
	}
	return m
}

func (p caseProtocol) convert() policy.Protocol {
	if p.Name == "" {
		return policy.Protocol(p.Number)
	}
	return map[string]policy.Protocol{"tcp": 6, "udp": 17, "sctp": 132, "icmp": 1, "icmpv6": 58}[p.Name]
}

// convert translates rules. An action that is missing means allow in these files. It adds to ports
// the sets to which named ports refer.
func convert(t *testing.T, in []caseRule, ports map[string]bool) []dataplane.Rule {
	var out []dataplane.Rule
	for _, r := range in {
		action, ok := map[string]policy.Action{
			"": policy.Allow, "allow": policy.Allow, "deny": policy.Deny,
			"pass": policy.Pass, "next-tier": policy.Pass, "log": policy.Log,
		}[strings.ToLower(r.Action)]
		require.True(t, ok, r.Action)
		for _, ids := range [][]string{
			r.SrcNamedPortIPSetIDs, r.NotSrcNamedPortIPSetIDs, r.DstNamedPortIPSetIDs, r.NotDstNamedPortIPSetIDs,
		} {
			for _, id := range ids {
				ports[id] = true
			}
		}
		out = append(out, dataplane.Rule{
			Action: action, IPVersion: r.IPVersion, Protocol: r.Protocol.convert(),
			NotProtocol: r.NotProtocol.convert(), HeaderMatch: policy.HeaderMatch{
				ICMP:    icmp(r.ICMPType, r.ICMPTypeCode),
				NotICMP: icmp(r.NotICMPType, r.NotICMPTypeCode),
			},
			Source: dataplane.Match{
				Nets: r.SrcNet, NotNets: r.NotSrcNet, Ports: r.SrcPorts.convert(), NotPorts: r.NotSrcPorts.convert(),
				Sets: ids(r.SrcIPSetIDs), NotSets: ids(r.NotSrcIPSetIDs), PortSets: ids(r.SrcNamedPortIPSetIDs),
				NotPortSets: ids(r.NotSrcNamedPortIPSetIDs),
			},
			Destination: dataplane.Match{
				Nets: r.DstNet, NotNets: r.NotDstNet, Ports: r.DstPorts.convert(), NotPorts: r.NotDstPorts.convert(),
				Sets: ids(r.DstIPSetIDs), NotSets: ids(r.NotDstIPSetIDs), PortSets: ids(r.DstNamedPortIPSetIDs),
				NotPortSets: ids(r.NotDstNamedPortIPSetIDs),
			},
		})
	}
	return out
}

func (p casePorts) convert() []policy.Port {
	var out []policy.Port
	for _, r := range p {
		out = append(out, policy.PortRange(r.First, r.Last))
	}
	return out
}

func ids(list []string) []dataplane.IPSetID {
	var out []dataplane.IPSetID
	for _, id := range list {
		out = append(out, dataplane.IPSetID(id))
	}
	return out
}

func icmp(t *int, tc *caseICMP) *policy.ICMP {
	switch {
	case tc != nil:
		return &policy.ICMP{Type: &tc.Type, Code: &tc.Code}
	case t != nil:
		return &policy.ICMP{Type: t}
	default:
		return nil
	}
}
