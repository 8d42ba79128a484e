// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
	"github.com/wayleave/wayleave/policy/worlds"
)

// reference is the kit's reference, dptest.State.Judge behind a graph, beside the evaluator of
// resources.
type reference struct {
	graph  *calcgraph.Graph
	mirror *dptest.Mirror
	world  verdict.World
}

func newReference(t *testing.T) *reference {
	graph, err := calcgraph.New(calcgraph.Config{Node: worlds.Node})
	require.NoError(t, err)
	graph.InSync()
	return &reference{graph: graph, mirror: dptest.NewMirror(), world: verdict.World{}}
}

func (r *reference) play(t *testing.T, updates []policy.Update) {
	for _, u := range updates {
		r.graph.Update(u)
	}
	r.world.Apply(updates...)
	require.NoError(t, r.mirror.Play(r.graph.Flush()))
}

// agree requires that both have the same verdict for a packet, and returns whether they allow it.
func (r *reference) agree(t *testing.T, e *verdict.Evaluator, p dptest.Packet) (allowed bool) {
	unknown := policy.Key{Kind: policy.KindWorkloadEndpoint, Name: "unknown"}
	f := verdict.Flow{
		Src: p.Src, Dst: p.Dst, Protocol: p.Protocol, SrcPort: p.SrcPort, DstPort: p.DstPort,
		ICMPType: p.ICMPType, ICMPCode: p.ICMPCode, Header: p.Header, SrcEndpoint: p.From, DstEndpoint: p.To,
	}
	if p.From == (policy.Key{}) { // the mirror has no policy of other nodes
		f.SrcEndpoint = unknown
	}
	if p.To == (policy.Key{}) {
		f.DstEndpoint = unknown
	}
	allowed = r.mirror.Judge(p).Allowed()
	require.Equal(t, e.Evaluate(f).Combined != verdict.Deny, allowed,
		"%s\n%s\n%s", describe(p), e.Explain(f), r.mirror.State())
	return allowed
}

// The cases of resources have the verdicts of the evaluator.
func TestCasesAgreeWithEvaluator(t *testing.T) {
	for _, c := range cases() {
		if c.state != nil {
			continue
		}
		r := newReference(t)
		steps, err := c.parse([3]string{"wl1", "wl2", "wl3"})
		require.NoError(t, err)
		for _, s := range steps {
			r.play(t, s.updates)
			e := verdict.New(r.world)
			for _, p := range s.packets {
				owners := owners(r.mirror.State())
				p.packet.From, p.packet.To = owners[p.packet.Src], owners[p.packet.Dst]
				require.Equal(t, p.allowed, r.agree(t, e, p.packet), "%s: %s", c.name, describe(p.packet))
			}
		}
	}
}

// In random worlds, the reference has the verdicts of the evaluator. Allow and Deny both occur.
func TestReferenceAgreesWithEvaluator(t *testing.T) {
	counts := map[bool]int{}
	for seed := range uint64(2 * defaultWorlds) {
		gen, rng := newWorlds(seed, [3]string{"wl1", "wl2", "wl3"}), rand.New(rand.NewPCG(seed, 1))
		r := newReference(t)
		for step := range steps {
			r.play(t, nextBatch(gen, step))
			e := verdict.New(r.world)
			for _, p := range newProber(rng, r.mirror.State()).probes(maxProbes) {
				counts[r.agree(t, e, p)]++
			}
		}
	}
	t.Logf("%d packets allowed, %d denied", counts[true], counts[false])
	require.Greater(t, min(counts[true], counts[false]), 1500)
}
