// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"sync"
	"time"
)

// refusalInterval is the minimum time between two log lines about refused peers of one endpoint. It
// is needed because a workload can connect as often as it likes.
const refusalInterval = 10 * time.Second

// refusals limits the log lines about refused peers. The zero value is ready for use. Its method
// may be called from any goroutine.
type refusals struct {
	mu sync.Mutex
	// next is when the next line may be logged.
	next time.Time
	// skipped counts the refusals since the last line.
	skipped int
}

// log reports whether to log a refusal, and how many refusals before it were not logged.
func (r *refusals) log(now time.Time) (skipped int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.next) {
		r.skipped++
		return 0, false
	}
	skipped, r.skipped, r.next = r.skipped, 0, now.Add(refusalInterval)
	return skipped, true
}
