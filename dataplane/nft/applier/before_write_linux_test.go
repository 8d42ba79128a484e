// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// While BeforeWrite fails, no call except Teardown changes the ruleset. The first call after that
// writes the missing objects.
func TestNothingIsWrittenWhileBeforeWriteFails(t *testing.T) {
	for name, shared := range map[string]bool{"owned": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			ns, errClosed := nstest.New(t), errors.New("closed")
			closed := errClosed
			a := openWith(t, ns, applier.Config{Shared: shared, BeforeWrite: func() error { return closed }})
			before := generation(t, ns)
			require.ErrorIs(t, a.Apply(t.Context(), sample()), errClosed)
			require.ErrorIs(t, a.Update(t.Context(), moreHosts), errClosed)
			require.ErrorIs(t, a.Verify(t.Context()), errClosed)
			require.Equal(t, before, generation(t, ns))

			closed = nil
			require.NoError(t, a.Apply(t.Context(), sample()))
			requireLists(t, ns, sample())

			before, closed = generation(t, ns), errClosed
			require.ErrorIs(t, a.Update(t.Context(), moreHosts), errClosed)
			require.ErrorIs(t, a.Resync(t.Context()), errClosed)
			require.Equal(t, before, generation(t, ns))
			closed = nil
			require.NoError(t, a.Resync(t.Context()))
			requireLists(t, ns, withMoreHosts())

			closed = errClosed
			require.NoError(t, a.Teardown(t.Context()))
			require.Empty(t, listing(t, ns))
		})
	}
}

// A repair that could not be sent is reported, and tried again by the next call. The table is not
// replaced, because the kernel has not refused anything.
func TestFailedSendReplacesNoTable(t *testing.T) {
	ns, errClosed := nstest.New(t), errors.New("closed")
	failures := 0
	a := openWith(t, ns, applier.Config{Shared: true, BeforeWrite: func() error {
		if failures--; failures >= 0 {
			return errClosed
		}
		return nil
	}})
	require.NoError(t, a.Apply(t.Context(), sample()))
	before := generation(t, ns)
	failures = 2 // of the update, and of the repair
	require.ErrorIs(t, a.Update(t.Context(), moreHosts), errClosed)
	require.Equal(t, before, generation(t, ns))
	require.NoError(t, a.Resync(t.Context()))
	requireLists(t, ns, withMoreHosts())
}

// A change that the kernel has in part is completed, although the context is done meanwhile.
func TestPartOfChangeIsCompleted(t *testing.T) {
	ns := nstest.New(t)
	ctx, cancel := context.WithCancel(bg)
	writes := 0
	a := openWith(t, ns, applier.Config{Shared: true, BeforeWrite: func() error {
		if writes++; writes == 2 { // the deletion, after the grace period
			nft(t, ns, "", "add", "chain", "inet", tableName, "foreign") // the deletion must read the table again
			cancel()
		}
		return nil
	}})
	table := epochTable(9)
	table.Sets[1].Elements = toDrop("192.0.2.1")
	require.NoError(t, a.Apply(bg, table))
	writes = 0
	require.NoError(t, a.Update(ctx, replaceLate("192.0.2.3", "192.0.2.1")))
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	text := listDropped(t, ns)
	require.NotContains(t, text, "192.0.2.1")
	require.Contains(t, text, "192.0.2.3")
	require.NotContains(t, nft(t, ns, "", "list", "ruleset"), "foreign")
}

// The first change of a process is completed too, also if the kernel refuses parts of it meanwhile.
func TestFirstChangeIsCompleted(t *testing.T) {
	for _, last := range []int{5, 6, 7} {
		ns := nstest.New(t)
		former := openWith(t, ns, applier.Config{Shared: true})
		require.NoError(t, former.Apply(bg, sample()))
		require.NoError(t, former.Close())
		ctx, cancel := context.WithCancel(bg)
		a, f := openFaulty(t, ns, applier.Config{Shared: true, MaxBatch: 8 << 10})
		sent := 0
		f.refuse = func([]byte) unix.Errno {
			if sent++; sent < 4 || sent > last {
				return 0
			}
			cancel()
			return unix.ENOMEM
		}
		require.NoError(t, a.Apply(ctx, large()), "refused: 4 to %d", last)
		require.ErrorIs(t, ctx.Err(), context.Canceled)
	}
}
