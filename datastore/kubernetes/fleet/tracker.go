// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/wayleave/wayleave/dataplane"
)

// mark is a change that a Mirror receives: a member of a set that is added or removed, or a port of
// a policy.
type mark string

func added(a netip.Addr) mark   { return mark("+" + a.String()) }
func removed(a netip.Addr) mark { return mark("-" + a.String()) }
func portOf(policy string, port uint16) mark {
	return mark(fmt.Sprintf("policy %s port %d", policy, port))
}

// marksOf calls a function for each mark of a batch.
func marksOf(b dataplane.Batch, found func(mark)) {
	members := func(list []dataplane.Member, kind func(netip.Addr) mark) {
		for _, m := range list {
			if m.Port == 0 && m.Prefix.IsSingleIP() {
				found(kind(m.Prefix.Addr()))
			}
		}
	}
	for _, e := range b.Events {
		switch e := e.(type) {
		case *dataplane.IPSetUpdate:
			members(e.Members, added)
		case *dataplane.IPSetDelta:
			members(e.Added, added)
			members(e.Removed, removed)
		case *dataplane.PolicyUpdate:
			for _, r := range e.Policy.Ingress {
				for _, p := range r.Destination.Ports {
					found(portOf(e.Key.Name, p.First))
				}
			}
		}
	}
}

// tracker records when each node of a worker has each expected mark.
type tracker struct {
	mu sync.Mutex
	// places has the index of each expected mark in times.
	places map[mark]int
	// times has, by mark and node, when the node had the mark, in nanoseconds since 1970; 0 before.
	times   [][]int64
	open    []int // marks that a node lacks
	missing int   // nodes that lack a mark
	changed chan struct{}
}

func newTracker(nodes int) *tracker {
	return &tracker{open: make([]int, nodes), changed: make(chan struct{})}
}

// expect replaces the expected marks. Marks that arrived earlier do not count.
func (b *tracker) expect(marks []mark) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.places, b.times = map[mark]int{}, make([][]int64, len(marks))
	for i, m := range marks {
		b.places[m], b.times[i] = i, make([]int64, len(b.open))
	}
	for i := range b.open {
		b.open[i] = len(marks)
	}
	b.missing = len(b.open)
}

// record records the marks of a batch that a node has applied.
func (b *tracker) record(node int, batch dataplane.Batch, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.places) == 0 {
		return
	}
	marksOf(batch, func(m mark) {
		i, expected := b.places[m]
		if !expected || b.times[i][node] != 0 {
			return
		}
		b.times[i][node] = now.UnixNano()
		if b.open[node]--; b.open[node] == 0 {
			if b.missing--; b.missing == 0 {
				close(b.changed)
				b.changed = make(chan struct{})
			}
		}
	})
}

// wait waits until every node has every mark.
func (b *tracker) wait(ctx context.Context) error {
	for {
		b.mu.Lock()
		missing, changed := b.missing, b.changed
		b.mu.Unlock()
		if missing == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d nodes lack the change: %w", missing, ctx.Err())
		case <-changed:
		}
	}
}

// Arrivals are the times at which the nodes received the marks, in nanoseconds since 1970.
type Arrivals struct {
	// Nodes has, for each node, the time at which the node received its latest mark; 0 if the node
	// has received no mark.
	Nodes []int64
	// Marks has, for each mark, the times at which the first and the last node received it, and the
	// number of nodes that have it.
	Marks map[mark]span
}

// span has the times at which the first and the last of some nodes received a mark, and their
// number.
type span struct {
	First, Last int64
	Count       int
}

// arrivals returns the arrivals since the last call of expect.
func (b *tracker) arrivals() Arrivals {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := Arrivals{Nodes: make([]int64, len(b.open)), Marks: map[mark]span{}}
	for m, i := range b.places {
		s := span{}
		for node, at := range b.times[i] {
			a.Nodes[node] = max(a.Nodes[node], at)
			s = s.join(span{First: at, Last: at, Count: 1})
		}
		a.Marks[m] = s
	}
	return a
}

// join returns the span that covers both. A span whose times are 0 is empty.
func (s span) join(o span) span {
	switch {
	case o.First == 0:
		return s
	case s.First == 0:
		return o
	}
	return span{First: min(s.First, o.First), Last: max(s.Last, o.Last), Count: s.Count + o.Count}
}
