// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// packetCase is one endpoint's policy and packets through it, as in testdata/packets.jsonl.
type packetCase struct {
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

// state turns the case into one endpoint "way1" with the policy in both directions.
func (c packetCase) state(t *testing.T) dptest.State {
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
	for _, p := range c.Packets { // every source is the endpoint's own
		e.Addresses = append(e.Addresses, p.Src)
	}
	s.Endpoints[endpoint("way1")] = e
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

// endpoint returns the key of an endpoint.
func endpoint(name string) policy.Key {
	return policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: name}
}

// render makes the table of a state and insists that it is valid.
func rendered(t testing.TB, cfg render.Config, batches ...dataplane.Batch) (*ruleset.Table, []error) {
	r, err := render.New(cfg)
	require.NoError(t, err)
	for _, b := range batches {
		r.Update(b)
	}
	table, errs := r.Table()
	require.NoError(t, table.Validate())
	return table, errs
}

// transition is the batch that makes the state from nothing.
func transition(s dptest.State) dataplane.Batch { return dptest.Transition(dptest.NewState(), s) }

// TestPackets sends the packets of every recorded case through the rendered table, in both directions.
func TestPackets(t *testing.T) { nfttest.EachFormInParallel(t, testPackets) }

func testPackets(t *testing.T, classes render.ClassesConfig) {
	f, err := os.Open("testdata/packets.jsonl")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	count := 0
	for lines := bufio.NewScanner(f); lines.Scan(); count++ {
		var c packetCase
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.DisallowUnknownFields()
		require.NoError(t, dec.Decode(&c))
		t.Run(c.Name, func(t *testing.T) {
			require.Equal(t, "workload", c.Suite)
			table, errs := rendered(t, render.Config{Classes: classes}, transition(c.state(t)))
			require.Empty(t, errs)
			for i, p := range c.Packets {
				sp := simPacket{src: p.Src, dst: p.Dst, proto: p.Proto, ct: ruleset.CtNew, transport: make([]byte, 8)}
				switch policy.Protocol(p.Proto) {
				case policy.ProtocolTCP, policy.ProtocolUDP:
					sp.transport = ports(p.SrcPort, p.DstPort)
				case policy.ProtocolICMP, policy.ProtocolICMPv6:
					sp.transport = icmpHeader(p.ICMPType, p.ICMPCode)
				}
				for _, dir := range []string{"ingress", "egress"} {
					sp.iif, sp.oif = "eth0", "way1"
					if dir == "egress" {
						sp.iif, sp.oif = "way1", "eth0"
					}
					allowed, _ := judge(t, table, ruleset.Forward, sp)
					require.Equal(t, p.Verdict == "allow", allowed, "%s packet %d\n%s", dir, i, table)
				}
			}
		})
	}
	require.Equal(t, 44, count)
}
