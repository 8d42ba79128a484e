// SPDX-License-Identifier: Apache-2.0

package change_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/alike"
	"github.com/wayleave/wayleave/examples/internal/change"
	"github.com/wayleave/wayleave/examples/internal/matrix"
	"github.com/wayleave/wayleave/examples/internal/question"
	"github.com/wayleave/wayleave/examples/internal/sample"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// standIns returns the ports of a plan one of which stands for what is asked: those that are it; or
// else those of the same type of message; or else those that stand for all that nobody mentions.
func standIns(plan sample.Plan, p question.Port) []sample.Port {
	var found [3][]sample.Port
	for _, s := range plan.Ports {
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
	return plan.Ports[len(plan.Ports)-1:] // a protocol that nobody mentions
}

// flowKind is what a change is found for.
type flowKind struct {
	from, to, port string
	is6            bool
}

// What is judged otherwise for any flow between any pods is found by trying the ports of the plan
// between the groups: grouping and sampling lose nothing.
func TestNothingIsMissed(t *testing.T) {
	alikes := 0
	for seed := range uint64(16) {
		before, after := twoWorlds(seed)
		e1, e2 := verdict.New(before), verdict.New(after)
		book := question.NewBook(before)
		pods := book.Pods()
		space := alike.NewSpace(before, after)
		groups := space.Groups(pods)
		alikes += len(pods) - len(groups)
		plan := sample.Ports(before, after)
		run := change.Run{Before: e1, After: e2, Parties: groups, Ports: plan.Ports}
		found := map[flowKind]bool{}
		require.NoError(t, run.Each(t.Context(), func(p change.Pair) error {
			for _, from := range p.From {
				for _, to := range p.To {
					for _, c := range p.Changes {
						for _, port := range c.Ports {
							kind := flowKind{from.Name, to.Name, port.String(), false}
							found[kind] = found[kind] || port.IPv4
							kind.is6 = true
							found[kind] = found[kind] || port.IPv6
						}
					}
				}
			}
			return nil
		}))
		rng := rand.New(rand.NewPCG(seed, 1))
		for range 400 {
			from, to := pods[rng.IntN(len(pods))], pods[rng.IntN(len(pods))]
			if question.Same(from, to) {
				continue
			}
			asked := packet(rng)
			standIns := standIns(plan, asked)
			require.NotEmpty(t, standIns, "seed %d: %s", seed, asked)
			for _, flow := range asked.Flows(from, to) {
				listed := slices.ContainsFunc(standIns, func(p sample.Port) bool {
					return found[flowKind{from.Name, to.Name, p.String(), flow.Src.Is6()}]
				})
				if e1.Evaluate(flow) != e2.Evaluate(flow) {
					require.True(t, listed, "seed %d: %s -> %s: %s changes, and is not found by %v", seed, from.Name,
						to.Name, flow, standIns)
				}
			}
		}
	}
	require.Greater(t, alikes, 50, "the worlds have hardly any replicas")
}

// A matrix of groups says the same of every pair of pods as one of the pods.
func TestGroupsSayTheSame(t *testing.T) {
	for seed := range uint64(30) {
		world, _ := twoWorlds(seed)
		cfg := matrix.Config{Evaluator: verdict.New(world), Pods: question.NewBook(world).Pods()}
		rng := rand.New(rand.NewPCG(seed, 2))
		for range 10 {
			cfg.Port = packet(rng)
			require.Equal(t, pairs(t, cfg), func() map[string]matrix.Cell {
				grouped := cfg
				grouped.Space = alike.NewSpace(world)
				return pairs(t, grouped)
			}(), "seed %d %s", seed, cfg.Port)
		}
	}
}

func pairs(t *testing.T, cfg matrix.Config) map[string]matrix.Cell {
	t.Helper()
	m, err := matrix.Compute(t.Context(), cfg)
	require.NoError(t, err)
	out := map[string]matrix.Cell{}
	require.NoError(t, m.Each(func(from, to question.Party, c matrix.Cell) error {
		out[from.Name+" "+to.Name] = c
		return nil
	}))
	return out
}

// Every address outside is judged as one of those that stand for all.
func TestOutsideIsCovered(t *testing.T) {
	for seed := range uint64(30) {
		world, _ := twoWorlds(seed)
		e := verdict.New(world)
		pods := question.NewBook(world).Pods()
		outside := alike.NewSpace(world).Outside()
		rng := rand.New(rand.NewPCG(seed, 3))
		for range 20 {
			addr := address(rng)
			if slices.ContainsFunc(pods, func(p question.Party) bool { return slices.Contains(p.Addresses, addr) }) {
				continue
			}
			x := question.Party{Addresses: []netip.Addr{addr}}
			var asked []question.Port
			for range 4 {
				asked = append(asked, packet(rng))
			}
			want := verdicts(e, x, pods, asked)
			require.True(t, slices.ContainsFunc(outside, func(p question.Party) bool {
				return p.Addresses[0].Is4() == addr.Is4() && slices.Equal(want, verdicts(e, p, pods, asked))
			}), "seed %d: nobody stands for %s", seed, addr)
		}
	}
}

func verdicts(e *verdict.Evaluator, x question.Party, pods []question.Party, ports []question.Port) []verdict.Result {
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
