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

// Connections are the result of opening connections of TCP, one after the other.
type Connections struct {
	Opened, Failed int
	// PerSecond counts those that were opened.
	PerSecond float64
	// Median and P99 are how long connect took.
	Median, P99 time.Duration
}

// Changes has the change of each target. A target that did not change is missing.
type Changes map[string]Change

// Change has the send times of the two probes between which a target changed.
type Change struct {
	// LastOld is that of the last probe with the old result; zero if there was none.
	LastOld time.Time
	// FirstNew is that of the first probe with the new result after that.
	FirstNew time.Time
}

// Write is one request to the API.
type Write struct {
	// Sent is when the request was sent, Answered when the answer was there.
	Sent, Answered time.Time
}

// Quantile returns a quantile, from 0 to 1, of durations. It sorts them. Without any, it is zero.
func Quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))]
}
