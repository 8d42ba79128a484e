// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// Compare finds what another process changed and leaves it. Its text makes a table with the same listing.
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
