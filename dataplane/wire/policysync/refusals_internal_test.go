// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// One refusal in an interval is logged, with the number of refusals that were not logged.
func TestRefusalsAreLoggedOncePerInterval(t *testing.T) {
	var r refusals
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		after   time.Duration
		skipped int
		ok      bool
	}{
		{0, 0, true},
		{0, 0, false},
		{refusalInterval - 1, 0, false},
		{1, 2, true},
		{refusalInterval, 0, true},
	} {
		now = now.Add(c.after)
		skipped, ok := r.log(now)
		require.Equal(t, c.skipped, skipped)
		require.Equal(t, c.ok, ok)
	}
}
