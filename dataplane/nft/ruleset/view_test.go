// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"net/netip"
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
