// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"slices"
	"time"
)

// The ports of a gauge's server.
const (
	TCPPort = 7000 // accepts and closes
	UDPPort = 7001 // echoes
)

// Connections has the results of a test that opens TCP connections, one after the other.
type Connections struct {
	Opened, Failed int
	// PerSecond is the number of opened connections per second.
	PerSecond float64
	// Median and P99 are quantiles of the time that it took to open a connection.
	Median, P99 time.Duration
}

// Changes has the change of each target. A target that did not change is missing.
type Changes map[string]Change

// Change has the send times of the two probes between which a target changed.
type Change struct {
	// LastOld is the send time of the last probe with the old result. It is zero if there was none.
	LastOld time.Time
	// FirstNew is the send time of the first probe after LastOld. This probe had the new result.
	FirstNew time.Time
}

// Write is one request to the API.
type Write struct {
	// Sent is the time at which the request was sent, and Answered the time at which the whole
	// answer was received.
	Sent, Answered time.Time
}

// Quantile returns the q-quantile of durations, for a q from 0 to 1. It returns 0 if there are no
// durations. It sorts the slice.
func Quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))]
}
