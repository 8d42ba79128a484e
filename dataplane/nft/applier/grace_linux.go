// SPDX-License-Identifier: Apache-2.0

package applier

import "sync"

// gracePeriods runs one grace period after another. Its goroutine ends with the last one.
type gracePeriods struct {
	mu          sync.Mutex
	running     bool
	synchronize func() error
	// next is closed at the end of the next grace period; nil if none was requested.
	next chan struct{}
}

// request returns a channel that is closed at the end of a grace period that begins after the call.
// All requests during one grace period share the next one, as RCU callbacks do.
func (g *gracePeriods) request(synchronize func() error) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.synchronize = synchronize
	if g.next == nil {
		g.next = make(chan struct{})
	}
	if !g.running {
		g.running = true
		go g.run()
	}
	return g.next
}

// run runs grace periods as long as there are requests.
func (g *gracePeriods) run() {
	for {
		g.mu.Lock()
		over, synchronize := g.next, g.synchronize
		g.next, g.running = nil, over != nil
		g.mu.Unlock()
		if over == nil {
			return
		}
		_ = synchronize() // if the kernel refuses to wait, a packet may be stale twice, and is lost
		close(over)
	}
}

// graceWaiter waits for grace periods: until every packet that was in the kernel has left it.
type graceWaiter struct {
	// synchronize waits for a grace period.
	synchronize func() error
	// oneProcessor is set if there may be only one processor: then membarrier does not wait.
	oneProcessor bool
	periods      gracePeriods
	// over is closed at the end of the grace period after the last transaction that needed a new
	// epoch or left deletions. It is nil once await has returned. after is the number of
	// transactions before that grace period.
	over  <-chan struct{}
	after uint64
	stats *Stats
}

// request returns a channel that is closed at the end of a grace period that begins after the call.
func (g *graceWaiter) request() <-chan struct{} { return g.periods.request(g.synchronize) }

// mayNotWait reports whether a grace period may end although packets that entered before it are
// still under way.
func (g *graceWaiter) mayNotWait() bool { return g.stats.NoGracePeriod || g.oneProcessor }

// begin begins a grace period after a transaction that needed a new epoch or left deletions, unless
// one has begun since that transaction. A packet that is stale twice is lost, so the next
// transaction that needs a new epoch waits for the end of this grace period.
func (g *graceWaiter) begin() {
	if g.over == nil || g.after != g.stats.Transactions {
		g.over, g.after = g.request(), g.stats.Transactions
	}
}

// await waits for the end of the grace period of begin, if there is one.
func (g *graceWaiter) await() {
	if g.over != nil {
		<-g.over
		g.over = nil
	}
}
