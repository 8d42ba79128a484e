// SPDX-License-Identifier: Apache-2.0

package revoke

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// idleRevoker returns a Revoker without its goroutine, whose sweeps begin at the end of a delay.
func idleRevoker(t *testing.T, delay time.Duration) *Revoker {
	t.Helper()
	ns := nstest.New(t)
	r, err := newRevoker(Config{Conntrack: conntrack.Config{NetNS: ns.FD(), Delay: delay}, Table: "wayleave"})
	require.NoError(t, err)
	close(r.stopped)
	r.cancel = func() {}
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// addChain returns a delta with one chain.
func addChain(i int) *ruleset.Delta {
	return &ruleset.Delta{Chains: []*ruleset.Chain{{Name: fmt.Sprintf("c%d", i)}}}
}

// At most maxEarlier rulesets are kept, until their sweep is done.
func TestEarlierRulesetsAreBounded(t *testing.T) {
	r := idleRevoker(t, -1)
	chain := func(i int) Change { return Change{Deltas: []*ruleset.Delta{addChain(i)}} }
	r.applyChange(Change{Reset: true})
	require.Zero(t, r.Stats().Pending, "the former state is unknown")
	for i := range 3 * maxEarlier {
		r.applyChange(chain(i))
		require.Equal(t, min(i+1, maxEarlier), r.kept())
	}
	require.Equal(t, 3*maxEarlier, r.Stats().Pending)
	progress, err := r.sweeper.Step(t.Context(), 1)
	require.NoError(t, err)
	require.True(t, progress.Done, "there is no connection")
	r.applyChange(chain(1000))
	require.Equal(t, 1, r.kept())
	require.Len(t, r.present.State().Chains(), 3*maxEarlier+1, "all changes are applied")

	missing := ruleset.ElementDelta{Set: "missing", Add: []ruleset.Element{{}}}
	r.applyChange(Change{Deltas: []*ruleset.Delta{{Elements: []ruleset.ElementDelta{missing}}}})
	require.Nil(t, r.present.State(), "after an invalid delta the state is unknown")
	r.applyChange(Change{Table: &ruleset.Table{Name: "wayleave"}})
	require.NotNil(t, r.present.State())
	kept := r.kept()
	r.applyChange(Change{Reset: true, Table: &ruleset.Table{Name: "wayleave"}})
	require.Equal(t, kept, r.kept(), "after a reset, the former ruleset is not used")
}

// While programming fails, at most maxUnprogrammed deltas are kept. They count as one change.
func TestUnprogrammedDeltasAreBounded(t *testing.T) {
	r := idleRevoker(t, -1)
	r.Changed(addChain(0), nil)
	r.Programmed(AddressChanges{})
	table := &ruleset.Table{Name: "wayleave", Chains: []*ruleset.Chain{{Name: "c0"}}}
	for i := range 3 * maxUnprogrammed {
		table.Chains = append(table.Chains, &ruleset.Chain{Name: fmt.Sprintf("c%d", i+1)})
		if r.NeedsTable() {
			whole := *table
			r.Changed(addChain(i+1), &whole)
		} else {
			r.Changed(addChain(i+1), nil)
		}
		require.LessOrEqual(t, len(r.pending.Deltas), maxUnprogrammed)
	}
	require.NotNil(t, r.pending.Table)
	r.Programmed(AddressChanges{})
	require.Len(t, r.queue, 2)
	for _, c := range r.queue {
		r.applyChange(c)
	}
	require.Equal(t, 1, r.Stats().Pending-len(r.queue))
	require.Len(t, r.present.State().Chains(), len(table.Chains))
}
