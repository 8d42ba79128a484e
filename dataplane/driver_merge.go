// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// merger merges consecutive batches into one that leads to the same state. The merged batch has the
// last event of each object, in the order of Batch.
type merger struct {
	// objects and routes exist before the batches that are to be merged. If the batches add and
	// remove an object, the merged batch needs its removal only if the object existed before.
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

// record records the objects and routes that exist after a batch.
func (m *merger) record(b Batch) {
	for _, e := range b.Events {
		switch p := e.position(); {
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

// merge returns one batch that leads to the same state as the batches. It records the objects that
// exist after them.
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
	m.record(merged)
	return merged
}

func (m *merger) fold(batches []Batch) Batch {
	last := map[identity]Event{}
	for _, b := range batches {
		for _, e := range b.Events {
			p := e.position()
			e := mergeEvents(last[p.id], e)
			if e == nil || p.step.removes() && !m.exists(p.id) {
				delete(last, p.id)
				continue
			}
			last[p.id] = e
		}
	}
	events := slices.Collect(maps.Values(last))
	SortEvents(events)
	return Batch{Events: events}
}

// mergeEvents returns one event for two consecutive events of one object, or nil if the two change
// nothing. Only an IPSetDelta depends on the event before; any other event replaces it.
func mergeEvents(before, e Event) Event {
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
