// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
)

// stateTable has a set of each kind, and rules that reference them.
func stateTable() *ruleset.Table {
	addr := func(last byte) ruleset.Value { return ruleset.Addr(netip.AddrFrom4([4]byte{10, 0, 0, last})) }
	plainSet := &ruleset.Set{Name: "plain", Key: []ruleset.Type{ruleset.TypeIPv4}}
	concat := &ruleset.Set{Name: "concat", Key: []ruleset.Type{
		ruleset.TypeIPv4, ruleset.TypeProto, ruleset.TypeService,
	}}
	ranges := &ruleset.Set{Name: "ranges", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true}
	verdicts := &ruleset.Set{Name: "verdicts", Key: []ruleset.Type{ruleset.TypeIfname}, Verdicts: true}
	values := &ruleset.Set{
		Name: "values", Key: []ruleset.Type{ruleset.TypeIPv4}, Data: []ruleset.Type{ruleset.TypeIPv4},
	}
	for i := range byte(60) {
		if i%3 == 0 {
			plainSet.Elements = append(plainSet.Elements, one(addr(i)))
		}
		if i%5 == 0 {
			concat.Elements = append(concat.Elements, ruleset.Element{Key: []ruleset.Value{
				addr(i), ruleset.Byte(6), ruleset.Port(80 + uint16(i%2)),
			}})
			ranges.Elements = append(ranges.Elements, ruleset.Element{Key: []ruleset.Value{addr(i)}, Last: addr(i + 1)})
			values.Elements = append(values.Elements, ruleset.Element{
				Key: []ruleset.Value{addr(i)}, Data: []ruleset.Value{addr(i + 100)},
			})
		}
	}
	to := verdict(ruleset.Goto, "more")
	drop := verdict(ruleset.Drop)
	verdicts.Elements = []ruleset.Element{
		{Key: []ruleset.Value{ruleset.Ifname("wan0")}, Verdict: &to},
		{Key: []ruleset.Value{ruleset.Ifname("wan1")}, Verdict: &drop},
	}
	tcp := is(ruleset.L4Proto, ruleset.Byte(6))
	v4 := is(ruleset.NFProto, ruleset.Byte(ruleset.NFProtoIPv4))
	return table(plainSet, concat, ranges, verdicts, values,
		base("b", ruleset.Forward, 0,
			rule(drop, v4, ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPSaddr}, Set: "plain"}),
			rule(ruleset.VMap{Fields: []ruleset.Field{ruleset.IIFName}, Map: "verdicts"})),
		plain("more",
			rule(drop, v4, tcp, ruleset.Lookup{
				Fields: []ruleset.Field{ruleset.IPDaddr, ruleset.L4Proto, ruleset.Dport}, Set: "concat",
			}),
			rule(drop, v4, ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPSaddr}, Not: true, Set: "ranges"})),
		&ruleset.Chain{
			Name: "translate",
			Hook: &ruleset.Hook{
				Type: ruleset.HookNAT, Point: ruleset.Postrouting, Priority: 100, Policy: verdict(ruleset.Accept),
			},
			Rules: []ruleset.Rule{rule(
				ruleset.NAT{
					Kind: ruleset.SNAT, Family: ruleset.FamilyIPv4, Fields: []ruleset.Field{ruleset.IPSaddr},
					Map: "values",
				},
				v4,
			)},
		})
}

// A simulator of a state has the same trace as one of its table.
func TestState(t *testing.T) {
	x := stateTable()
	state, err := ruleset.StateOf(x)
	require.NoError(t, err)
	ofState, err := simulate.New(simulate.Config{State: state})
	require.NoError(t, err)
	ofTable, err := simulate.New(simulate.Config{Table: x})
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(3, 4))
	verdicts, translated := map[ruleset.VerdictKind]int{}, 0
	for range 5000 {
		p := packet4()
		p.IIFName = []string{"wan0", "wan1", "wan2"}[rng.IntN(3)]
		p.Src = netip.AddrFrom4([4]byte{10, 0, 0, byte(rng.IntN(64))})
		p.Dst = netip.AddrFrom4([4]byte{10, 0, 0, byte(rng.IntN(64))})
		p.DstPort = 80 + uint16(rng.IntN(3))
		for _, point := range []ruleset.HookPoint{ruleset.Forward, ruleset.Postrouting} {
			want, err := ofTable.Trace(point, p, simulate.Conn{})
			require.NoError(t, err)
			got, err := ofState.Trace(point, p, simulate.Conn{})
			require.NoError(t, err)
			require.Equal(t, want, got)
			verdicts[got.Verdict]++
			translated += len(got.Translations)
		}
	}
	require.Greater(t, min(verdicts[ruleset.Accept], verdicts[ruleset.Drop], translated), 500)
}

// With a simulator of a state, only packets that reach a chain with raw expressions fail.
func TestStateRefuses(t *testing.T) {
	to := verdict(ruleset.Jump, "more")
	raw := ruleset.Raw{Text: "x", Expressions: [][]byte{{1, 2, 3, 4}}}
	state, err := ruleset.StateOf(table(plain("more", rule(raw)),
		base("b", ruleset.Forward, 0, rule(to, is(ruleset.IIFName, ruleset.Ifname("wan1"))))))
	require.NoError(t, err)
	s, err := simulate.New(simulate.Config{State: state})
	require.NoError(t, err)
	p := packet4()
	_, err = s.Run(ruleset.Forward, p, simulate.Conn{})
	require.NoError(t, err)
	p.IIFName = "wan1"
	for range 2 {
		_, err = s.Run(ruleset.Forward, p, simulate.Conn{})
		require.ErrorContains(t, err, "chain more: rule 1")
	}
	_, err = simulate.New(simulate.Config{State: state, Table: stateTable()})
	require.Error(t, err, "one or the other")
}

// Limited reports whether a packet reached a limit statement, not whether the limit was exceeded.
func TestLimitedIsReported(t *testing.T) {
	x := table(base("b", ruleset.Forward, 0, rule(verdict(ruleset.Drop), is(ruleset.IIFName, ruleset.Ifname("wan1"))),
		rule(ruleset.Limit{Rate: 1, Burst: 1}, is(ruleset.L4Proto, ruleset.Byte(6)))))
	p := packet4()
	require.True(t, trace(t, x, ruleset.Forward, p, simulate.Conn{}).Limited)
	p.OverLimit = true
	require.True(t, trace(t, x, ruleset.Forward, p, simulate.Conn{}).Limited)
	p.IIFName = "wan1"
	require.False(t, trace(t, x, ruleset.Forward, p, simulate.Conn{}).Limited)
}
