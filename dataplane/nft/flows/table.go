// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"container/list"
	"sync"
	"time"
)

// Config configures a Table. A limit of 0 means its default.
type Config struct {
	// MaxFlows limits the number of flows. Default 10,000.
	MaxFlows int
	// MaxConnections limits two numbers. Default 65,536.
	//
	//   - The number of tuples whose packets are counted at a time. The packets of further tuples
	//     are not counted: see Stats.Uncounted.
	//   - The number of conntrack entries whose packets Update counts. Several entries may have the
	//     same tuple. The packets of further entries are counted only when these entries end.
	//
	// With the defaults of MaxFlows and MaxConnections, a full table takes 40 MiB if two policies
	// decide about each connection. Once flows have been evicted, it takes up to 32 MiB more: 16
	// MiB for each policy.
	MaxConnections int
	// MaxTotals is the maximum number of decisions that Totals counts separately. Further decisions
	// share two entries. Default 1,000.
	MaxTotals int
	// Evicted is called with each flow that a new flow replaces. The method that adds the new flow
	// calls it, so Evicted must not call the Table. Optional.
	Evicted func(Flow)
}

// Stats has statistics of a Table since New.
type Stats struct {
	// Flows is the current number of flows, and Connections the current number of connections.
	// Several connections with the same Tuple count as one.
	Flows, Connections int
	// Evicted is the number of flows that new flows have replaced.
	Evicted uint64
	// Uncounted is the number of verdicts for which there was no space, because of
	// Config.MaxConnections. Each of these verdicts still adds one to Counts.Connections of its
	// flow. The packets of the connection are not counted.
	Uncounted uint64
	// Missed is the number of calls of Table.Missed. Each call means that notifications of the end
	// of connections were lost. The packets of such a connection are counted only up to the last
	// Update that found the connection.
	Missed uint64
}

// Table aggregates verdicts and counters into flows. Its methods may be called from any goroutine.
type Table struct {
	cfg Config

	// updating is locked during an Update, so that only one runs at a time. It is locked before mu.
	updating sync.Mutex

	mu     sync.Mutex
	flows  map[Key]*entry
	recent *list.List // of *entry, the latest first
	totals map[Decision]*Counts
	stats  Stats

	tuples  map[Tuple]*tupleState
	tracked map[trackedKey]tracked
	idle    *list.List // of *tupleState that have no conntrack entry, the latest last
	// updateNumber is the number of the last Update, and updateRunning is set while it runs.
	updateNumber  uint64
	updateRunning bool
}

// entry is a flow. It may have been evicted.
type entry struct {
	Flow
	element *list.Element // nil after the flow was evicted
}

// New returns an empty Table.
func New(cfg Config) *Table {
	cfg.MaxFlows = cmp.Or(cfg.MaxFlows, 10_000)
	cfg.MaxConnections = cmp.Or(cfg.MaxConnections, 1<<16)
	cfg.MaxTotals = cmp.Or(cfg.MaxTotals, 1_000)
	return &Table{
		cfg: cfg, flows: map[Key]*entry{}, recent: list.New(), totals: map[Decision]*Counts{},
		tuples: map[Tuple]*tupleState{}, tracked: map[trackedKey]tracked{}, idle: list.New(),
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
	s := t.tupleState(v.Tuple)
	if s == nil {
		t.stats.Uncounted++
		t.count(t.entry(v.Key), Counts{Connections: 1})
		return
	}
	t.decide(s, v.Key)
}

// entry returns the flow with the key. If there is none, it adds one.
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

// count adds to the counters of a flow and of its decision, and moves the flow to the front of
// recent.
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

// total returns the counters of a decision. Decisions over the limit share two counters: one for
// those that allow, and one for those that deny.
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

// Missed records that notifications about the ends of connections were lost. Use it as
// conntrack.WatchConfig.Missed.
func (t *Table) Missed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Missed++
}

// Flows returns all flows, the most recent first.
func (t *Table) Flows() []Flow {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]Flow, 0, t.recent.Len())
	for e := t.recent.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*entry).Flow)
	}
	return all
}

// Totals returns the counters of each decision since New, including the counters of evicted flows.
// The first Config.MaxTotals decisions have an entry each. All others share two entries: one for
// allowed packets, and one for denied packets. In the keys of these two entries, all fields except
// Allowed are zero.
func (t *Table) Totals() map[Decision]Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[Decision]Counts, len(t.totals))
	for d, c := range t.totals {
		all[d] = *c
	}
	return all
}

// Stats returns the statistics.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Flows, s.Connections = t.recent.Len(), len(t.tuples)-t.idle.Len()
	return s
}
