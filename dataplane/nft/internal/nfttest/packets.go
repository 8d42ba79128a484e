// SPDX-License-Identifier: Apache-2.0

package nfttest

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// PacketCase has one endpoint's policy, and packets for it, in the form of testdata/packets.jsonl.
type PacketCase struct {
	Name, Suite string
	Family      int
	Tiers       []struct {
		Name      string
		EndAction string `json:"end_action"`
		Policies  []packetRules
	}
	Profiles []packetRules
	IPSets   map[string][]string `json:"ip_sets"`
	Packets  []struct {
		Proto    uint8
		Src, Dst netip.Addr
		SrcPort  uint16 `json:"src_port"`
		DstPort  uint16 `json:"dst_port"`
		ICMPType uint8  `json:"icmp_type"`
		ICMPCode uint8  `json:"icmp_code"`
		Verdict  string
	}
}

type packetRules struct {
	Name  string
	Rules []packetRule
}

type packetRule struct {
	Action               policy.Action
	IPVersion            int
	Protocol             packetProto
	NotProtocol          packetProto
	ICMPType             *int
	NotICMPType          *int
	SrcNet               []netip.Prefix
	DstNet               []netip.Prefix
	NotSrcNet            []netip.Prefix
	NotDstNet            []netip.Prefix
	SrcPorts             []policyPort
	DstPorts             []policyPort
	NotSrcPorts          []policyPort
	NotDstPorts          []policyPort
	SrcIPSetIDs          []dataplane.IPSetID
	DstIPSetIDs          []dataplane.IPSetID
	NotSrcIPSetIDs       []dataplane.IPSetID
	NotDstIPSetIDs       []dataplane.IPSetID
	SrcNamedPortIPSetIDs []dataplane.IPSetID
	DstNamedPortIPSetIDs []dataplane.IPSetID
}

type policyPort struct{ First, Last uint16 }

type packetProto struct {
	Name   string
	Number uint8
}

func (p packetProto) protocol(t *testing.T) policy.Protocol {
	switch p.Name {
	case "":
		return policy.Protocol(p.Number)
	case "tcp":
		return policy.ProtocolTCP
	case "udp":
		return policy.ProtocolUDP
	default:
		t.Fatalf("protocol %s", p.Name)
		return 0
	}
}

func (r packetRule) rule(t *testing.T, id string) dataplane.Rule {
	ranges := func(in []policyPort) (out []policy.Port) {
		for _, p := range in {
			out = append(out, policy.PortRange(p.First, p.Last))
		}
		return out
	}
	out := dataplane.Rule{
		ID: id, Action: r.Action, IPVersion: r.IPVersion,
		Protocol: r.Protocol.protocol(t), NotProtocol: r.NotProtocol.protocol(t),
		Source: dataplane.Match{
			Nets: r.SrcNet, NotNets: r.NotSrcNet, Sets: r.SrcIPSetIDs, NotSets: r.NotSrcIPSetIDs,
			Ports: ranges(r.SrcPorts), NotPorts: ranges(r.NotSrcPorts), PortSets: r.SrcNamedPortIPSetIDs,
		},
		Destination: dataplane.Match{
			Nets: r.DstNet, NotNets: r.NotDstNet, Sets: r.DstIPSetIDs, NotSets: r.NotDstIPSetIDs,
			Ports: ranges(r.DstPorts), NotPorts: ranges(r.NotDstPorts), PortSets: r.DstNamedPortIPSetIDs,
		},
	}
	if r.ICMPType != nil {
		out.ICMP = &policy.ICMP{Type: r.ICMPType}
	}
	if r.NotICMPType != nil {
		out.NotICMP = &policy.ICMP{Type: r.NotICMPType}
	}
	if out.Action == "" {
		out.Action = policy.Allow
	}
	return out
}

// State returns a state with one endpoint "way1", which has the policy of the case in both
// directions.
func (c PacketCase) State(t *testing.T) dptest.State {
	s := dptest.NewState()
	s.InSync = true
	e := &dataplane.Endpoint{Interface: "way1"}
	for id, members := range c.IPSets {
		s.Sets[dataplane.IPSetID(id)] = packetSet(t, members)
	}
	for _, tier := range c.Tiers {
		tp := dataplane.TierPolicies{Tier: tier.Name, DefaultAction: policy.Deny}
		if tier.EndAction == "pass" {
			tp.DefaultAction = policy.Pass
		}
		for _, p := range tier.Policies {
			key := policy.Key{Kind: policy.KindPolicy, Name: tier.Name + "." + p.Name}
			pol := &dataplane.Policy{Tier: tier.Name}
			for i, r := range p.Rules {
				pol.Ingress = append(pol.Ingress, r.rule(t, fmt.Sprintf("%s-%d", p.Name, i)))
			}
			pol.Egress = pol.Ingress
			s.Policies[key] = pol
			tp.Policies = append(tp.Policies, key)
		}
		e.Ingress = append(e.Ingress, tp)
	}
	e.Egress = e.Ingress
	for _, p := range c.Profiles {
		prof := &dataplane.Profile{}
		for i, r := range p.Rules {
			prof.Ingress = append(prof.Ingress, r.rule(t, fmt.Sprintf("%s-%d", p.Name, i)))
		}
		prof.Egress = prof.Ingress
		s.Profiles[p.Name] = prof
		e.Profiles = append(e.Profiles, p.Name)
	}
	for _, p := range c.Packets { // every source is an address of the endpoint
		e.Addresses = append(e.Addresses, p.Src)
	}
	s.Endpoints[EndpointKey("way1")] = e
	return s
}

func packetSet(t *testing.T, members []string) dptest.Set {
	var set dptest.Set
	for _, m := range members {
		net, port, named := strings.Cut(m, ",")
		member := dataplane.Member{Prefix: netip.MustParsePrefix(net)}
		if named {
			set.Type = dataplane.IPSetPorts
			proto, number, _ := strings.Cut(port, ":")
			member.Protocol = packetProto{Name: proto}.protocol(t)
			n, err := strconv.ParseUint(number, 10, 16)
			require.NoError(t, err)
			member.Port = uint16(n)
		}
		set.Members = append(set.Members, member)
	}
	return set
}
