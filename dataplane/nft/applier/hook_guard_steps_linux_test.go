// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"bytes"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// The steps that guardSteps records.
const (
	stepAdd            = "add guard"
	stepAddDropping    = "add guard that drops"
	stepDelete         = "delete guard"
	stepChange         = "change"
	stepChangeDropping = "change that makes the guard drop"
	stepGrace          = "grace period"
)

// stepOf returns the kind of a transaction.
func stepOf(batch []byte) string {
	messages := messagesOf(batch)
	drops := bytes.Contains(batch, []byte("dropping\x00")) && slices.Contains(messages, unix.NFT_MSG_NEWSETELEM)
	switch adds := bytes.Contains(batch, []byte("own-guard\x00")) && slices.Contains(messages, unix.NFT_MSG_NEWSET); {
	case adds && !slices.Contains(messages, unix.NFT_MSG_DELTABLE) && drops:
		return stepAddDropping
	case adds && !slices.Contains(messages, unix.NFT_MSG_DELTABLE):
		return stepAdd
	case onlyDeletes(batch):
		return stepDelete
	case drops:
		return stepChangeDropping
	}
	return stepChange
}

// guardSteps applies a table. It returns the transactions and grace periods, beginning with the
// transaction that adds the guard. If refuse is set, the kernel refuses that transaction.
func guardSteps(t *testing.T, cfg applier.Config, before, after *ruleset.Table, refuse bool) []string {
	t.Helper()
	var mu sync.Mutex // A new epoch begins a grace period in a goroutine of its own.
	var steps []string
	add := func(step string) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, step)
	}
	ns := nstest.New(t)
	require.NoError(t, open(t, ns).Apply(bg, before))
	a, f := openFaulty(t, ns, cfg)
	f.refuse = func(batch []byte) unix.Errno {
		step := stepOf(batch)
		add(step)
		if refuse && (step == stepAdd || step == stepAddDropping) {
			return unix.EOPNOTSUPP
		}
		return 0
	}
	applier.SetSynchronize(a, func() error {
		add(stepGrace)
		return nil
	})
	require.NoError(t, a.Apply(bg, after))
	requireLists(t, ns, after)
	mu.Lock()
	defer mu.Unlock()
	first := slices.IndexFunc(steps, func(s string) bool { return s == stepAdd || s == stepAddDropping })
	require.NotEqual(t, -1, first, "%q", steps)
	return steps[first:]
}

// A grace period ends before the change, and another one before the guard is deleted. The guard
// drops from its beginning if base chains are replaced, if their rules check no epoch, or if it
// comes before the old chain. Otherwise it drops from the replacement of the table on.
func TestGuardWaitsForGracePeriods(t *testing.T) {
	highest, renamed := only(math.MaxInt32, 1), only(0, 1)
	findChain(renamed, "out").Name = "exit"
	withoutEpoch := epochTable(9)
	withoutEpoch.Sets = withoutEpoch.Sets[1:]
	for _, c := range withoutEpoch.Chains {
		c.Rules = c.Rules[:1]
	}
	for name, c := range map[string]struct {
		config        applier.Config
		before, after *ruleset.Table
		first         []string
	}{
		"base chain": {
			applier.Config{Shared: true},
			only(0, 1), moved(only(0, 1)),
			[]string{stepAddDropping, stepGrace, stepChange},
		},
		"foreign base chain": {
			applier.Config{Shared: true},
			only(0, 1), renamed,
			[]string{stepAddDropping, stepGrace, stepChange},
		},
		"base chain without the epoch": {
			applier.Config{Shared: true, Epoch: ruleset.Epoch{Set: "epoch", Chains: []string{"out"}}},
			withoutEpoch, epochTable(9),
			[]string{stepAddDropping, stepGrace, stepChange},
		},
		"table": {
			applier.Config{},
			only(0, 1), only(0, 1),
			[]string{stepAdd, stepGrace, stepChangeDropping},
		},
		"table of the highest priority": {
			applier.Config{},
			highest, highest,
			[]string{stepAddDropping, stepGrace, stepChangeDropping},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !c.config.Shared { // the table is replaced to get an owner
				skipUnlessOwnable(t)
			}
			steps := guardSteps(t, c.config, c.before, c.after, false)
			last := slices.Index(steps, stepDelete)
			require.GreaterOrEqual(t, last, 4, "%q", steps)
			require.Equal(t, c.first, steps[:3], "%q", steps)
			require.Equal(t, stepGrace, steps[last-1], "%q", steps)
		})
	}
}

// If the kernel refuses the guard, a grace period still follows the replacement of a table.
func TestReplacedTableWaitsWithoutGuard(t *testing.T) {
	skipUnlessOwnable(t)
	steps := guardSteps(t, applier.Config{}, only(0, 1), only(0, 1), true)
	require.Equal(t, []string{stepAdd, stepChange, stepGrace}, steps[:3], "%q", steps)
}

// If the kernel refuses the guard, the transaction that replaces a table first removes the old base
// chains from their hooks. The new ones drop until their interval sets are filled.
func TestReplacedTableDropsWithoutGuard(t *testing.T) {
	skipUnlessOwnable(t)
	ns := nstest.New(t)
	require.NoError(t, open(t, ns).Apply(bg, sample()))
	a, f := openFaulty(t, ns, applier.Config{})
	var replacement []byte
	f.refuse = func(batch []byte) unix.Errno {
		if step := stepOf(batch); step == stepAdd || step == stepAddDropping {
			return unix.EOPNOTSUPP
		}
		if slices.Contains(messagesOf(batch), unix.NFT_MSG_DELTABLE) {
			replacement = bytes.Clone(batch)
		}
		return 0
	}
	require.NoError(t, a.Apply(bg, sample()))
	messages := messagesOf(replacement)
	unhooks := slices.Index(messages, unix.NFT_MSG_DELCHAIN)
	require.NotEqual(t, -1, unhooks)
	require.Less(t, unhooks, slices.Index(messages, unix.NFT_MSG_DELTABLE))
	require.Contains(t, string(replacement), "table is being changed")
	requireLists(t, ns, sample())
}
