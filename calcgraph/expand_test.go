// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/worldtext"
	"github.com/wayleave/wayleave/policy"
)

// expanders apply the same scripts in other ways. Each must result in the state of the script, and
// the mirror checks every step.
var expanders = map[string]func(p *pipeline, steps []step){
	"flush at the end": func(p *pipeline, steps []step) {
		for _, s := range steps {
			p.update(s.updates...)
		}
		p.graph.InSync()
	},
	"flush after each update": func(p *pipeline, steps []step) {
		p.graph.InSync()
		for _, s := range steps {
			for _, u := range s.updates {
				p.update(u)
				p.flush()
			}
		}
	},
	"in sync at the end": func(p *pipeline, steps []step) {
		for _, s := range steps {
			p.update(s.updates...)
			p.flush()
		}
		p.graph.InSync()
	},
	"reversed inputs": func(p *pipeline, steps []step) {
		p.graph.InSync()
		for _, s := range steps {
			// Updates of one object keep their order, because the last one is used.
			p.update(worldtext.Reversed(latest([]step{s}))...)
			p.flush()
		}
	},
	"squashed to the last update of each object": func(p *pipeline, steps []step) {
		p.graph.InSync()
		p.update(latest(steps)...)
	},
	"the last update of each object, reversed, one by one": func(p *pipeline, steps []step) {
		p.graph.InSync()
		for _, u := range worldtext.Reversed(latest(steps)) {
			p.update(u)
			p.flush()
		}
	},
	"every update twice, flushes between": func(p *pipeline, steps []step) {
		p.graph.InSync()
		for _, s := range steps {
			for range 2 {
				p.update(s.updates...)
				p.flush()
				p.flush()
			}
		}
	},
	"all steps twice": func(p *pipeline, steps []step) {
		p.graph.InSync()
		for range 2 {
			for _, s := range steps {
				p.update(s.updates...)
				p.flush()
			}
		}
	},
	"everything deleted between steps, in the same flush": func(p *pipeline, steps []step) {
		p.graph.InSync()
		for i := range steps {
			p.update(deletions(steps)...)
			p.update(latest(steps[:i+1])...)
			p.flush()
		}
	},
	"everything deleted between steps, in a flush of its own": func(p *pipeline, steps []step) {
		p.graph.InSync()
		for i := range steps {
			p.update(deletions(steps)...)
			p.flush()
			p.update(latest(steps[:i+1])...)
			p.flush()
		}
	},
	"there and back": func(p *pipeline, steps []step) {
		p.graph.InSync()
		order := append(slices.Clone(steps), steps...)
		slices.Reverse(order[:len(steps)])
		for _, s := range order {
			p.update(s.updates...)
			p.flush()
		}
	},
}

// TestExpandedScripts is S100: the final state depends only on the content of the datastore.
func TestExpandedScripts(t *testing.T) {
	for _, path := range scripts(t) {
		s := readScript(t, path)
		straight := newPipeline(t)
		for _, st := range s.steps {
			straight.update(st.updates...)
		}
		straight.graph.InSync()
		straight.flush()

		for name, expand := range expanders {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar")+"/"+name, func(t *testing.T) {
				p := newPipeline(t)
				expand(p, s.steps)
				p.flush()
				require.Equal(t, straight.state(), p.state())
				require.Empty(t, p.flush().Events, "a flush with nothing to do")
			})
		}
	}
}

// TestTeardownOrders deletes the objects of each script in several orders, with a flush after each.
// At the end, the state must be that of an empty graph. No order may cause a missing reference.
func TestTeardownOrders(t *testing.T) {
	for _, path := range scripts(t) {
		s := readScript(t, path)
		orders := map[string][]policy.Update{
			"in order":          deletions(s.steps),
			"last first":        worldtext.Reversed(deletions(s.steps)),
			"by kind":           deletionsByKind(s.steps),
			"by kind, reversed": worldtext.Reversed(deletionsByKind(s.steps)),
			"shuffled":          shuffled(deletions(s.steps), 1),
			"shuffled again":    shuffled(deletions(s.steps), 2),
		}
		for name, deletes := range orders {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar")+"/"+name, func(t *testing.T) {
				empty := newPipeline(t)
				empty.graph.InSync()
				empty.flush()

				p := newPipeline(t)
				p.graph.InSync()
				p.update(latest(s.steps)...)
				p.flush()
				for _, u := range deletes {
					p.update(u)
					p.flush()
				}
				require.Equal(t, empty.state(), p.state())
			})
		}
	}
}

func shuffled(updates []policy.Update, seed uint64) []policy.Update {
	out := slices.Clone(updates)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func deletionsByKind(steps []step) []policy.Update {
	out := deletions(steps)
	slices.SortStableFunc(out, func(a, b policy.Update) int { return a.Key.Compare(b.Key) })
	return out
}

// latest returns the last update of each object, and deletions a deletion of each, in the order of
// the first updates.
func latest(steps []step) []policy.Update { return worldtext.Latest(updatesOf(steps)) }

func deletions(steps []step) []policy.Update { return worldtext.Deletions(updatesOf(steps)) }

func updatesOf(steps []step) (all []policy.Update) {
	for _, s := range steps {
		all = append(all, s.updates...)
	}
	return all
}
