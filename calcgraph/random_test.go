// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

var (
	firstSeed = flag.Uint64("seed", 1, "first seed of the random worlds")
	seedCount = flag.Int("seeds", 200, "how many random worlds to run, of some 120 updates each; more is a soak")
)

// TestRandomWorlds applies random updates to the graphs of two nodes, with random flushes. It
// compares the state of their mirrors with:
//
//   - the reference evaluator, packet by packet;
//   - the lists of host endpoints computed from their definition;
//   - a graph that receives the final world at once, in another order (S100);
//   - a second graph with the same input, which must return the same bytes.
func TestRandomWorlds(t *testing.T) {
	n := *seedCount
	if testing.Short() {
		n /= 10
	}
	for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
		checkSeed(t, seed)
	}
}

func FuzzGraph(f *testing.F) {
	f.Add(uint64(1))
	f.Add(uint64(1 << 40))
	f.Fuzz(func(t *testing.T, seed uint64) { checkSeed(t, seed) })
}

// checkSeed runs a world. If that fails, it searches for a short script that fails, too, and prints
// both.
func checkSeed(t *testing.T, seed uint64) {
	t.Helper()
	ops := newOpGen(seed).ops()
	for _, node := range []string{"n1", "n2"} {
		err := runWorld(node, seed, ops)
		if err == nil {
			continue
		}
		short := minimised(ops, func(part []op) bool { return runWorld(node, seed, part) != nil })
		var script strings.Builder
		for _, o := range short {
			fmt.Fprintln(&script, o)
		}
		require.Fail(t, "a random world fails", "seed %d, node %s: %s\n\nminimised, %s\n%s",
			seed, node, err, runWorld(node, seed, short), script.String())
	}
}

// A failing script keeps only the steps that it needs to fail.
func TestFailingScriptIsMinimised(t *testing.T) {
	var ops []op
	for i := range 100 {
		ops = append(ops, op{update: endpoint(fmt.Sprint(i), "10.0.0.1")})
	}
	needed := []string{ops[3].String(), ops[50].String(), ops[99].String()}
	short := minimised(ops, func(part []op) bool {
		for _, s := range needed {
			if !slices.ContainsFunc(part, func(o op) bool { return o.String() == s }) {
				return false
			}
		}
		return true
	})
	require.Len(t, short, 3)
}

// run is a world during the test.
type run struct {
	node   string
	graph  *calcgraph.Graph
	twin   *calcgraph.Graph
	mirror *dptest.Mirror
	world  verdict.World
	gen    *opGen
}

func newRun(node string, seed uint64) (*run, error) {
	graph, err := calcgraph.New(calcgraph.Config{Node: node})
	if err != nil {
		return nil, err
	}
	twin, err := calcgraph.New(calcgraph.Config{Node: node})
	return &run{
		node: node, graph: graph, twin: twin, mirror: dptest.NewMirror(), world: verdict.World{},
		gen: newOpGen(seed + 1),
	}, err
}

// runWorld applies the steps and returns an error if the result is wrong.
func runWorld(node string, seed uint64, ops []op) error {
	r, err := newRun(node, seed)
	if err != nil {
		return err
	}
	synced := false
	for _, o := range ops {
		switch {
		case o.inSync:
			synced = true
			r.graph.InSync()
			r.twin.InSync()
		case o.flush:
			err = r.flush(synced)
		default:
			r.world.Apply(o.update)
			r.graph.Update(o.update)
			r.twin.Update(o.update)
		}
		if err != nil {
			return err
		}
	}
	r.graph.InSync()
	r.twin.InSync()
	if err := r.flush(true); err != nil {
		return err
	}
	if batch := r.graph.Flush(); !batch.Empty() {
		return fmt.Errorf("a flush without updates has events: %s", batch)
	}
	return r.checkFresh(seed)
}

func (r *run) flush(synced bool) error {
	if err := r.checkSnapshot("before a flush"); err != nil {
		return err
	}
	batch, twin := r.graph.Flush(), r.twin.Flush()
	if batch.String() != twin.String() {
		return fmt.Errorf("equal input, different output:\n%s\n\n%s", batch, twin)
	}
	if err := r.mirror.Play(batch); err != nil {
		return err
	}
	if !synced {
		return nil
	}
	if unused := r.mirror.Unused(); len(unused) > 0 {
		return fmt.Errorf("unused objects: %s", unused)
	}
	if err := r.checkSnapshot("after a flush"); err != nil {
		return err
	}
	if err := r.checkHosts(); err != nil {
		return err
	}
	return r.checkVerdicts(15)
}

// checkSnapshot compares the snapshot with the mirror.
func (r *run) checkSnapshot(when string) error {
	late := dptest.NewMirror()
	if err := late.Play(r.graph.Snapshot()); err != nil {
		return fmt.Errorf("snapshot %s: %w", when, err)
	}
	if want, got := r.mirror.State(), late.State(); !want.Equal(got) {
		return fmt.Errorf("snapshot %s:\n%s\nand not\n%s", when, got, want)
	}
	return nil
}

// checkFresh applies the world to a new graph, in random order.
func (r *run) checkFresh(seed uint64) error {
	fresh, err := newRun(r.node, seed)
	if err != nil {
		return err
	}
	fresh.graph.InSync()
	rng := rand.New(rand.NewPCG(seed, 3))
	keys := slices.SortedFunc(maps.Keys(r.world), policy.Key.Compare)
	rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, key := range keys {
		fresh.graph.Update(policy.Update{Key: key, Resource: r.world[key]})
	}
	if err := fresh.mirror.Play(fresh.graph.Flush()); err != nil {
		return fmt.Errorf("the world at once: %w", err)
	}
	if want, got := fresh.mirror.State(), r.mirror.State(); !want.Equal(got) {
		return fmt.Errorf("the state depends on the order of updates:\n%s\nand at once\n%s", got, want)
	}
	return nil
}
