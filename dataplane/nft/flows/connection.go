// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"container/list"
	"context"
	"slices"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
)

const (
	// maxDecisions is the maximum number of decisions that are kept for a connection. Up to four
	// policies decide about a packet between two workloads: those of the two workloads, and those
	// of two host endpoints for forwarded traffic.
	maxDecisions = 6
	// staleAfter is the number of verdicts after which a decision about a connection is removed, if
	// none of these verdicts has this decision. Policy has then changed.
	staleAfter = 32
	// idleTime is the time for which a connection without a conntrack entry is kept after its last
	// verdict. In this time, another packet of it does not count as a new connection.
	idleTime = 2 * time.Minute
	// lateEnd is the time for which a conntrack entry is kept after the first Update that does not
	// find it. There are two reasons. The message about the end of the entry may still be in a
	// socket. Or the kernel may have skipped the entry because it resized its hash table. In both
	// cases, only the packets since the last Update that found the entry are new.
	lateEnd = 10 * time.Second
)

// tupleState has the state of all connections with one Tuple.
type tupleState struct {
	tuple Tuple
	// decisions has the flows to which the packets count.
	decisions []decision
	// verdicts is the number of verdicts.
	verdicts uint32
	// pending is set after a verdict that counts as a connection, until the connection's conntrack
	// entry is found.
	pending bool
	// live is the number of conntrack entries of the tuple in Table.tracked that have not ended.
	live int
	// updateNumber is the number of the last Update before the connection began.
	updateNumber uint64
	// idle is the element of the tuple in Table.idle, or nil. The field idleSince is the time of
	// the tuple's last verdict or of the last end of a connection.
	idle      *list.Element
	idleSince time.Time
}

// decision is a flow to which a connection counts. last is the number of the last verdict with this
// decision.
type decision struct {
	*entry
	last uint32
}

// trackedKey identifies a conntrack entry. An ID is only a hash of 32 bits, and each ICMP ID may
// have an entry of its own.
type trackedKey struct {
	*tupleState
	id           uint32
	icmpID, zone uint16
}

func keyOf(s *tupleState, f *conntrack.Flow) trackedKey {
	return trackedKey{tupleState: s, id: f.ID, icmpID: f.Original.ICMPID, zone: f.Zone}
}

// tracked is a conntrack entry of a connection.
type tracked struct {
	// counted has the counters that are already counted in the flows.
	counted conntrack.Counters
	// updateNumber is the number of the last Update that found the entry.
	updateNumber uint64
	// missing is the time of the first Update that did not find the entry. It is zero if the last
	// Update found it.
	missing time.Time
	// ended is set if the entry ended during an Update, until that Update returns. The Update may
	// have read the entry before its end, and may still report it after its end.
	ended bool
}

// Source reads the connection tracking table. *conntrack.Conn implements it.
type Source interface {
	// EachCounted calls each() for every connection, with the counters of the connection. If it has
	// to read the table several times, it calls begin() before each time.
	EachCounted(ctx context.Context, begin func(), each func(*conntrack.Flow, conntrack.Counters)) error
}

var _ Source = (*conntrack.Conn)(nil)

// tupleState returns the state of a tuple, and adds it if there is none. It returns nil if the
// table is full.
func (t *Table) tupleState(tuple Tuple) *tupleState {
	s := t.tuples[tuple]
	if s != nil {
		return s
	}
	if len(t.tuples) >= t.cfg.MaxConnections {
		if t.idle.Len() == 0 {
			return nil
		}
		t.forget(t.idle.Front().Value.(*tupleState))
	}
	s = &tupleState{tuple: tuple}
	t.tuples[tuple] = s
	return s
}

// forget removes an idle tuple.
func (t *Table) forget(s *tupleState) {
	t.idle.Remove(s.idle)
	delete(t.tuples, s.tuple)
}

// setIdle makes a tuple the latest idle one.
func (t *Table) setIdle(s *tupleState) {
	s.idleSince = time.Now()
	if s.idle == nil {
		s.idle = t.idle.PushBack(s)
	}
	t.idle.MoveToBack(s.idle)
}

// setActive removes a tuple from the idle ones.
func (t *Table) setActive(s *tupleState) {
	if s.idle != nil {
		t.idle.Remove(s.idle)
		s.idle = nil
	}
}

// decide adds a decision to a tuple. A connection counts once for each of its decisions.
func (t *Table) decide(s *tupleState, k Key) {
	if s.live == 0 && !s.pending {
		s.decisions, s.pending, s.updateNumber = s.decisions[:0], true, t.updateNumber
		t.setActive(s)
	}
	if s.idle != nil {
		t.setIdle(s)
	}
	s.verdicts++
	i := slices.IndexFunc(s.decisions, func(d decision) bool {
		return d.Policy == k.Policy && d.Direction == k.Direction && d.Reason == k.Reason
	})
	if i < 0 {
		i = s.room()
	}
	d := &s.decisions[i]
	d.last = s.verdicts
	if d.entry == nil || d.Key != k {
		d.entry = t.entry(k)
		t.count(d.entry, Counts{Connections: 1})
	}
	s.decisions = slices.DeleteFunc(s.decisions, func(d decision) bool { return s.verdicts-d.last > staleAfter })
}

// room returns the index of an unused decision. At the limit, it replaces the decision whose last
// verdict is the oldest.
func (s *tupleState) room() int {
	if len(s.decisions) < maxDecisions {
		s.decisions = append(s.decisions, decision{})
		return len(s.decisions) - 1
	}
	oldest := 0
	for i := range s.decisions {
		if s.verdicts-s.decisions[i].last > s.verdicts-s.decisions[oldest].last {
			oldest = i
		}
	}
	s.decisions[oldest] = decision{}
	return oldest
}

// Ended counts the last packets of a connection. Use it as conntrack.WatchConfig.Ended.
func (t *Table) Ended(f *conntrack.Flow, counters conntrack.Counters) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.tuples[tupleOf(f)]
	if s == nil {
		return
	}
	k := keyOf(s, f)
	e, known := t.tracked[k]
	if known && !e.ended {
		s.live--
	}
	if !known || e.ended || exceeds(e.counted, counters) {
		t.begin(s)
		e.counted = conntrack.Counters{}
	}
	t.progress(s, e.counted, counters)
	delete(t.tracked, k)
	if t.updateRunning && len(t.tracked) < t.cfg.MaxConnections {
		t.tracked[k] = tracked{ended: true}
	}
	if s.live == 0 {
		t.setIdle(s) // another entry with this tuple, which no Update has found, may still end
	}
}

// Update counts the packets of connections that have not ended. It reads the whole connection
// tracking table, which takes 2 µs for each connection. Concurrent calls run one after the other.
//
// If the Table missed the notification of a connection's end, Update removes the connection. It
// removes a connection if two Updates, at least 10 seconds apart, do not find it.
//
// Update returns the errors of source.EachCounted. The packets that were counted before the error
// remain counted.
func (t *Table) Update(ctx context.Context, source Source) error {
	t.updating.Lock()
	defer t.updating.Unlock()
	t.mu.Lock()
	t.updateNumber++
	t.updateRunning = true
	t.mu.Unlock()
	err := source.EachCounted(ctx, func() {}, t.found)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.updateRunning = false
	now := time.Now()
	for k, e := range t.tracked {
		switch {
		case e.ended:
			delete(t.tracked, k)
		case err != nil || e.updateNumber == t.updateNumber:
		case e.missing.IsZero():
			e.missing = now
			t.tracked[k] = e
		case now.Sub(e.missing) >= lateEnd: // the message about its end was missed
			delete(t.tracked, k)
			k.live--
		}
	}
	if err != nil {
		return err
	}
	for _, s := range t.tuples {
		if s.live == 0 && s.updateNumber < t.updateNumber && s.idle == nil {
			t.setIdle(s)
		}
	}
	for t.idle.Len() > 0 {
		s := t.idle.Front().Value.(*tupleState)
		if time.Since(s.idleSince) < idleTime {
			break
		}
		t.forget(s)
	}
	return nil
}

// found counts the packets of a connection that continues.
func (t *Table) found(f *conntrack.Flow, counters conntrack.Counters) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.tuples[tupleOf(f)]
	if s == nil {
		return
	}
	k := keyOf(s, f)
	e, known := t.tracked[k]
	switch {
	case e.ended:
		return
	case !known && len(t.tracked) >= t.cfg.MaxConnections:
		if s.idle != nil {
			t.setIdle(s) // the message about its end counts all its packets
		}
		return
	case !known:
		s.live++
		t.begin(s)
	case exceeds(e.counted, counters):
		t.begin(s)
		e.counted = conntrack.Counters{}
	}
	t.setActive(s)
	t.progress(s, e.counted, counters)
	t.tracked[k] = tracked{counted: counters, updateNumber: t.updateNumber}
}

// begin counts a connection whose conntrack entry was found, unless a verdict has already counted
// it.
func (t *Table) begin(s *tupleState) {
	if !s.pending {
		for _, d := range s.decisions {
			t.count(d.entry, Counts{Connections: 1})
		}
	}
	s.pending = false
}

// progress adds the difference of counters to the flows of a connection.
func (t *Table) progress(s *tupleState, before, now conntrack.Counters) {
	if now == before {
		return
	}
	for _, d := range s.decisions {
		t.count(d.entry, Counts{
			Packets: now.OriginalPackets - before.OriginalPackets, Bytes: now.OriginalBytes - before.OriginalBytes,
			ReplyPackets: now.ReplyPackets - before.ReplyPackets, ReplyBytes: now.ReplyBytes - before.ReplyBytes,
		})
	}
}

// exceeds reports whether a counter of a is greater than the same counter of b. Counters never
// fall, so the two are then counters of different connections.
func exceeds(a, b conntrack.Counters) bool {
	return a.OriginalPackets > b.OriginalPackets || a.OriginalBytes > b.OriginalBytes ||
		a.ReplyPackets > b.ReplyPackets || a.ReplyBytes > b.ReplyBytes
}
