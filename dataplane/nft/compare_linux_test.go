// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// Compare reports changes by another process, also while the table has an owner. It repairs
// nothing.
func TestCompare(t *testing.T) {
	ns := nstest.New(t)
	d := openWith(t, ns, nft.Config{Shared: true})
	_, err := d.Compare(t.Context())
	require.ErrorIs(t, err, nft.ErrNoTable)
	require.NoError(t, d.Apply(t.Context(), nfttest.Transition(allowed())))
	c, err := d.Compare(t.Context())
	require.NoError(t, err)
	require.True(t, c.Equal(), "%s", c)
	require.Equal(t, len(d.Table().Chains), c.Chains)
	require.Positive(t, c.Elements)

	load(t, ns, "delete element inet wayleave endpoints { way1 }\nadd chain inet wayleave foreign\n")
	stats := d.Stats()
	for range 2 {
		c, err = d.Compare(t.Context())
		require.NoError(t, err)
		require.False(t, c.Equal())
		require.Contains(t, c.Changes, "add element inet wayleave endpoints { \"way1\" }\n")
		require.Contains(t, c.Changes, "delete chain inet wayleave foreign\n")
	}
	require.Equal(t, stats.Transactions, d.Stats().Transactions)
	require.NoError(t, d.Resync(t.Context()))
	c, err = d.Compare(t.Context())
	require.NoError(t, err)
	require.True(t, c.Equal(), "%s", c)
}

func TestCompareOfOwnedTable(t *testing.T) {
	ns := nstest.New(t)
	d := openWith(t, ns, nft.Config{})
	require.NoError(t, d.Apply(t.Context(), nfttest.Transition(allowed())))
	c, err := d.Compare(t.Context())
	require.NoError(t, err)
	require.True(t, c.Equal(), "%s", c)
	require.NoError(t, d.Apply(t.Context(), nfttest.Transition(allowed())), "the table still has its owner")
}
