// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A target has changed with the first probe after the last one that had the other result, in
// whatever order the results come.
func TestFirstProbeAfterChange(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	type result struct {
		sent     int
		answered bool
	}
	for _, c := range []struct {
		name    string
		allowed bool
		results []result
		want    time.Time
	}{
		{"denied", false, []result{{1, true}, {2, true}, {3, false}, {4, false}}, at(3)},
		{"allowed", true, []result{{1, false}, {2, true}, {3, true}}, at(2)},
		{"answers come before limits", false, []result{{1, true}, {4, true}, {2, false}, {5, false}}, at(5)},
		{"later probes first", false, []result{{5, false}, {4, false}, {1, true}}, at(4)},
		{"back again", false, []result{{1, false}, {2, true}}, time.Time{}},
		{"back and forth", false, []result{{1, false}, {2, true}, {3, false}}, at(3)},
		{"answer after a limit", false, []result{{3, false}, {4, true}, {5, false}, {2, false}}, at(5)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var target target
			for _, r := range c.results {
				target.record(at(r.sent), r.answered, c.allowed)
			}
			require.Equal(t, c.want, target.firstNew)
		})
	}
}
