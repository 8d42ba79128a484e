// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"bytes"
	"fmt"
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

// A change that is too large for one transaction is made in several, and the resulting table is the
// same.
func TestLargeChangeIsSeveralTransactions(t *testing.T) {
	ns := nstest.New(t)
	a := openWith(t, ns, applier.Config{Shared: true, MaxBatch: 8 << 10})
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

// If even the transaction that leads chains to their shadows is too large, the chains drop
// meanwhile. The table is as desired afterwards.
func TestPartsWithoutShadows(t *testing.T) {
	ns := nstest.New(t)
	a, f := openFaulty(t, ns, applier.Config{Shared: true, MaxBatch: 8 << 10})
	state := func(many bool) *ruleset.Table {
		return change(func(t *ruleset.Table) {
			if many {
				findSet(t, "nets").Elements = intervals(1000)
			}
			for i := range 200 {
				t.Chains = append(t.Chains, chain(fmt.Sprint("policy", i),
					rule(isIPv4, ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPDaddr}, Set: "nets"}, drop)))
			}
			findChain(t, "db").Rules = []ruleset.Rule{rule(drop, fmt.Sprint(many))}
			t.Normalize()
		})
	}
	require.NoError(t, a.Apply(bg, state(false)))
	for _, many := range []bool{true, false} {
		shadows, guarded := seen(f)
		require.NoError(t, a.Apply(bg, state(many)))
		require.False(t, *shadows)
		require.True(t, *guarded)
		requireLists(t, ns, state(many))
	}
}

// A live phase that is too large uses shadows: no chain drops meanwhile, and none references a
// partly filled set.
func TestPartsUseShadows(t *testing.T) {
	ns := nstest.New(t)
	a, f := openFaulty(t, ns, applier.Config{Shared: true, MaxBatch: 8 << 10})
	require.NoError(t, a.Apply(bg, sample()))
	_, guarded := seen(f)
	note := f.refuse
	parts := 0
	f.refuse = func(batch []byte) unix.Errno {
		if bytes.Contains(batch, []byte("hosts\x00")) && messageWith(batch, unix.NFT_MSG_NEWSETELEM, "hosts") != 0 {
			parts++
			require.Regexp(t, `chain web {\n\t\tgoto shadow-`, listing(t, ns))
		}
		return note(batch)
	}
	filled := change(func(t *ruleset.Table) { findSet(t, "hosts").Elements = addresses(3000) })
	require.NoError(t, a.Apply(bg, filled))
	require.Greater(t, parts, 5)
	requireLists(t, ns, filled)

	parts = 0 // A chain whose policy changes could pass packets that both its old and its new rules drop.
	filled = change(func(t *ruleset.Table) {
		findChain(t, "forward").Hook.Policy = drop
		findSet(t, "hosts").Elements = addresses(9000)[6000:]
	})
	require.NoError(t, a.Apply(bg, filled))
	require.Greater(t, parts, 5)
	// The first attempt finds that the change is too large.
	require.True(t, *guarded, "the chain whose policy changes late drops at its end")
	requireLists(t, ns, filled)
}

// If the kernel refuses a later part, the next call continues after the earlier parts.
func TestPartRefused(t *testing.T) {
	for _, table := range []*ruleset.Table{
		large(), change(func(t *ruleset.Table) { findSet(t, "hosts").Elements = addresses(3000) }),
	} {
		ns := nstest.New(t)
		a, f := openFaulty(t, ns, applier.Config{Shared: true, MaxBatch: 8 << 10})
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

// If the kernel refuses a transaction because an ordinary user may not send so much, the Applier
// sends smaller ones.
func TestPartsOfOrdinaryUser(t *testing.T) {
	ns := nstest.New(t)
	a, f := openFaulty(t, ns, applier.Config{Shared: true})
	f.most = 16 << 10
	for _, table := range []*ruleset.Table{large(), sample(), large()} {
		require.NoError(t, a.Apply(bg, table))
		requireLists(t, ns, table)
	}
}

// A new base chain is added with all of its rules, also if the rest needs several transactions.
func TestNewBaseChainIsOneTransaction(t *testing.T) {
	for _, policy := range []ruleset.Verdict{accept, drop} {
		ns := nstest.New(t)
		a, f := openFaulty(t, ns, applier.Config{Shared: true, MaxBatch: 16 << 10})
		require.NoError(t, a.Apply(bg, sample()))
		const rules = 40
		with := change(func(t *ruleset.Table) {
			c := base("in", ruleset.Input)
			c.Hook.Policy = policy
			for i := range uint16(rules) {
				c.Rules = append(c.Rules, rule(isTCP, is(ruleset.Dport, ruleset.Port(7000+i)), drop))
			}
			t.Chains = append(t.Chains, c)
			t.Sets = append(t.Sets, &ruleset.Set{
				Name: "new", Key: []ruleset.Type{ruleset.TypeIPv4}, Elements: addresses(3000),
			})
		})
		transactions := 0
		f.refuse = func([]byte) unix.Errno {
			transactions++
			if now := listing(t, ns); strings.Contains(now, "chain in ") {
				require.Equal(t, rules, strings.Count(now, "tcp dport 70"))
			}
			return 0
		}
		require.NoError(t, a.Apply(bg, with))
		f.refuse = nil
		require.Greater(t, transactions, 5)
		requireLists(t, ns, with)
	}
}
