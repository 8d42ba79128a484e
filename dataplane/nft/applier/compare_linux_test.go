// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"context"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// Compare reports changes by another process and does not repair them. Its text makes a table with
// the same listing.
func TestCompareFindsChangesAndWritesNothing(t *testing.T) {
	ns := nstest.New(t)
	a, err := applier.New(applier.Config{Name: tableName, NetNS: ns.FD(), Shared: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	table := tenBy(10, rule(drop))
	compare := func() applier.Comparison {
		before := nft(t, ns, "", "list", "ruleset")
		c, err := applier.Compare(t.Context(), ns.FD(), table)
		require.NoError(t, err)
		require.Equal(t, before, nft(t, ns, "", "list", "ruleset"))
		return c
	}
	c := compare()
	require.False(t, c.Equal())
	require.Contains(t, c.String(), "there is no such table")
	require.Equal(t, table.String(), c.Changes)

	require.NoError(t, a.Apply(bg, table))
	c = compare()
	require.True(t, c.Equal())
	require.Empty(t, c.Changes)
	require.Contains(t, c.String(), "equal (2 chains, 1 sets, 10 elements)")

	want := nft(t, ns, "", "list", "table", "inet", tableName)
	chain := table.Chains[1].Name
	nft(t, ns, "", "flush", "chain", "inet", tableName, chain)
	nft(t, ns, "", "add", "chain", "inet", tableName, "foreign")
	c = compare()
	require.Contains(t, c.Reason, "chain "+chain)
	require.Contains(t, c.Reason, "foreign foreign")
	nft(t, ns, c.Changes, "-f", "-")
	require.Equal(t, want, nft(t, ns, "", "list", "table", "inet", tableName), c.Changes)
	require.False(t, compare().Equal(), "the rules of nft do not have our user data")
	require.NoError(t, a.Resync(bg))
	require.True(t, compare().Equal())
}

func TestCompareEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := applier.Compare(ctx, nstest.New(t).FD(), tenBy(2, rule(drop)))
	require.ErrorIs(t, err, context.Canceled)
}

// Elements reads the sets that the kernel has, also if the rest of its table differs.
func TestElements(t *testing.T) {
	ns := nstest.New(t)
	address := func(s string) ruleset.Value { return ruleset.Addr(netip.MustParseAddr(s)) }
	element := func(first, last string) ruleset.Element {
		e := ruleset.Element{Key: []ruleset.Value{address(first)}}
		if last != "" {
			e.Last = address(last)
		}
		return e
	}
	set := func(name string, interval bool, elements ...ruleset.Element) *ruleset.Set {
		return &ruleset.Set{Name: name, Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: interval, Elements: elements}
	}
	read := func(sets ...*ruleset.Set) map[string][]ruleset.Element {
		all, err := applier.Elements(t.Context(), ns.FD(), &ruleset.Table{Name: tableName, Sets: sets})
		require.NoError(t, err)
		return all
	}
	require.Empty(t, read(set("plain", false)), "there is no table")

	a, err := applier.New(applier.Config{Name: tableName, NetNS: ns.FD(), Shared: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	table := tenBy(10, rule(drop))
	plain := []ruleset.Element{element("10.0.0.2", ""), element("10.0.0.9", "")}
	ranges := []ruleset.Element{element("10.1.0.0", "10.1.0.127"), element("10.1.0.128", "10.1.0.255")}
	table.Sets = append(table.Sets, set("plain", false, plain...), set("ranges", true, ranges...))
	require.NoError(t, a.Apply(bg, table))
	nft(t, ns, "", "add", "chain", "inet", tableName, "foreign")
	all := read(set("plain", false), set("ranges", true), set("absent", false))
	require.NotContains(t, all, "absent")
	require.ElementsMatch(t, plain, all["plain"])
	require.ElementsMatch(t, ranges, all["ranges"])
	require.Empty(t, read(set("plain", true), set("ranges", true)), "a set is of another type")
}
