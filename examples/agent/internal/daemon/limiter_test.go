// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLimiter(t *testing.T) {
	now := time.Unix(0, 0)
	l := limiter{rate: 2, left: 2, since: now}
	got := []bool{}
	for _, at := range []time.Duration{0, 0, 0, 900 * time.Millisecond, time.Second, time.Second, time.Second} {
		got = append(got, l.allows(now.Add(at)))
	}
	require.Equal(t, []bool{true, true, false, false, true, true, false}, got)
	require.Equal(t, 3, l.missed)
}

// The number of missed packets is reported with the next packet that is not left out.
func TestLimiterCountsMissedPackets(t *testing.T) {
	now := time.Unix(0, 0)
	l := limiter{rate: 1, left: 1, since: now}
	require.Equal(t, -1, l.pass(false, 3, now), "it was not requested")
	require.Equal(t, 3, l.pass(true, 0, now))
	require.Equal(t, -1, l.pass(true, 2, now), "too many")
	require.Equal(t, 4, l.pass(true, 1, now.Add(time.Second)))
}
