// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"sync"
	"time"
)

// maxSilence is less than it takes to restore a server from a backup, and more than the 2 seconds by which a server's
// last bookmark precedes the regular end of a watch.
const maxSilence = 5 * time.Second

// contact counts how often nothing was heard of the server for more than maxSilence. In such a time, it may have been
// restored from a backup. Several goroutines may use it.
type contact struct {
	mu       sync.Mutex
	last     time.Time // without a monotonic clock, which stops while a virtual machine is suspended
	silences int
}

// heard records that the server sent something, and returns the count of silences so far.
func (c *contact) heard() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().Round(0)
	c.silences = c.countLocked(now)
	c.last = now
	return c.silences
}

// count returns the count of silences, with one that still lasts.
func (c *contact) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.countLocked(time.Now().Round(0))
}

func (c *contact) countLocked(now time.Time) int {
	if d := now.Sub(c.last); d < 0 || d > maxSilence {
		return c.silences + 1
	}
	return c.silences
}
