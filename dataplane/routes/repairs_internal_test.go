// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Rules are reported even if many routes were repaired before them.
func TestRepairsReportRules(t *testing.T) {
	var r repairs
	for i := range 2 * maxRepairs {
		dst := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), 0}), 24)
		r.record(i, Route{Dst: dst}, time.Now())
	}
	rule := Rule{Family: 4, Priority: 100, Table: 7}
	r.record("rule", rule, time.Now())
	require.True(t, r.any())
	list := r.take()
	require.Len(t, list, maxRepairs+1)
	require.Equal(t, rule, list[0])
	require.False(t, r.any())
	require.Empty(t, r.take())
}
