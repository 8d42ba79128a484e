// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
)

// representatives returns the groups that can represent a port. These are the groups that contain
// the port, else groups of the same ICMP type, else groups of unmentioned ports and messages.
func representatives(groups []probe.PortGroup, p probe.Port) []probe.PortGroup {
	var found [3][]probe.PortGroup
	for _, s := range groups {
		ping := s.Protocol == policy.ProtocolICMP && !s.Typed && p.Typed
		echo := p.Protocol == policy.ProtocolICMP && p.Type == 8 || p.Protocol == policy.ProtocolICMPv6 && p.Type == 128
		same := s.Protocol == p.Protocol || ping
		switch {
		case ping && echo && p.Code == 0, same && p.Typed && s.Typed && s.Type == p.Type && s.Code == p.Code:
			found[0] = append(found[0], s)
		case same && p.Protocol.HasPorts() && s.Mentioned && s.Number <= p.Number && p.Number <= s.Last:
			found[0] = append(found[0], s)
		case same && !p.Protocol.HasPorts() && !p.Typed:
			found[0] = append(found[0], s)
		case ping && echo, same && p.Typed && s.Typed && s.Type == p.Type:
			found[1] = append(found[1], s)
		case same && (!s.Mentioned || ping):
			found[2] = append(found[2], s)
		}
	}
	for _, list := range found {
		if len(list) > 0 {
			return list
		}
	}
	return groups[len(groups)-1:] // unmentioned protocols
}

// flowKind identifies flows by their endpoints, their port group and their address family.
type flowKind struct {
	from, to, port string
	is6            bool
}

// If the verdict of any flow between any pods changes, it changes for a representative, too:
// grouping and sampling lose nothing.
func TestRepresentativesShowEveryChange(t *testing.T) {
	alikes := 0
	for seed := range uint64(16) {
		before, after := twoWorlds(seed)
		e1, e2 := verdict.New(before), verdict.New(after)
		index := probe.NewIndex(before)
		pods := index.Endpoints()
		partition := probe.NewPartition(before, after)
		groups := partition.Groups(pods)
		alikes += len(pods) - len(groups)
		ports := partition.Ports()
		run := probe.Comparison{Before: e1, After: e2, Parties: groups, Ports: ports}
		found := map[flowKind]bool{}
		require.NoError(t, run.Each(func(p probe.PairChange) error {
			for _, from := range p.From {
				for _, to := range p.To {
					for _, c := range p.Changes {
						for _, port := range c.Ports {
							for _, family := range port.Families {
								found[flowKind{from, to, port.Port, family == "IPv6"}] = true
							}
						}
					}
				}
			}
			return nil
		}))
		rng := rand.New(rand.NewPCG(seed, 1))
		for range 400 {
			from, to := pods[rng.IntN(len(pods))], pods[rng.IntN(len(pods))]
			if probe.Same(from, to) {
				continue
			}
			query := packet(rng)
			representatives := representatives(ports, query)
			require.NotEmpty(t, representatives, "seed %d: %s", seed, query)
			for _, flow := range query.Flows(from, to) {
				listed := slices.ContainsFunc(representatives, func(p probe.PortGroup) bool {
					return found[flowKind{from.Name, to.Name, p.String(), flow.Src.Is6()}]
				})
				if e1.Evaluate(flow) != e2.Evaluate(flow) {
					require.True(t, listed, "seed %d: %s -> %s: %s changes, and is not found by %v", seed, from.Name,
						to.Name, flow, representatives)
				}
			}
		}
	}
	require.Greater(t, alikes, 50, "the worlds have too few replicas")
}

// All members of two groups have the verdicts of the first members.
func TestGroupMembersHaveEqualVerdicts(t *testing.T) {
	for seed := range uint64(30) {
		world, _ := twoWorlds(seed)
		e := verdict.New(world)
		groups := probe.NewPartition(world).Groups(probe.NewIndex(world).Endpoints())
		rng := rand.New(rand.NewPCG(seed, 2))
		for range 4 {
			port := packet(rng)
			for _, senders := range groups {
				for _, receivers := range groups {
					want := map[bool]string{}
					for _, from := range senders {
						for _, to := range receivers {
							if probe.Same(from, to) {
								continue
							}
							got := outcomes(e, port, from, to)
							for _, is6 := range []bool{false, true} {
								if want[is6] == "" {
									want[is6] = got[is6]
								}
								require.Equal(t, want[is6], got[is6], "seed %d: %s -> %s %s", seed, from.Name, to.Name,
									port)
							}
						}
					}
				}
			}
		}
	}
}

// outcomes returns the outcomes of all flows, by whether they are IPv6.
func outcomes(e *verdict.Evaluator, port probe.Port, from, to probe.Party) map[bool]string {
	out := map[bool]string{}
	for _, flow := range port.Flows(from, to) {
		out[flow.Src.Is6()] += string(e.Evaluate(flow).Combined) + " "
	}
	return out
}

// Every address outside has the verdict of one of Outside.
func TestOutsideIsCovered(t *testing.T) {
	for seed := range uint64(30) {
		world, _ := twoWorlds(seed)
		e := verdict.New(world)
		pods := probe.NewIndex(world).Endpoints()
		outside := probe.NewPartition(world).Outside()
		rng := rand.New(rand.NewPCG(seed, 3))
		for range 20 {
			addr := address(rng)
			if slices.ContainsFunc(pods, func(p probe.Party) bool { return slices.Contains(p.Addresses, addr) }) {
				continue
			}
			x := probe.Party{Addresses: []netip.Addr{addr}}
			var ports []probe.Port
			for range 4 {
				ports = append(ports, packet(rng))
			}
			want := verdicts(e, x, pods, ports)
			require.True(t, slices.ContainsFunc(outside, func(p probe.Party) bool {
				return p.Addresses[0].Is4() == addr.Is4() && slices.Equal(want, verdicts(e, p, pods, ports))
			}), "seed %d: no party represents %s", seed, addr)
		}
	}
}

func verdicts(e *verdict.Evaluator, x probe.Party, pods []probe.Party, ports []probe.Port) []verdict.Result {
	var out []verdict.Result
	for _, pod := range pods {
		for _, port := range ports {
			for _, flow := range append(port.Flows(x, pod), port.Flows(pod, x)...) {
				out = append(out, e.Evaluate(flow))
			}
		}
	}
	return out
}
