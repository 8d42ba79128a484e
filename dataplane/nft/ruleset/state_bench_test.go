// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// manyOf returns a state whose set "s" has n elements. They are addresses in a hash set, addresses
// in a verdict map, or ranges of two addresses in an interval set.
func manyOf(t testing.TB, kind string, n int) *ruleset.State {
	s := &ruleset.Set{
		Name: "s", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: kind == "interval", Verdicts: kind == "map",
	}
	goes := verdict(ruleset.Goto, "c")
	for i := range uint32(n) {
		e := one(ipv4(0x0a000000 + 4*i))
		switch kind {
		case "interval":
			e.Last = ipv4(0x0a000001 + 4*i)
		case "map":
			e.Verdict = &goes
		}
		s.Elements = append(s.Elements, e)
	}
	state, err := ruleset.StateOf(&ruleset.Table{
		Name: "t", Sets: []*ruleset.Set{s}, Chains: []*ruleset.Chain{{Name: "c"}},
	})
	require.NoError(t, err)
	return state
}

// addAndDelete returns the deltas that add and delete one element.
func addAndDelete(kind string) [2]*ruleset.Delta {
	e := one(ipv4(0x0a000002 + 4*5000))
	if kind == "map" {
		goes := verdict(ruleset.Goto, "c")
		e.Verdict = &goes
	}
	return [2]*ruleset.Delta{
		{Elements: []ruleset.ElementDelta{{Set: "s", Add: []ruleset.Element{e}}}},
		{Elements: []ruleset.ElementDelta{{Set: "s", Delete: []ruleset.Element{e}}}},
	}
}

func BenchmarkStateElement(b *testing.B) {
	for _, kind := range []string{"hash", "map", "interval"} {
		for _, n := range []int{1_000, 100_000} {
			b.Run(fmt.Sprintf("%s/elements=%d", kind, n), func(b *testing.B) {
				state, deltas := manyOf(b, kind, n), addAndDelete(kind)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					change, err := state.Prepare(deltas[i%2])
					if err != nil || len(change.Ops) != 1 {
						b.Fatal(err)
					}
					state.Commit(change)
				}
			})
		}
	}
}

func BenchmarkStateFill(b *testing.B) {
	for _, kind := range []string{"hash", "map", "interval"} {
		b.Run(kind+"/elements=100000", func(b *testing.B) {
			table := manyOf(b, kind, 100_000).Table()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ruleset.StateOf(table); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/element")
		})
	}
}

// BenchmarkStateRule replaces one rule of one chain among many.
func BenchmarkStateRule(b *testing.B) {
	for _, n := range []int{10, 1_000} {
		b.Run(fmt.Sprintf("chains=%d", n), func(b *testing.B) {
			table := &ruleset.Table{Name: "t"}
			for i := range n {
				c := &ruleset.Chain{Name: fmt.Sprintf("c%04d", i)}
				for j := range 10 {
					c.Rules = append(c.Rules, ruleset.Rule{
						Matches: []ruleset.Match{
							is(ruleset.NFProto, ruleset.Byte(2)), is(ruleset.IPSaddr, ipv4(uint32(j))),
						},
						Statements: []ruleset.Statement{verdict(ruleset.Drop)},
					})
				}
				table.Chains = append(table.Chains, c)
			}
			state, err := ruleset.StateOf(table)
			require.NoError(b, err)
			other := table.Chains[5].Clone()
			other.Rules[4].Comment = "other"
			deltas := [2]*ruleset.Delta{{Chains: []*ruleset.Chain{other}}, {Chains: []*ruleset.Chain{table.Chains[5]}}}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				change, err := state.Prepare(deltas[i%2])
				if err != nil || len(change.Ops) != 1 {
					b.Fatal(err)
				}
				state.Commit(change)
			}
		})
	}
}

// TestMemoryPerElement: an element needs no more memory than its limit, in total. The heap is
// measured before and after, when the inputs of the state are freed.
func TestMemoryPerElement(t *testing.T) {
	const n = 100_000
	heap := func() uint64 {
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for _, kind := range []string{"hash", "map", "interval"} {
		before := heap()
		state := manyOf(t, kind, n)
		per := float64(heap()-before) / n
		t.Logf("%s: %.1f bytes an element", kind, per)
		require.Less(t, per, 40.0, kind)
		require.Equal(t, n, state.Len("s"))
	}
}
