// SPDX-License-Identifier: Apache-2.0

package applier

import "sync"

// gracePeriods runs grace periods one after another, in a goroutine that ends with the last one.
type gracePeriods struct {
	mu          sync.Mutex
	running     bool
	synchronize func() error
	// next is closed at the end of the next grace period; nil if there is no request for one.
	next chan struct{}
}

// request returns a channel that is closed at the end of a grace period that begins after the call.
// As with RCU callbacks, all requests during one grace period share the next one.
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
		_ = synchronize() // where the kernel refuses, a packet may be stale twice, and is lost
		close(over)
	}
}

// beginGrace begins a grace period after a transaction that needed a new epoch or left deletions,
// unless there is one since the last transaction. The next transaction that needs a new epoch waits
// for its end: a packet that is stale twice is lost.
func (a *Applier) beginGrace() {
	if a.grace == nil || a.graceAfter != a.stats.Transactions {
		a.grace, a.graceAfter = a.periods.request(a.synchronize), a.stats.Transactions
	}
}

// awaitGrace waits for the end of the grace period, if there is one.
func (a *Applier) awaitGrace() {
	if a.grace != nil {
		<-a.grace
		a.grace = nil
	}
}
