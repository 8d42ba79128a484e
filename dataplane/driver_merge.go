// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// merger makes one batch of several that follow each other: it has the last word on every object,
// in the order of Batch. It leads to the same state as the batches one by one, without the
// way stations.
type merger struct {
	// Objects and routes that exist before the batches: an object that comes and goes within them is
	// not to be removed unless it was there before. There may be very many of either.
	objects map[policy.Key]struct{}
	routes  map[netip.Prefix]struct{}
}

func newMerger() merger {
	return merger{objects: map[policy.Key]struct{}{}, routes: map[netip.Prefix]struct{}{}}
}

// exists reports whether the object exists before the batches that are being merged.
func (m *merger) exists(id identity) bool {
	_, object := m.objects[id.key]
	_, route := m.routes[id.route]
	return object || route
}

// note remembers what exists after a batch.
func (m *merger) note(b Batch) {
	for _, e := range b.Events {
		switch p := e.place(); {
		case p.step.removes():
			delete(m.objects, p.id.key)
			delete(m.routes, p.id.route)
		case p.id.route.IsValid():
			m.routes[p.id.route] = struct{}{}
		default:
			m.objects[p.id.key] = struct{}{}
		}
	}
}

// merge returns the batch that leads to where the batches lead, and remembers what then exists.
func (m *merger) merge(batches []Batch) Batch {
	var merged Batch
	switch len(batches) {
	case 0:
		return merged
	case 1:
		merged = batches[0]
	default:
		merged = m.fold(batches)
	}
	m.note(merged)
	return merged
}

func (m *merger) fold(batches []Batch) Batch {
	last := map[identity]Event{}
	for _, b := range batches {
		for _, e := range b.Events {
			p := e.place()
			e := follow(last[p.id], e)
			if e == nil || p.step.removes() && !m.exists(p.id) {
				delete(last, p.id)
				continue
			}
			last[p.id] = e
		}
	}
	events := slices.Collect(maps.Values(last))
	sortEvents(events)
	return Batch{Events: events}
}

// follow returns what two events of one object that follow each other come to; nil if to nothing.
// Only the deltas of sets depend on what was before.
func follow(before, e Event) Event {
	delta, ok := e.(*IPSetDelta)
	if !ok {
		return e
	}
	switch before := before.(type) {
	case *IPSetUpdate:
		members := union(minus(before.Members, delta.Removed), delta.Added)
		return &IPSetUpdate{ID: before.ID, Type: before.Type, Members: members}
	case *IPSetDelta:
		both := &IPSetDelta{
			ID:      delta.ID,
			Added:   union(minus(before.Added, delta.Removed), minus(delta.Added, before.Removed)),
			Removed: union(minus(before.Removed, delta.Added), minus(delta.Removed, before.Added)),
		}
		if len(both.Added)+len(both.Removed) == 0 {
			return nil
		}
		return both
	}
	return e
}

// minus returns the members of a that are not in b. Both are sorted, and so is the result.
func minus(a, b []Member) []Member {
	var out []Member
	for _, m := range a {
		for len(b) > 0 && b[0].Compare(m) < 0 {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != m {
			out = append(out, m)
		}
	}
	return out
}

// union returns the members of a and of b, which are sorted and have none in common, sorted.
func union(a, b []Member) []Member {
	out := make([]Member, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].Compare(b[0]) < 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}
