// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"container/list"
	"context"
	"maps"
	"sync"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
)

// Config configures a Table.
type Config struct {
	// MaxFlows is the maximum number of flows. Default 10,000.
	MaxFlows int
	// MaxConnections is the maximum number of connections whose packets are counted at a time. Default 65,536. With the
	// default of MaxFlows, a full table takes 20 MiB, or up to 50 if flows of these connections were evicted.
	MaxConnections int
	// MaxTotals is the maximum number of decisions in Totals. Default 1,000.
	MaxTotals int
	// Evicted is called with each flow that another one replaces. It must not call the Table. Optional.
	Evicted func(Flow)
}

// Stats is what a Table has counted since New.
type Stats struct {
	// Flows and Connections are how many there are now.
	Flows, Connections int
	// Evicted is the number of flows that others have replaced.
	Evicted uint64
	// Uncounted is the number of connections over Config.MaxConnections: they count as connections, their packets do
	// not.
	Uncounted uint64
	// Missed is how often the kernel had to drop notifications of ends. The next Update makes up for it, except that
	// the last packets of such connections are not counted.
	Missed uint64
}

// Table aggregates connections.
type Table struct {
	cfg Config

	mu          sync.Mutex
	flows       map[Key]*entry
	recent      *list.List // of *entry, the latest first
	connections map[Tuple]*connection
	totals      map[Decision]*Counts
	stats       Stats
	// walk is the number of the last Update.
	walk uint64
}

// entry is a flow, which may have been evicted.
type entry struct {
	Flow
	element *list.Element // nil if it was evicted
}

// connection is one that was allowed and whose packets are counted.
type connection struct {
	// first and second are the flows of the policies for egress and for ingress. second is nil if there is one only.
	first, second *entry
	// counted is what the flows already have.
	counted conntrack.Counters
	// seen is the number of the last Update that found it; until then, of that before it began.
	seen uint64
}

// New returns an empty Table.
func New(cfg Config) *Table {
	cfg.MaxFlows = cmp.Or(cfg.MaxFlows, 10_000)
	cfg.MaxConnections = cmp.Or(cfg.MaxConnections, 1<<16)
	cfg.MaxTotals = cmp.Or(cfg.MaxTotals, 1_000)
	return &Table{
		cfg: cfg, flows: map[Key]*entry{}, recent: list.New(), connections: map[Tuple]*connection{},
		totals: map[Decision]*Counts{},
	}
}

// Verdict counts a verdict.
func (t *Table) Verdict(v Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !v.Allowed {
		t.count(t.entry(v.Key), Counts{Packets: 1, Bytes: uint64(v.Length)})
		return
	}
	e := t.entry(v.Key)
	t.count(e, Counts{Connections: 1})
	c := t.connections[v.Tuple]
	switch {
	case c == nil && len(t.connections) >= t.cfg.MaxConnections:
		t.stats.Uncounted++
	case c != nil && c.second == nil && c.first.Direction != v.Direction:
		c.second = e
	default: // if there is one, its end was missed
		t.connections[v.Tuple] = &connection{first: e, seen: t.walk}
	}
}

// entry returns the flow of a key, and adds it if there is none.
func (t *Table) entry(k Key) *entry {
	e := t.flows[k]
	if e == nil {
		if t.recent.Len() >= t.cfg.MaxFlows {
			t.evict()
		}
		e = &entry{Flow: Flow{Key: k, First: time.Now()}}
		e.element = t.recent.PushFront(e)
		t.flows[k] = e
	}
	return e
}

// count adds to a flow, which becomes the latest.
func (t *Table) count(e *entry, add Counts) {
	if e.element == nil {
		e = t.entry(e.Key)
	}
	t.recent.MoveToFront(e.element)
	e.Last = time.Now()
	e.add(add)
	t.total(e.Decision).add(add)
}

// evict removes the flow that was idle for longest.
func (t *Table) evict() {
	e := t.recent.Remove(t.recent.Back()).(*entry)
	e.element = nil
	delete(t.flows, e.Key)
	t.stats.Evicted++
	if t.cfg.Evicted != nil {
		t.cfg.Evicted(e.Flow)
	}
}

// total returns the counts of a decision. Decisions over the limit share those of the zero Decision.
func (t *Table) total(d Decision) *Counts {
	if t.totals[d] == nil {
		if len(t.totals) >= t.cfg.MaxTotals {
			d = Decision{Allowed: d.Allowed}
		}
		if t.totals[d] == nil {
			t.totals[d] = &Counts{}
		}
	}
	return t.totals[d]
}

// Ended counts the last packets of a connection. It is for conntrack.WatchConfig.Ended.
func (t *Table) Ended(f *conntrack.Flow, counters conntrack.Counters) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tuple := tupleOf(f)
	if c := t.connections[tuple]; c != nil {
		t.progress(c, counters)
		delete(t.connections, tuple)
	}
}

// Missed notes that ends were not reported. It is for conntrack.WatchConfig.Missed.
func (t *Table) Missed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Missed++
}

// progress adds what is new in counters to the flows of a connection.
func (t *Table) progress(c *connection, counters conntrack.Counters) {
	if counters == c.counted {
		return
	}
	added := Counts{
		Packets: grown(counters.OriginalPackets, c.counted.OriginalPackets),
		Bytes:   grown(counters.OriginalBytes, c.counted.OriginalBytes),

		ReplyPackets: grown(counters.ReplyPackets, c.counted.ReplyPackets),
		ReplyBytes:   grown(counters.ReplyBytes, c.counted.ReplyBytes),
	}
	c.counted = counters
	t.count(c.first, added)
	if c.second != nil {
		t.count(c.second, added)
	}
}

// grown returns by how much a counter has grown. One that is smaller is that of another connection.
func grown(now, before uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

// Update counts the packets of the connections that go on. It walks all connections of the kernel, at 2 µs each.
//
// Errors: those of conntrack.Conn.EachCounted; what was counted before stays.
func (t *Table) Update(ctx context.Context, conn *conntrack.Conn) error {
	t.mu.Lock()
	t.walk++
	walk := t.walk
	t.mu.Unlock()
	err := conn.EachCounted(ctx, func() {}, func(f *conntrack.Flow, counters conntrack.Counters) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if c := t.connections[tupleOf(f)]; c != nil {
			t.progress(c, counters)
			c.seen = walk
		}
	})
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.connections, func(_ Tuple, c *connection) bool { return c.seen < walk }) // they have ended
	return nil
}

// Flows returns all flows, the latest first.
func (t *Table) Flows() []Flow {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]Flow, 0, t.recent.Len())
	for e := t.recent.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*entry).Flow)
	}
	return all
}

// Totals returns the counts of each decision since New, also those of flows that were evicted. Decisions over
// Config.MaxTotals share those of the decisions without policy and reason.
func (t *Table) Totals() map[Decision]Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[Decision]Counts, len(t.totals))
	for d, c := range t.totals {
		all[d] = *c
	}
	return all
}

// Stats returns what was counted.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Flows, s.Connections = t.recent.Len(), len(t.connections)
	return s
}
