// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/internal/worldgen"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

var (
	firstSeed = flag.Uint64("seed", 1, "first seed of the random worlds")
	seedCount = flag.Int("seeds", 150, "how many random worlds to run")
)

// TestRandomWorlds feeds random updates to a graph, flushing now and then, and holds what
// the mirror then has against two witnesses: the reference evaluator, packet by packet, and a graph that is given
// the final world at once, in another order (S100).
func TestRandomWorlds(t *testing.T) {
	n := *seedCount
	if testing.Short() {
		n /= 5
	}
	for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runWorld(t, seed) })
	}
}

func FuzzGraph(f *testing.F) {
	f.Add(uint64(1))
	f.Add(uint64(1 << 40))
	f.Fuzz(func(t *testing.T, seed uint64) { runWorld(t, seed) })
}

func runWorld(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	gen := worldgen.New(seed)
	world := verdict.World{}
	p := newPipeline(t)
	p.t = t
	inSyncAt := rng.IntN(30)
	for i := range 60 + rng.IntN(80) {
		u := gen.Update()
		world.Apply(u)
		p.update(u)
		if i == inSyncAt {
			p.graph.InSync()
		}
		if rng.IntN(4) == 0 {
			p.flush()
		}
		if i > inSyncAt && rng.IntN(25) == 0 {
			p.flush()
			checkVerdicts(t, gen, world, p, 40)
		}
	}
	p.graph.InSync()
	p.flush()
	checkVerdicts(t, gen, world, p, 150)

	fresh := newPipeline(t)
	fresh.graph.InSync()
	keys := slices.SortedFunc(maps.Keys(world), policy.Key.Compare)
	rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, key := range keys {
		fresh.update(policy.Update{Key: key, Resource: world[key]})
	}
	fresh.flush()
	require.Equal(t, fresh.state(), p.state(), "the path mattered")
}

// checkVerdicts compares the evaluator with the resolved state in the mirror, on flows between
// the endpoints of this node and anybody.
func checkVerdicts(t *testing.T, gen *worldgen.Gen, world verdict.World, p *pipeline, flows int) {
	t.Helper()
	evaluator := verdict.New(world)
	state := p.mirror.State()
	local := slices.SortedFunc(maps.Keys(state.Endpoints), policy.Key.Compare)
	if len(local) == 0 {
		return
	}
	none := policy.Key{Kind: policy.KindWorkloadEndpoint, Name: "nobody"}
	for range flows {
		pkt := gen.Packet()
		from, to := worldgen.Pick(gen, local), worldgen.Pick(gen, local)
		// Usually packets between addresses that endpoints have; always with the endpoints named, since addresses are shared.
		pkt.Src = sameFamily(pkt.Src, state.Endpoints[from].Addresses)
		pkt.Dst = sameFamily(pkt.Dst, state.Endpoints[to].Addresses)
		flow := verdict.Flow{
			SrcEndpoint: from, DstEndpoint: to, Src: pkt.Src, Dst: pkt.Dst, Protocol: pkt.Protocol,
			SrcPort: pkt.SrcPort, DstPort: pkt.DstPort, ICMPType: pkt.ICMPType, ICMPCode: pkt.ICMPCode,
		}
		packet := dptest.Packet{
			From: from, To: to, Src: pkt.Src, Dst: pkt.Dst, Protocol: pkt.Protocol,
			SrcPort: pkt.SrcPort, DstPort: pkt.DstPort, ICMPType: pkt.ICMPType, ICMPCode: pkt.ICMPCode,
		}
		switch worldgen.Pick(gen, []int{0, 0, 0, 1, 2}) {
		case 1:
			flow.SrcEndpoint, packet.From = none, policy.Key{}
		case 2:
			flow.DstEndpoint, packet.To = none, policy.Key{}
		}
		want, got := evaluator.Evaluate(flow), state.Judge(packet)
		require.Equal(t, outcomes(want), [2]string{action(got.Egress), action(got.Ingress)},
			"flow %s\n%s\nmirror: %+v\n%s", flow, evaluator.Explain(flow), got, state)
	}
}

func outcomes(r verdict.Result) [2]string {
	name := func(o verdict.Outcome) string {
		if o == verdict.NotApplicable {
			return ""
		}
		return string(o)
	}
	return [2]string{name(r.Egress), name(r.Ingress)}
}

func action(d dptest.Decision) string { return string(d.Action) }

// sameFamily returns the first of the addresses that is of the family of addr, or addr.
func sameFamily(addr netip.Addr, addrs []netip.Addr) netip.Addr {
	for _, a := range addrs {
		if a.Is4() == addr.Is4() {
			return a
		}
	}
	return addr
}
