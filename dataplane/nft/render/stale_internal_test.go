// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// S173: if the table changes between lookups and chains, the new rules evaluate a stale packet
// again. Of the records that outlast a base chain, only that of stale packets has bit 30.
func TestFormsShareTheRecordOfStalePackets(t *testing.T) {
	for _, classes := range forms() {
		r, err := New(Config{Classes: classes})
		require.NoError(t, err)
		require.Equal(t, priorityStale, r.base.statements.recordStale().Value&priorityStale)
		table, errs := r.Table()
		require.Empty(t, errs)
		i := slices.IndexFunc(table.Chains, func(c *ruleset.Chain) bool { return c.Name == "forward-again" })
		bit := ruleset.Uint32(priorityStale)
		require.Equal(t,
			[]ruleset.Match{ruleset.Compare{Field: ruleset.Priority, Not: true, Value: bit, Mask: bit}},
			table.Chains[i].Rules[0].Matches)
	}
	require.Zero(t, priorityHostStale&(priorityStale|priorityAllowedBit))
}

// S173: a packet with a record of one form meets the chain verdict of the other if the table changes
// meanwhile. What policy denies drops, what it allows does not.
func TestFormsShareTheRecordOfDecisions(t *testing.T) {
	denied := denied().(ruleset.Compare)
	matches := func(priority uint32) bool {
		mask := binary.NativeEndian.Uint32(denied.Mask)
		return priority&mask == binary.NativeEndian.Uint32(denied.Value)
	}
	for _, classes := range forms() {
		st := &statements{&Config{Classes: classes}}
		require.True(t, matches(st.record(priorityDeniedBits, priorityDenied).Value))
		require.False(t, matches(st.recordAllowed().Value))
		require.False(t, matches(0))
	}
}
