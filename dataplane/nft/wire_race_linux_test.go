// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// A packet in our chains during a commit uses the previous generation of rules, but the new
// elements. New chains are empty for it. These tests apply states one by one which all deny some
// packets. None of these passes at any moment.

// An interface moves from one workload endpoint to another and back.
func TestWireHandover(t *testing.T) { nfttest.EachForm(t, testWireHandover) }

func testWireHandover(t *testing.T, classes render.ClassesConfig) {
	for name, change := range map[string]func(name string) dptest.State{"receives": closedTo, "sends": closedFrom} {
		t.Run(name, func(t *testing.T) {
			b := newTracked(t, classes, change("way2"))
			other := change("way2")
			other.Endpoints[endpointKey("other")] = other.Endpoints[endpointKey("way2")]
			delete(other.Endpoints, endpointKey("way2"))
			from, to := 0, 1
			if name == "sends" {
				from, to = to, from
			}
			b.neverPasses(
				t, wireRounds(100, 1000), []dptest.State{other, b.at},
				func(f verdict.Flow) wireFlow { return pairFlow(from, to, 0, f) },
			)
		})
	}
}

// An address that a rule denies stays denied while its class, its outcome or its group changes.
func TestWireClassHandover(t *testing.T) { nfttest.EachForm(t, testWireClassHandover) }

func testWireClassHandover(t *testing.T, classes render.ClassesConfig) {
	bad := workloadAddrs(0)[0].String()
	state := func(port uint16, other ...string) dptest.State {
		s, tiers := denied(shop())
		s.Sets["s:bad"], s.Sets["s:other"] = members(bad), members(other...)
		s.Policies[tiers[0].Policies[0]] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
			{
				ID: "tcp", Action: policy.Allow, Protocol: policy.ProtocolTCP, Source: set("s:bad"),
				Destination: dataplane.Match{Ports: nfttest.PortList(policy.PortNumber(port))},
			},
			{ID: "bad", Action: policy.Deny, Source: set("s:bad")},
			{ID: "other", Action: policy.Deny, Source: set("s:other")},
			nfttest.AllowAll("rest"),
		}}
		return edit(s, "way2", func(e *dataplane.Endpoint) { e.Ingress = tiers })
	}
	first := state(1, "192.0.2.7")
	down := edit(first, "way2", func(e *dataplane.Endpoint) { e.Down = true })
	for name, second := range map[string]dptest.State{
		"its class": state(1, "192.0.2.7", bad), "its outcome": state(2, "192.0.2.7"), "its group": down,
	} {
		t.Run(name, func(t *testing.T) {
			b := newTracked(t, classes, first)
			b.neverPasses(
				t, wireRounds(50, 500), []dptest.State{second, first},
				func(f verdict.Flow) wireFlow { return pairFlow(0, 1, 0, f) },
			)
		})
	}
}

// S173: the sender's policy denies a packet in the old state, the receiver's in the new one. The
// packet passes in neither state, nor during the change.
func TestWireBothPolicies(t *testing.T) { nfttest.EachForm(t, testWireBothPolicies) }

func testWireBothPolicies(t *testing.T, classes render.ClassesConfig) {
	s, tiers := denied(shop())
	sender := edit(s, "way1", func(e *dataplane.Endpoint) { e.Egress = tiers })
	receiver := edit(s, "way2", func(e *dataplane.Endpoint) { e.Ingress = tiers })
	b := newTracked(t, classes, sender)
	b.neverPasses(
		t, wireRounds(100, 1000), []dptest.State{receiver, sender},
		func(f verdict.Flow) wireFlow { return pairFlow(0, 1, 0, f) },
	)
}

// An interface of the host moves from one host endpoint to another, to the one for all interfaces,
// and back. The test does this with each list for forwarded packets.
func TestWireHostHandover(t *testing.T) { nfttest.EachForm(t, testWireHostHandover) }

func testWireHostHandover(t *testing.T, classes render.ClassesConfig) {
	lists := map[string]func(h *dataplane.HostEndpoint, p *dataplane.Policy, tiers []dataplane.TierPolicies){
		"forward ingress": func(h *dataplane.HostEndpoint, _ *dataplane.Policy, tiers []dataplane.TierPolicies) {
			h.ForwardIngress = tiers
		},
		"forward egress": func(h *dataplane.HostEndpoint, _ *dataplane.Policy, tiers []dataplane.TierPolicies) {
			h.ForwardEgress = tiers
		},
		"pre-DNAT ingress": func(h *dataplane.HostEndpoint, p *dataplane.Policy, tiers []dataplane.TierPolicies) {
			h.PreDNATIngress, p.PreDNAT, p.Egress = tiers, true, nil
		},
		"untracked ingress": func(h *dataplane.HostEndpoint, p *dataplane.Policy, tiers []dataplane.TierPolicies) {
			h.UntrackedIngress, p.Untracked = tiers, true
		},
	}
	src, dst := netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("203.0.113.2")
	for name, put := range lists {
		t.Run(name, func(t *testing.T) {
			b := &tracked{wire: newWire(t, []string{"eth0", "eth1"}, nil), at: dptest.NewState()}
			b.setRoute(t, src, "eth0")
			b.setRoute(t, dst, "eth1")
			b.plane = open(t, b.node, render.Config{Classes: classes})
			state := func(key, iface string) dptest.State {
				s, tiers := denied(dptest.NewState())
				s.InSync = true
				h := &dataplane.HostEndpoint{Interface: iface}
				put(h, s.Policies[tiers[0].Policies[0]], tiers)
				s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: key}] = h
				return s
			}
			iface := "eth0"
			if name == "forward egress" {
				iface = "eth1"
			}
			b.become(t, state("a", iface))
			states := []dptest.State{state("b", iface), state("rest", policy.AllInterfaces), b.at}
			b.neverPasses(t, wireRounds(50, 500), states, func(f verdict.Flow) wireFlow {
				f.Src, f.Dst = src, dst
				return wireFlow{Flow: f, from: endOf("eth0", src), to: endOf("eth1", dst)}
			})
		})
	}
}

// neverPasses applies the states one by one, and requires that no packet passes meanwhile.
func (b *tracked) neverPasses(t *testing.T, rounds int, states []dptest.State, flow func(verdict.Flow) wireFlow) {
	t.Helper()
	var flows []wireFlow
	for range 64 {
		b.port++
		flows = append(flows, flow(verdict.Flow{Protocol: policy.ProtocolUDP, SrcPort: b.port, DstPort: 80}))
	}
	packets := 0
	for round := range rounds {
		next, done := states[round%len(states)], make(chan error, 1)
		batch := dptest.Transition(b.at, next)
		go func() { done <- b.plane.Apply(t.Context(), batch) }()
		for running := true; running; {
			packets += len(flows)
			for i, arrived := range b.volley(t, flows) {
				require.False(t, arrived, "round %d: %s", round, flows[i].Flow)
			}
			select {
			case err := <-done:
				require.NoError(t, err)
				running = false
			default:
			}
		}
		b.at = next
	}
	t.Log(rounds, "changes,", packets, "packets")
}
