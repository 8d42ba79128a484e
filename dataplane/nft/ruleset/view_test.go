// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// A view finds the element with an id, and the interval around a value.
func TestViewOfOneElement(t *testing.T) {
	ipv4, mark := []ruleset.Type{ruleset.TypeIPv4}, []ruleset.Type{ruleset.TypeMark}
	addr := func(s string) ruleset.Value { return ruleset.Addr(netip.MustParseAddr(s)) }
	el := func(data uint32, first, last string) ruleset.Element {
		e := ruleset.Element{Key: []ruleset.Value{addr(first)}, Data: []ruleset.Value{ruleset.Uint32(data)}}
		if last != "" {
			e.Last = addr(last)
		}
		return e
	}
	hosts := &ruleset.Set{Name: "hosts", Key: ipv4, Data: mark, Elements: []ruleset.Element{el(1, "10.0.0.1", "")}}
	nets := &ruleset.Set{Name: "nets", Key: ipv4, Data: mark, Interval: true, Elements: []ruleset.Element{
		el(1, "10.0.0.0", "10.0.0.7"), el(2, "10.0.0.9", ""), el(3, "10.0.1.0", "10.0.1.255"),
	}}
	s := ruleset.NewState(ruleset.FamilyINet, "t")
	change, err := s.Prepare(&ruleset.Delta{Sets: []*ruleset.Set{hosts, nets}})
	require.NoError(t, err)
	s.Commit(change)

	e, ok := s.View("hosts").Get(addr("10.0.0.1"))
	require.True(t, ok)
	require.Equal(t, hosts.Elements[0], e)
	_, ok = s.View("hosts").Get(addr("10.0.0.2"))
	require.False(t, ok)
	_, ok = s.View("hosts").Around(addr("10.0.0.1"))
	require.False(t, ok, "not a set of intervals")

	for value, want := range map[string]uint32{
		"9.255.255.255": 0, "10.0.0.0": 1, "10.0.0.5": 1, "10.0.0.7": 1, "10.0.0.8": 0, "10.0.0.9": 2,
		"10.0.0.10": 0, "10.0.1.255": 3, "10.0.2.0": 0,
	} {
		e, ok := s.View("nets").Around(addr(value))
		require.Equal(t, want != 0, ok, value)
		if ok {
			require.Equal(t, []ruleset.Value{ruleset.Uint32(want)}, e.Data, value)
		}
	}
}

// Find looks up keys in each kind of set, also in one that the State does not have.
func TestViewFind(t *testing.T) {
	ipv4, port := ruleset.TypeIPv4, ruleset.TypeService
	addr := func(s string) ruleset.Value { return ruleset.Addr(netip.MustParseAddr(s)) }
	a, b := addr("10.0.0.1"), addr("10.0.0.9")
	join := func(values ...ruleset.Value) []byte { return slices.Concat(values...) }
	jump, drop := ruleset.Verdict{Kind: ruleset.Jump, Chain: "c"}, ruleset.Verdict{Kind: ruleset.Drop}
	sets := map[string]*ruleset.Set{
		"hash": {Key: []ruleset.Type{ipv4, port}, Data: []ruleset.Type{ipv4, port}, Elements: []ruleset.Element{
			{Key: []ruleset.Value{a, ruleset.Port(80)}, Data: []ruleset.Value{b, ruleset.Port(8080)}},
		}},
		"intervals": {Key: []ruleset.Type{ipv4}, Interval: true, Verdicts: true, Elements: []ruleset.Element{
			{Key: []ruleset.Value{a}, Last: addr("10.0.0.4"), Verdict: &jump},
			{Key: []ruleset.Value{b}, Verdict: &drop},
		}},
		"boxes": {Key: []ruleset.Type{ipv4, port}, Interval: true, Verdicts: true, Elements: []ruleset.Element{
			{Key: []ruleset.Value{a, ruleset.Port(80)}, Ends: []ruleset.Value{b, ruleset.Port(90)}, Verdict: &drop},
			{Key: []ruleset.Value{a, ruleset.Port(91)}, Verdict: &jump},
			{Key: []ruleset.Value{b, ruleset.Port(91)}, Ends: []ruleset.Value{nil, ruleset.Port(99)}, Verdict: &jump},
		}},
		"empty": {Key: []ruleset.Type{ipv4}, Interval: true},
	}
	table := &ruleset.Table{Name: "t", Chains: []*ruleset.Chain{{Name: "c"}}}
	for name, s := range sets {
		s.Name = name
		table.Sets = append(table.Sets, s)
	}
	state, err := ruleset.StateOf(table)
	require.NoError(t, err)
	for _, c := range []struct {
		set     string
		key     []byte
		data    []byte
		verdict ruleset.Verdict
	}{
		{set: "hash", key: join(a, ruleset.Port(80)), data: join(b, ruleset.Port(8080))},
		{set: "hash", key: join(a, ruleset.Port(81))},
		{set: "hash", key: a},
		{set: "intervals", key: addr("10.0.0.0")},
		{set: "intervals", key: a, verdict: jump},
		{set: "intervals", key: addr("10.0.0.4"), verdict: jump},
		{set: "intervals", key: addr("10.0.0.5")},
		{set: "intervals", key: b, verdict: drop},
		{set: "intervals", key: addr("10.0.0.10")},
		{set: "intervals", key: join(b, ruleset.Port(80))},
		{set: "boxes", key: join(addr("10.0.0.5"), ruleset.Port(90)), verdict: drop},
		{set: "boxes", key: join(addr("10.0.0.5"), ruleset.Port(91))},
		{set: "boxes", key: join(addr("10.0.0.10"), ruleset.Port(80))},
		{set: "boxes", key: join(a, ruleset.Port(91)), verdict: jump},
		{set: "boxes", key: join(b, ruleset.Port(99)), verdict: jump},
		{set: "boxes", key: join(a, ruleset.Port(99))},
		{set: "empty", key: a},
	} {
		apart, err := state.ViewOf(sets[c.set])
		require.NoError(t, err)
		for _, view := range []ruleset.View{state.View(c.set), apart} {
			data, verdict, ok := view.Find(c.key)
			require.Equal(t, c.data != nil || c.verdict != ruleset.Verdict{}, ok, "%s: %x", c.set, c.key)
			require.Equal(t, c.verdict, verdict, "%s: %x", c.set, c.key)
			require.Equal(t, string(c.data), string(data), "%s: %x", c.set, c.key)
		}
	}
}

// ViewOf refuses a set with invalid elements.
func TestViewOfInvalidSet(t *testing.T) {
	state := ruleset.NewState(ruleset.FamilyINet, "t")
	key := []ruleset.Value{ruleset.Addr(netip.MustParseAddr("10.0.0.1"))}
	missing := ruleset.Verdict{Kind: ruleset.Jump, Chain: "missing"}
	for want, s := range map[string]*ruleset.Set{
		"no verdict":    {Verdicts: true, Elements: []ruleset.Element{{Key: key}}},
		"no such chain": {Verdicts: true, Elements: []ruleset.Element{{Key: key, Verdict: &missing}}},
		"overlap":       {Elements: []ruleset.Element{{Key: key}, {Key: key}}},
		"not allowed":   {Elements: []ruleset.Element{{Key: key, Last: key[0]}}},
	} {
		s.Key = []ruleset.Type{ruleset.TypeIPv4}
		_, err := state.ViewOf(s)
		require.ErrorContains(t, err, want)
	}
}
