// SPDX-License-Identifier: Apache-2.0

package policysync_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/wire/policysync"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/worlds"
)

// In random worlds, after each batch, the state of a subscriber is exactly the closure of its
// endpoint. Some subscribe at the start, some later, and some read rarely. A Mirror applies each
// response, so the events are in order. A Client follows each endpoint, also when it is removed and
// added again.
func TestSubscribersHoldTheClosureOfTheirEndpoint(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		gen := worlds.New(worlds.Config{Seed: seed, Open: true})
		graph, err := calcgraph.New(calcgraph.Config{Node: worlds.Node})
		require.NoError(t, err)
		// Half of the worlds have so small a queue that slow subscribers get snapshots.
		seen := map[policy.Action]int{}
		server, path := serve(t, policysync.ServerConfig{MaxQueued: 1 + int(seed%2)*10_000})
		mirror := dptest.NewMirror()
		for range 40 { // before InSync
			graph.Update(gen.Update())
		}
		first := graph.Flush()
		require.NoError(t, mirror.Play(first))
		require.NoError(t, server.Apply(t.Context(), first))
		graph.InSync()

		readers, clients := map[policy.Key][]*reader{}, map[policy.Key]*watched{}
		for range 12 {
			for range 1 + rng.IntN(15) {
				graph.Update(gen.Update())
			}
			b := graph.Flush()
			require.NoError(t, mirror.Play(b))
			require.NoError(t, server.Apply(t.Context(), b))
			require.NoError(t, server.Apply(t.Context(), b), "a retry changes nothing")
			state := mirror.State()
			for k, list := range readers {
				if state.Endpoints[k] == nil {
					for _, r := range list {
						requireNotFound(t, r)
					}
					delete(readers, k)
				}
			}
			for k := range state.Endpoints {
				if len(readers[k]) < 3 {
					readers[k] = append(readers[k], subscribe(t, path(k)))
				}
				if clients[k] == nil {
					clients[k] = watch(t, path(k))
				}
				want := closure(state, k)
				for i, r := range readers[k] {
					if i != 1 || rng.IntN(3) == 0 { // the second reader is slow
						r.until(want)
					}
				}
				clients[k].until(t, want)
				got := clients[k].client.State()
				require.Equal(t, k, got.Key)
				requireVerdicts(t, state, got, gen, seen)
			}
		}
		require.Greater(t, seen[policy.Allow], 10, "seed %d", seed)
		require.Greater(t, seen[policy.Deny], 10, "seed %d", seed)
		for k := range mirror.State().Endpoints { // the slow ones, too
			for _, r := range readers[k] {
				r.until(closure(mirror.State(), k))
			}
		}
	}
}

// requireVerdicts compares the decisions of a client about random packets with those of the whole
// state.
func requireVerdicts(
	t *testing.T, whole dptest.State, s *policysync.State, gen *worlds.Generator, seen map[policy.Action]int,
) {
	t.Helper()
	for range 20 {
		r := gen.Packet()
		p := dptest.Packet{
			Src: r.Src, Dst: r.Dst, Protocol: r.Protocol, SrcPort: r.SrcPort, DstPort: r.DstPort,
			ICMPType: r.ICMPType, ICMPCode: r.ICMPCode, Header: r.Header, From: s.Key, To: s.Key,
		}
		want := whole.Judge(p)
		require.Equal(t, want.Ingress, s.Ingress(p, 0), "%+v", p)
		require.Equal(t, want.Egress, s.Egress(p, 0), "%+v", p)
		seen[want.Ingress.Action]++
		seen[want.Egress.Action]++
	}
}
