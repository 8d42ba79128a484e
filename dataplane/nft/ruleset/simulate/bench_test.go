// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
)

// bigSimulator has a base chain that drops packets from the addresses of a set (the even ones from
// 10.0.0.0 on). Then a map leads from the interface to one of many chains of ten rules.
func bigSimulator(t testing.TB, chains, elements int) *simulate.Simulator {
	t.Helper()
	bad := &ruleset.Set{Name: "bad", Key: []ruleset.Type{ruleset.TypeIPv4}}
	for i := range elements {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 15), byte(i >> 7), byte(i << 1)})
		bad.Elements = append(bad.Elements, one(ruleset.Addr(a)))
	}
	to := &ruleset.Set{Name: "targets", Key: []ruleset.Type{ruleset.TypeIfname}, Verdicts: true}
	parts := []any{bad, to, base("b", ruleset.Forward, 0,
		rule(verdict(ruleset.Drop), is(ruleset.NFProto, ruleset.Byte(ruleset.NFProtoIPv4)),
			ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPSaddr}, Set: "bad"}),
		rule(ruleset.VMap{Fields: []ruleset.Field{ruleset.IIFName}, Map: "targets"}),
	)}
	for i := range chains {
		name := fmt.Sprintf("wan%d", i)
		jump := verdict(ruleset.Jump, "chain-"+name)
		to.Elements = append(to.Elements, ruleset.Element{Key: []ruleset.Value{ruleset.Ifname(name)}, Verdict: &jump})
		c := plain("chain-" + name)
		for j := range 10 {
			c.Rules = append(c.Rules, rule(
				accept, is(ruleset.L4Proto, ruleset.Byte(6)), is(ruleset.Dport, ruleset.Port(uint16(20000+j))),
			))
		}
		parts = append(parts, c)
	}
	s, err := simulate.New(simulate.Config{Table: table(parts...)})
	require.NoError(t, err)
	return s
}

func TestRunAllocatesNothing(t *testing.T) {
	s := bigSimulator(t, 10, 1000)
	p := packet4()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if r, err := s.Run(ruleset.Forward, p, simulate.Conn{}); err != nil || r.Verdict != ruleset.Accept {
			t.Fail()
		}
	}))
}

// TestSets looks random keys up in random sets, and compares the results with a linear search.
func TestSets(t *testing.T) {
	types := []ruleset.Type{ruleset.TypeIPv4, ruleset.TypeProto, ruleset.TypeService, ruleset.TypeMark}
	fields := []ruleset.Field{ruleset.IPSaddr, ruleset.L4Proto, ruleset.Dport, ruleset.Mark}
	found := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 2))
		parts := 2 + rng.IntN(3)
		ranged := rng.IntN(1 << parts)
		if parts == len(types) {
			ranged = 0 // no ranges beside marks
		}
		set := &ruleset.Set{Name: "s", Key: types[:parts], Interval: ranged != 0}
		var boxes [][][2]uint32
		for range 1 + rng.IntN(40) {
			box := make([][2]uint32, parts)
			for i := range box {
				box[i][0] = rng.Uint32N(100)
				box[i][1] = box[i][0]
				if ranged&(1<<i) != 0 {
					box[i][1] += rng.Uint32N(30)
				}
			}
			if !slices.ContainsFunc(boxes, func(o [][2]uint32) bool { return overlap(o, box) }) {
				boxes = append(boxes, box)
				set.Elements = append(set.Elements, boxElement(box, ranged != 0))
			}
		}
		s, err := simulate.New(simulate.Config{Table: table(set, base("b", ruleset.Forward, 0,
			rule(drop, ruleset.Lookup{Fields: fields[:parts], Set: "s"})))})
		require.NoError(t, err, "seed %d", seed)
		for range 200 {
			key := make([][2]uint32, parts)
			near := boxes[rng.IntN(len(boxes))]
			for i := range key {
				v := near[i][rng.IntN(2)] + rng.Uint32N(3) - 1
				key[i] = [2]uint32{v, v}
			}
			if key[0][0] > 255 { // below the lowest address
				continue
			}
			p := simulate.Packet{
				Src: netip.AddrFrom4([4]byte{10, 0, 0, byte(key[0][0])}), Dst: packet4().Dst,
				Protocol: uint8(key[1][0]),
			}
			p.Transport = make([]byte, 8)
			if parts > 2 {
				copy(p.Transport[2:], ruleset.Port(uint16(key[2][0])))
			}
			if parts > 3 {
				p.Mark = key[3][0]
			}
			r, err := s.Run(ruleset.Forward, p, simulate.Conn{})
			require.NoError(t, err)
			key[1][0], key[1][1] = uint32(p.Protocol), uint32(p.Protocol)
			want := slices.ContainsFunc(boxes, func(o [][2]uint32) bool { return overlap(o, key) })
			require.Equal(t, want, r.Verdict == ruleset.Drop, "seed %d: %v in %v", seed, key, boxes)
			if want {
				found++
			}
		}
	}
	require.Greater(t, found, 1000)
}

func overlap(a, b [][2]uint32) bool {
	for i := range a {
		if a[i][1] < b[i][0] || b[i][1] < a[i][0] {
			return false
		}
	}
	return true
}

// boxElement returns an element for ranges of numbers, as addresses, protocols, ports and marks.
func boxElement(box [][2]uint32, ranges bool) (e ruleset.Element) {
	for i, p := range box {
		for j, v := range p {
			value := []ruleset.Value{{10, 0, 0, byte(v)}, {byte(v)}, ruleset.Port(uint16(v)), ruleset.Uint32(v)}[i]
			if j == 0 {
				e.Key = append(e.Key, value)
			} else if ranges {
				e.Ends = append(e.Ends, value)
			}
		}
	}
	return e
}

func BenchmarkRun(b *testing.B) {
	for _, scale := range []struct{ chains, elements int }{{10, 100}, {1000, 100_000}} {
		s := bigSimulator(b, scale.chains, scale.elements)
		p := packet4()
		p.Src = netip.MustParseAddr("10.0.0.1")
		for _, trace := range []bool{false, true} {
			b.Run(fmt.Sprintf(
				"chains=%d/elements=%d/trace=%v", scale.chains, scale.elements, trace,
			), func(b *testing.B) {
				run := s.Run
				if trace {
					run = s.Trace
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := run(ruleset.Forward, p, simulate.Conn{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		bigSimulator(b, 1000, 1000)
	}
}
