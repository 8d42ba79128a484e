// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// S173: the record of stale packets is a single bit. No other record that a packet has after a base
// chain includes this bit.
func TestRecordOfStalePackets(t *testing.T) {
	r, err := New(Config{})
	require.NoError(t, err)
	table, errs := r.Table()
	require.Empty(t, errs)
	i := slices.IndexFunc(table.Chains, func(c *ruleset.Chain) bool { return c.Name == "forward-again" })
	bit := ruleset.Uint32(priorityStale)
	require.Equal(t,
		[]ruleset.Match{ruleset.Compare{Field: ruleset.Priority, Not: true, Value: bit, Mask: bit}},
		table.Chains[i].Rules[0].Matches)
	require.Zero(t, priorityStale&(priorityStale-1))
	require.Zero(t, priorityUndecided&priorityStale)
	require.Zero(t, priorityAllowed&priorityStale)
}

// S173: the table of an earlier version records decisions in bits 31 and 30: 10 allows, 11 denies.
// If the table is replaced meanwhile, the new chain verdict evaluates a packet with such a record.
func TestRecordsOfEarlierVersion(t *testing.T) {
	denied := denied().(ruleset.Compare)
	matches := func(priority uint32) bool {
		mask := binary.NativeEndian.Uint32(denied.Mask)
		return priority&mask == binary.NativeEndian.Uint32(denied.Value)
	}
	for _, priority := range []uint32{3 << 30, 3<<30 | 7, priorityDenied} {
		require.True(t, matches(priority))
	}
	for _, priority := range []uint32{0, 1 << 31, 1<<31 | 7, priorityAllowed} {
		require.False(t, matches(priority))
	}
	// Other chains do not treat an old record as a decision, so such a packet is dropped.
	decided := returnDecided().Matches[0].(ruleset.Compare)
	mask := binary.NativeEndian.Uint32(decided.Mask)
	for _, priority := range []uint32{1 << 31, 1<<31 | 7, 3 << 30, 3<<30 | 7} {
		require.NotEqual(t, binary.NativeEndian.Uint32(decided.Value), priority&mask)
	}
}
