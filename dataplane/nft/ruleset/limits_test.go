// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// TestNil: a nil chain, set or hook is an error, not a panic.
func TestNil(t *testing.T) {
	require.ErrorContains(
		t, (&ruleset.Table{Name: "t", Chains: []*ruleset.Chain{nil}}).Validate(), "chain number 1: nil",
	)
	require.ErrorContains(
		t,
		(&ruleset.Table{
			Name: "t", Sets: []*ruleset.Set{{Name: "s", Key: []ruleset.Type{ruleset.TypeIPv4}}, nil},
		}).Validate(),
		"set number 2: nil",
	)
	broken := &ruleset.Table{Name: "sample", Chains: []*ruleset.Chain{nil}, Sets: []*ruleset.Set{nil}}
	for _, pair := range [][2]*ruleset.Table{{sample(), broken}, {broken, sample()}, {nil, broken}} {
		_, err := ruleset.Diff(pair[0], pair[1])
		require.ErrorContains(t, err, "nil")
	}
	other := &ruleset.Table{Name: "other", Sets: []*ruleset.Set{nil}}
	ops, err := ruleset.Diff(sample(), other)
	require.Error(t, err)
	require.Nil(t, ops, "no operations beside an error")
}

// TestValidateLimits: values that do not fit the kernel's fields, or for which nft has no syntax,
// are errors.
func TestValidateLimits(t *testing.T) {
	chain := func(h *ruleset.Hook, rules ...ruleset.Rule) *ruleset.Table {
		return &ruleset.Table{Name: "t", Chains: []*ruleset.Chain{
			{Name: "c", Hook: h, Rules: rules},
		}, Sets: []*ruleset.Set{
			{Name: "m", Key: []ruleset.Type{ruleset.TypeFibAddr}, Data: []ruleset.Type{ruleset.TypeMark}},
			{Name: "n", Key: []ruleset.Type{ruleset.TypeFibAddr}, Data: []ruleset.Type{ruleset.TypeIPv4}},
		}}
	}
	set := func(s ruleset.Set) *ruleset.Table {
		s.Name = "s"
		return &ruleset.Table{Name: "t", Sets: []*ruleset.Set{&s}}
	}
	fib := []ruleset.Field{ruleset.FibDaddrType}
	for want, x := range map[string]*ruleset.Table{
		"priority 4294967296: want 32 bits": chain(&ruleset.Hook{
			Point: ruleset.Input, Priority: 1 << 32, Policy: verdict(ruleset.Drop),
		}),
		"rule 1: a map by fib daddr type": chain(nil, do(ruleset.Assign{Field: ruleset.Mark, Fields: fib, Map: "m"})),
		"rule 2: a map by fib daddr type": chain(nil, do(ruleset.Counter{}),
			do(ruleset.NAT{Kind: ruleset.DNAT, Family: ruleset.FamilyIPv4, Fields: fib, Map: "n"})),
		"the end of a range of ports without a beginning": chain(nil, do(ruleset.NAT{
			Kind: ruleset.DNAT, Family: ruleset.FamilyIPv4, Addr: addr("10.0.0.1"), PortLast: 80,
		})),
		"gc-interval of 1200h0m0s": set(ruleset.Set{
			Key: []ruleset.Type{ruleset.TypeIPv4}, GCInterval: 50 * 24 * time.Hour,
		}),
		"a range of tcp_flag": set(ruleset.Set{
			Key: []ruleset.Type{ruleset.TypeTCPFlag}, Interval: true,
			Elements: []ruleset.Element{span(ruleset.Byte(1), ruleset.Byte(3))},
		}),
		"dscp of 64, at most 63": set(ruleset.Set{
			Key: []ruleset.Type{ruleset.TypeDSCP}, Elements: []ruleset.Element{one(ruleset.Byte(64))},
		}),
	} {
		require.ErrorContains(t, x.Validate(), want)
	}
}

// rulesOf returns a table with one chain, of a rule for each number.
func rulesOf(numbers []int) *ruleset.Table {
	c := &ruleset.Chain{Name: "c"}
	for _, n := range numbers {
		c.Rules = append(c.Rules, ruleset.Rule{
			Statements: []ruleset.Statement{ruleset.Counter{}}, Comment: fmt.Sprint(n),
		})
	}
	return &ruleset.Table{Name: "t", Chains: []*ruleset.Chain{c}}
}

// TestDiffOfManyRules: long chains keep their rules too, and with them their counters.
func TestDiffOfManyRules(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	var old, new []int
	for n := range 3000 {
		old = append(old, n%2900) // some of them twice
	}
	changes := 0
	for i, n := range old {
		if i%300 == 5 {
			changes++
			switch rng.IntN(3) {
			case 0:
				continue
			case 1:
				new = append(new, 10_000+i)
			}
		}
		new = append(new, n)
	}
	new = append([]int{-1}, append(new, -2)...)
	ops, err := ruleset.Diff(rulesOf(old), rulesOf(new))
	require.NoError(t, err)
	require.LessOrEqual(t, len(ops), changes+2)
	r := &replay{t: t, table: rulesOf(old)}
	for _, op := range ops {
		r.play(op)
	}
	require.True(t, rulesOf(new).Equal(r.table))

	for range 3 { // In random order: the result must only be correct.
		shuffled := slices.Clone(old)
		for range 1 + rng.IntN(2000) {
			i, j := rng.IntN(len(old)), rng.IntN(len(old))
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		}
		ops, err := ruleset.Diff(rulesOf(old), rulesOf(shuffled))
		require.NoError(t, err)
		r := &replay{t: t, table: rulesOf(old)}
		for _, op := range ops {
			r.play(op)
		}
		require.True(t, rulesOf(shuffled).Equal(r.table))
	}
}

// A large set that is cleared releases its memory.
func TestClearedSetReleasesMemory(t *testing.T) {
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
		all := state.View("s").Elements()
		change, err := state.Prepare(&ruleset.Delta{Elements: []ruleset.ElementDelta{{Set: "s", Delete: all[10:]}}})
		require.NoError(t, err)
		state.Commit(change)
		rest := slices.Clone(all[:10])
		all, change = nil, nil
		require.Less(t, int64(heap())-int64(before), int64(100_000), kind)
		require.Len(t, rest, state.Len("s"))
		for _, e := range state.View("s").Elements() {
			require.True(t, e.Equal(rest[0]))
			rest = rest[1:]
		}
		runtime.KeepAlive(state)
	}
}

// BenchmarkStateDispatch adds one element to a map that leads to many chains, and removes it.
func BenchmarkStateDispatch(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("chains=%d", n), func(b *testing.B) {
			table := &ruleset.Table{Name: "t"}
			s := &ruleset.Set{Name: "s", Key: []ruleset.Type{ruleset.TypeIPv4}, Verdicts: true}
			for i := range n {
				v := verdict(ruleset.Goto, fmt.Sprintf("c%05d", i))
				table.Chains = append(table.Chains, &ruleset.Chain{Name: v.Chain})
				s.Elements = append(s.Elements, ruleset.Element{Key: values(ipv4(uint32(i))), Verdict: &v})
			}
			table.Sets = append(table.Sets, s)
			state, err := ruleset.StateOf(table)
			require.NoError(b, err)
			e := ruleset.Element{Key: values(ipv4(1 << 30)), Verdict: s.Elements[5].Verdict}
			deltas := [2]*ruleset.Delta{
				{Elements: []ruleset.ElementDelta{{Set: "s", Add: []ruleset.Element{e}}}},
				{Elements: []ruleset.ElementDelta{{Set: "s", Delete: []ruleset.Element{e}}}},
			}
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
