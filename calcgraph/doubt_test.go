// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"flag"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
	"github.com/wayleave/wayleave/policy/worlds"
)

var doubtSeeds = flag.Uint64("doubtseeds", 100, "how many random worlds TestCorruptRule corrupts")

// S167: a doubt is reported with key and field when it begins, when it changes and when it ends.
func TestDoubtHook(t *testing.T) {
	var calls []string
	graph, err := calcgraph.New(calcgraph.Config{Node: node, Hooks: calcgraph.Hooks{
		Rejected: func(key policy.Key, err error) { calls = append(calls, "rejected "+key.String()) },
		Doubt: func(key policy.Key, doubt *policy.DoubtError) {
			if doubt == nil {
				calls = append(calls, "no doubt "+key.String())
				return
			}
			require.Equal(t, key, doubt.Key)
			for _, p := range doubt.Problems {
				calls = append(calls, key.String()+" "+p.Field)
			}
		},
	}})
	require.NoError(t, err)
	bad := policy.Rule{Action: policy.Deny, Protocol: policy.ProtocolTCP, Destination: policy.EntityRule{
		Ports: []policy.Port{policy.PortNumber(80), {}},
	}}
	good := policy.Rule{Action: policy.Allow}
	with := func(selector string, rules ...policy.Rule) policy.Update {
		p := &policy.Policy{Name: "p", Selector: selector, Ingress: rules}
		return policy.Update{Key: p.Key(), Resource: p}
	}
	step := func(u policy.Update, doubts int, want ...string) {
		t.Helper()
		calls = nil
		graph.Update(u)
		require.Equal(t, want, calls)
		require.Equal(t, doubts, graph.Stats().Doubts)
	}
	step(with("", good), 0)
	step(with("", bad, good), 1, "Policy/p ingress[0].destination.ports[1]")
	step(with("", bad, good), 1)
	step(with("", good, bad), 1, "Policy/p ingress[1].destination.ports[1]")
	step(with("", good), 0, "no doubt Policy/p")
	step(with("", good), 0)
	step(with("", bad), 1, "Policy/p ingress[0].destination.ports[1]")
	step(with("a ==", bad), 0, "rejected Policy/p", "no doubt Policy/p")
	step(with("", bad), 1, "Policy/p ingress[0].destination.ports[1]")
	key := policy.Key{Kind: policy.KindPolicy, Name: "p"}
	step(policy.Update{Key: key}, 0, "no doubt Policy/p")
	step(policy.Update{Key: key}, 0)
}

// S167: an update that changes only the doubts of a policy sends no event (S99).
func TestChangedDoubtSendsNoEvents(t *testing.T) {
	graph := newGraph(t)
	graph.InSync()
	graph.Update(endpoint("x", "10.0.0.1"))
	bad := func(field string) policy.Update {
		p := &policy.Policy{Name: "p", Ingress: []policy.Rule{{Action: policy.Deny}}}
		p.Ingress[0].Close(policy.Problem{Field: field, Msg: "x"})
		return policy.Update{Key: p.Key(), Resource: p}
	}
	graph.Update(bad("ingress[0].a"))
	require.NotEmpty(t, graph.Flush().Events)
	graph.Update(bad("ingress[0].b"))
	require.Empty(t, graph.Flush().Events)
}

// S167: if any field of any rule of a random world is corrupted, denied flows stay denied, and the
// graph agrees with the evaluator.
func TestCorruptRule(t *testing.T) {
	corrupted, denied, allowed := 0, 0, 0
	for seed := range *doubtSeeds {
		r, err := newRun(node, seed)
		require.NoError(t, err)
		for range 70 {
			u := r.gen.Update()
			r.world.Apply(u)
			r.graph.Update(u)
			r.twin.Update(u)
		}
		r.graph.InSync()
		r.twin.InSync()
		require.NoError(t, r.flush(true), "seed %d", seed)
		before := verdict.New(r.world)
		p := r.gen.corruptPolicy(r.world, before)
		if p == nil {
			continue
		}
		corrupted++
		u := policy.Update{Key: p.Key(), Resource: p}
		r.world.Apply(u)
		r.graph.Update(u)
		r.twin.Update(u)
		require.NoError(t, r.flush(true), "seed %d: %s", seed, p.Key()) // checks the verdicts, too
		after := verdict.New(r.world)
		require.Contains(t, after.Doubts(), p.Key(), "seed %d", seed)
		for range 200 {
			pkt := r.gen.Packet()
			flow := verdict.Flow{
				Src: pkt.Src, Dst: pkt.Dst, Protocol: pkt.Protocol,
				SrcPort: pkt.SrcPort, DstPort: pkt.DstPort, ICMPType: pkt.ICMPType, ICMPCode: pkt.ICMPCode,
			}
			was, now := before.Evaluate(flow), after.Evaluate(flow)
			for _, side := range [][2]verdict.Outcome{{was.Egress, now.Egress}, {was.Ingress, now.Ingress}} {
				if side[0] == verdict.Deny {
					require.Equal(t, verdict.Deny, side[1], "seed %d: %s\n%s", seed, flow, after.Explain(flow))
				}
				if side[0] == verdict.Allow && side[1] == verdict.Deny {
					denied++
				}
				if side[1] == verdict.Allow {
					allowed++
				}
			}
		}
	}
	require.Greater(t, corrupted, int(*doubtSeeds/2))
	t.Logf("%d rules corrupted: %d verdicts from Allow to Deny, %d still Allow", corrupted, denied, allowed)
	require.Positive(t, denied)
	require.Positive(t, allowed)
}

// corruptPolicy returns a copy of an admitted policy with one rule corrupted, or nil if no policy
// has a rule.
func (g *opGen) corruptPolicy(w verdict.World, e *verdict.Evaluator) *policy.Policy {
	var candidates []*policy.Policy
	for _, key := range slices.SortedFunc(maps.Keys(w), policy.Key.Compare) {
		p, ok := w[key].(*policy.Policy)
		if ok && e.Rejected()[key] == nil && len(p.Ingress)+len(p.Egress) > 0 {
			candidates = append(candidates, p)
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	p := policy.Clone(worlds.Pick(g.Generator, candidates)).(*policy.Policy)
	if n := g.rng.IntN(len(p.Ingress) + len(p.Egress)); n < len(p.Ingress) {
		g.Corrupt(&p.Ingress[n])
	} else {
		g.Corrupt(&p.Egress[n-len(p.Ingress)])
	}
	return p
}
