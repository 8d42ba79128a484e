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
	// maxDecisions is the number of decisions about a connection that are kept. A packet between two workloads
	// has up to four: those of each end, and those of host endpoints for forwarded traffic.
	maxDecisions = 6
	// staleAfter is the number of consecutive verdicts of other decisions about a connection after which a decision is
	// removed: policy has changed.
	staleAfter = 32
	// idleTime is how long a connection without a conntrack entry is kept after its last verdict. Another packet of it
	// does not count as a connection before.
	idleTime = 2 * time.Minute
	// lateEnd is how long a conntrack entry is kept after the first of the Updates that do not find it. Its end may
	// still be reported: the message waits in a socket. And the kernel may skip an entry while it resizes its hash
	// table. In both cases only the packets since the last Update that found it are new.
	lateEnd = 10 * time.Second
)

// connection is the state of all connections with one Tuple.
type connection struct {
	tuple Tuple
	// decisions have the flows that get the packets.
	decisions []decision
	// verdicts is the number of verdicts.
	verdicts uint32
	// pending is set from a verdict that counts as a connection until its conntrack entry is found.
	pending bool
	// live is the number of its conntrack entries in Table.tracked that have not ended.
	live int
	// walk is the number of the last Update before the connection began.
	walk uint64
	// idle is its element of Table.idle, or nil, and idleSince the time of the last verdict or end.
	idle      *list.Element
	idleSince time.Time
}

// decision is a flow of a connection. last is the number of the last verdict about it.
type decision struct {
	*entry
	last uint32
}

// trackedKey identifies a conntrack entry. IDs are hashes of 32 bits, and there may be an entry for each ICMP ID.
type trackedKey struct {
	*connection
	id           uint32
	icmpID, zone uint16
}

func keyOf(c *connection, f *conntrack.Flow) trackedKey {
	return trackedKey{connection: c, id: f.ID, icmpID: f.Original.ICMPID, zone: f.Zone}
}

// tracked is a conntrack entry of a connection.
type tracked struct {
	// counted is what the flows already have.
	counted conntrack.Counters
	// walk is the number of the last Update that found it.
	walk uint64
	// missing is when the first of the Updates since then returned. Zero if there was none.
	missing time.Time
	// ended is set if the entry ended during an Update, until the Update returns: the Update may have read the entry
	// before the end, and report it afterwards.
	ended bool
}

// Source reads the connection tracking table. *conntrack.Conn implements it.
type Source interface {
	// EachCounted calls each for every connection with its counters, and begin before it starts again.
	EachCounted(ctx context.Context, begin func(), each func(*conntrack.Flow, conntrack.Counters)) error
}

var _ Source = (*conntrack.Conn)(nil)

// connection returns the connection of a tuple, and adds it if there is none. It returns nil if the table is full.
func (t *Table) connection(tuple Tuple) *connection {
	c := t.connections[tuple]
	if c != nil {
		return c
	}
	if len(t.connections) >= t.cfg.MaxConnections {
		if t.idle.Len() == 0 {
			return nil
		}
		t.forget(t.idle.Front().Value.(*connection))
	}
	c = &connection{tuple: tuple}
	t.connections[tuple] = c
	return c
}

// forget removes an idle connection.
func (t *Table) forget(c *connection) {
	t.idle.Remove(c.idle)
	delete(t.connections, c.tuple)
}

// setIdle adds a connection to the idle ones, or sets the time since which it is idle.
func (t *Table) setIdle(c *connection) {
	c.idleSince = time.Now()
	if c.idle == nil {
		c.idle = t.idle.PushBack(c)
	}
	t.idle.MoveToBack(c.idle)
}

// setActive removes a connection from the idle ones.
func (t *Table) setActive(c *connection) {
	if c.idle != nil {
		t.idle.Remove(c.idle)
		c.idle = nil
	}
}

// decide adds a decision to a connection. Each decision counts the connection once.
func (t *Table) decide(c *connection, k Key) {
	if c.live == 0 && !c.pending {
		c.decisions, c.pending, c.walk = c.decisions[:0], true, t.walk
		t.setActive(c)
	}
	if c.idle != nil {
		t.setIdle(c)
	}
	c.verdicts++
	i := slices.IndexFunc(c.decisions, func(d decision) bool {
		return d.Policy == k.Policy && d.Direction == k.Direction && d.Reason == k.Reason
	})
	if i < 0 {
		i = c.room()
	}
	d := &c.decisions[i]
	d.last = c.verdicts
	if d.entry == nil || d.Key != k {
		d.entry = t.entry(k)
		t.count(d.entry, Counts{Connections: 1})
	}
	c.decisions = slices.DeleteFunc(c.decisions, func(d decision) bool { return c.verdicts-d.last > staleAfter })
}

// room returns the index of an empty decision. At the limit it replaces the one without a verdict for longest.
func (c *connection) room() int {
	if len(c.decisions) < maxDecisions {
		c.decisions = append(c.decisions, decision{})
		return len(c.decisions) - 1
	}
	oldest := 0
	for i := range c.decisions {
		if c.verdicts-c.decisions[i].last > c.verdicts-c.decisions[oldest].last {
			oldest = i
		}
	}
	c.decisions[oldest] = decision{}
	return oldest
}

// Ended counts the last packets of a connection. It is for conntrack.WatchConfig.Ended.
func (t *Table) Ended(f *conntrack.Flow, counters conntrack.Counters) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.connections[tupleOf(f)]
	if c == nil {
		return
	}
	k := keyOf(c, f)
	e, known := t.tracked[k]
	if known && !e.ended {
		c.live--
	}
	if !known || e.ended || exceeds(e.counted, counters) {
		t.begin(c)
		e.counted = conntrack.Counters{}
	}
	t.progress(c, e.counted, counters)
	delete(t.tracked, k)
	if t.walking && len(t.tracked) < t.cfg.MaxConnections {
		t.tracked[k] = tracked{ended: true}
	}
	if c.live == 0 {
		t.setIdle(c) // another one with this tuple, which no Update has found, may still end
	}
}

// Update counts the packets of connections that have not ended. It reads all connections of the kernel, at 2 µs each.
// It removes those that no Update has found for 10 seconds, as their end was missed. Concurrent calls run one after the
// other.
//
// Errors: those of source.EachCounted; what was counted before stays.
func (t *Table) Update(ctx context.Context, source Source) error {
	t.updating.Lock()
	defer t.updating.Unlock()
	t.mu.Lock()
	t.walk++
	t.walking = true
	t.mu.Unlock()
	err := source.EachCounted(ctx, func() {}, t.found)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.walking = false
	now := time.Now()
	for k, e := range t.tracked {
		switch {
		case e.ended:
			delete(t.tracked, k)
		case err != nil || e.walk == t.walk:
		case e.missing.IsZero():
			e.missing = now
			t.tracked[k] = e
		case now.Sub(e.missing) >= lateEnd: // its end was missed
			delete(t.tracked, k)
			k.live--
		}
	}
	if err != nil {
		return err
	}
	for _, c := range t.connections {
		if c.live == 0 && c.walk < t.walk && c.idle == nil {
			t.setIdle(c)
		}
	}
	for t.idle.Len() > 0 {
		c := t.idle.Front().Value.(*connection)
		if time.Since(c.idleSince) < idleTime {
			break
		}
		t.forget(c)
	}
	return nil
}

// found counts the packets of a connection that goes on.
func (t *Table) found(f *conntrack.Flow, counters conntrack.Counters) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.connections[tupleOf(f)]
	if c == nil {
		return
	}
	k := keyOf(c, f)
	e, known := t.tracked[k]
	switch {
	case e.ended:
		return
	case !known && len(t.tracked) >= t.cfg.MaxConnections:
		if c.idle != nil {
			t.setIdle(c) // its end counts all its packets
		}
		return
	case !known:
		c.live++
		t.begin(c)
	case exceeds(e.counted, counters):
		t.begin(c)
		e.counted = conntrack.Counters{}
	}
	t.setActive(c)
	t.progress(c, e.counted, counters)
	t.tracked[k] = tracked{counted: counters, walk: t.walk}
}

// begin counts a connection whose conntrack entry is found, unless a verdict has counted it.
func (t *Table) begin(c *connection) {
	if !c.pending {
		for _, d := range c.decisions {
			t.count(d.entry, Counts{Connections: 1})
		}
	}
	c.pending = false
}

// progress adds the difference of counters to the flows of a connection.
func (t *Table) progress(c *connection, before, now conntrack.Counters) {
	if now == before {
		return
	}
	for _, d := range c.decisions {
		t.count(d.entry, Counts{
			Packets: now.OriginalPackets - before.OriginalPackets, Bytes: now.OriginalBytes - before.OriginalBytes,
			ReplyPackets: now.ReplyPackets - before.ReplyPackets, ReplyBytes: now.ReplyBytes - before.ReplyBytes,
		})
	}
}

// exceeds reports whether a counter of a is over that of b: then b is of another connection, as counters never fall.
func exceeds(a, b conntrack.Counters) bool {
	return a.OriginalPackets > b.OriginalPackets || a.OriginalBytes > b.OriginalBytes ||
		a.ReplyPackets > b.ReplyPackets || a.ReplyBytes > b.ReplyBytes
}
