// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func large() *ruleset.Table {
	return change(func(t *ruleset.Table) {
		findSet(t, "hosts").Elements = addresses(3000)
		t.Chains = append(t.Chains, chainsTable(40, 5).Chains...)
	})
}

// What is too large for one transaction is done in several, and reaches the same table.
func TestParts(t *testing.T) {
	ns := nstest.New(t)
	a := openWith(t, ns, applier.Config{MaxBatch: 8 << 10})
	other := large()
	findChain(other, "forward").Hook.Policy = drop
	for _, table := range []*ruleset.Table{large(), sample(), other, sample(), large()} {
		require.NoError(t, a.Apply(bg, table))
		requireLists(t, ns, table)
	}
	require.Greater(t, a.Stats().Transactions, uint64(10))
	before := generation(t, ns)
	require.NoError(t, open(t, ns).Apply(bg, large()))
	require.Equal(t, before, generation(t, ns))
}

// While what packets see is changed in parts, the chains concerned drop.
func TestPartsAreShut(t *testing.T) {
	ns := nstest.New(t)
	a, f := openFaulty(t, ns, applier.Config{MaxBatch: 8 << 10})
	require.NoError(t, a.Apply(bg, sample()))
	var shut, parts, chains int
	f.refuse = func(batch []byte) unix.Errno {
		if bytes.Contains(batch, []byte("hosts\x00")) && a.Stats().Transactions > 1 {
			parts++
			if strings.Count(listing(t, ns), "drop comment \"table is being changed\"") == chains {
				shut++
			}
		}
		return 0
	}
	chains = 1
	filled := func(t *ruleset.Table) { findSet(t, "hosts").Elements = addresses(3000) }
	require.NoError(t, a.Apply(bg, change(filled)))
	require.Greater(t, parts, 5)
	require.Equal(t, parts, shut)

	chains, parts, shut = 2, 0, 0 // A chain whose policy changes may let through what neither its old rules nor its new ones do.
	require.NoError(t, a.Apply(bg, change(func(t *ruleset.Table) {
		findChain(t, "forward").Hook.Policy = drop
		findSet(t, "hosts").Elements = addresses(9000)[6000:]
	})))
	require.Greater(t, parts, 5)
	require.Equal(t, parts, shut)
	require.NotContains(t, listing(t, ns), "being changed")
}

// If a later part is refused, what the earlier ones left is known: the next call goes on from there.
func TestPartRefused(t *testing.T) {
	for _, table := range []*ruleset.Table{large(), change(func(t *ruleset.Table) { findSet(t, "hosts").Elements = addresses(3000) })} {
		ns := nstest.New(t)
		a, f := openFaulty(t, ns, applier.Config{MaxBatch: 8 << 10})
		require.NoError(t, a.Apply(bg, sample()))
		sent := 0
		f.refuse = func([]byte) unix.Errno {
			if sent++; sent > 4 {
				return unix.ENOMEM
			}
			return 0
		}
		require.ErrorIs(t, a.Apply(bg, table), unix.ENOMEM)
		f.refuse = nil
		require.NoError(t, a.Resync(bg))
		requireLists(t, ns, table)
	}
}

// How much an ordinary user may send is learnt when it is too little.
func TestPartsOfOrdinaryUser(t *testing.T) {
	ns := nstest.New(t)
	a, f := openFaulty(t, ns, applier.Config{})
	f.most = 16 << 10
	for _, table := range []*ruleset.Table{large(), sample(), large()} {
		require.NoError(t, a.Apply(bg, table))
		requireLists(t, ns, table)
	}
}
