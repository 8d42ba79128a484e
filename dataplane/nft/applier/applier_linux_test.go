// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestApplyListsAsNft(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	require.NoError(t, a.Apply(bg, sample()))
	requireLists(t, ns, sample())
}

// A restart with the same desired state writes nothing to a table without an owner, and reads once.
func TestAdoptWritesNothing(t *testing.T) {
	ns := nstest.New(t)
	require.NoError(t, open(t, ns).Apply(bg, sample()))
	before := generation(t, ns)
	a := openWith(t, ns, applier.Config{Shared: true, Logger: logger(t)})
	require.NoError(t, a.Apply(bg, sample()))
	require.Equal(t, before, generation(t, ns))
	require.Zero(t, a.Stats().Transactions)
	require.NoError(t, a.Apply(bg, sample()))
	require.EqualValues(t, 1, a.Stats().Readings)
	require.Equal(t, before, generation(t, ns))
}

// After every change of the sample, nft lists the same table as after loading the changed text. One
// Applier makes the change and reverts it, and a new one adopts the sample and makes it.
func TestChanges(t *testing.T) {
	web := func(r ...ruleset.Rule) func(*ruleset.Table) {
		return func(t *ruleset.Table) { findChain(t, "web").Rules = r }
	}
	old := findChain(sample(), "web").Rules
	changes := map[string]func(*ruleset.Table){
		"element added": func(t *ruleset.Table) {
			s := findSet(t, "hosts")
			s.Elements = append(s.Elements, element(addr("10.0.0.9")))
		},
		"element removed": func(t *ruleset.Table) { s := findSet(t, "hosts"); s.Elements = s.Elements[1:] },
		"interval": func(t *ruleset.Table) {
			findSet(t, "nets").Elements = []ruleset.Element{prefix("10.1.0.0/16"), prefix("0.0.0.0/8")}
		},
		"verdict":      func(t *ruleset.Table) { findSet(t, "from").Elements[0].Verdict = &drop },
		"rule first":   web(rule(isIPv4, drop), old[0], old[1]),
		"rule middle":  web(old[0], rule(isIPv4, drop), rule(ruleset.Counter{}), old[1]),
		"rule last":    web(old[0], old[1], rule(ruleset.Counter{})),
		"rule removed": web(old[0]),
		"rules gone":   web(),
		"rule other":   web(rule(isIPv4, isTCP, drop), old[1]),
		"set type": func(t *ruleset.Table) {
			s := findSet(t, "hosts")
			s.Interval, s.Elements = true, []ruleset.Element{prefix("10.0.0.0/24")}
		},
		"hook":   func(t *ruleset.Table) { findChain(t, "forward").Hook.Priority = 5 },
		"policy": func(t *ruleset.Table) { findChain(t, "forward").Hook.Policy = drop },
		"policy and rules": func(t *ruleset.Table) {
			c := findChain(t, "forward")
			c.Hook.Policy, c.Rules = drop, append(c.Rules[:1:1], rule(isIPv4, accept))
		},
		"chain and set gone": func(t *ruleset.Table) {
			findSet(t, "from").Elements = findSet(t, "from").Elements[:1]
			t.Chains = []*ruleset.Chain{findChain(t, "forward"), findChain(t, "web")}
			t.Sets = t.Sets[:4]
		},
		"nothing": func(t *ruleset.Table) { t.Chains, t.Sets = nil, nil },
	}
	for name, f := range changes {
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			a := open(t, ns)
			require.NoError(t, a.Apply(bg, sample()))
			require.NoError(t, a.Apply(bg, change(f)))
			requireLists(t, ns, change(f))
			require.EqualValues(t, 1, a.Stats().Readings, "only the first reading")
			transactions := 1
			switch name {
			case "policy", "policy and rules": // A last rule has the verdict of the policy for a grace period.
				transactions = 3
			case "set type": // The chain that references the set has a drop guard meanwhile.
				transactions = 3
			case "hook": // A guard table drops packets meanwhile.
				transactions = 3
			case "nothing": // The base chain is emptied first.
				transactions = 2
			}
			require.EqualValues(t, 1+transactions, a.Stats().Transactions)
			require.NoError(t, a.Apply(bg, sample()))
			requireLists(t, ns, sample())

			b := open(t, ns)
			require.NoError(t, b.Apply(bg, change(f)))
			requireLists(t, ns, change(f))
			switch name {
			case "set type": // The table is replaced with a guard, and its interval sets are seen late.
				transactions = 4
			case "nothing": // The chains are foreign.
				transactions = 1
			}
			require.EqualValues(t, transactions, b.Stats().Transactions)
			before := generation(t, ns)
			require.NoError(t, open(t, ns).Apply(bg, change(f)))
			require.Equal(t, before, generation(t, ns))
		})
	}
}

func TestTeardown(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	require.NoError(t, a.Teardown(bg), "of nothing")
	require.NoError(t, a.Apply(bg, sample()))
	require.NoError(t, a.Teardown(bg))
	require.Empty(t, listing(t, ns))
	require.Nil(t, a.Table())
	require.NoError(t, a.Apply(bg, sample()))
	requireLists(t, ns, sample())
}

func TestApplyRefusesMissingObjects(t *testing.T) {
	a := open(t, nstest.New(t))
	require.NoError(t, a.Apply(bg, sample()))
	for _, table := range []*ruleset.Table{
		{Name: tableName, Chains: []*ruleset.Chain{nil}}, {Name: tableName, Sets: []*ruleset.Set{nil}},
	} {
		require.Error(t, a.Apply(bg, table))
		require.Equal(t, sample().String(), a.Table().String())
	}
}
