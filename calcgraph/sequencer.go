// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"maps"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// Sequencer collects what the other nodes say between two flushes, drops what came to nothing, and
// puts the rest in the order that dataplane.Batch documents. It compares with what it
// emitted before, so that nodes may say things twice.
//
// A Sequencer is not safe for concurrent use.
type Sequencer struct {
	sets      map[dataplane.IPSetID]*setState
	dirtySets map[dataplane.IPSetID]struct{}
	policies  objects[policy.Key, dataplane.Policy]
	profiles  objects[string, dataplane.Profile]
	endpoints objects[policy.Key, dataplane.Endpoint]
	inSync    syncState
}

// setState is kept while the set exists for the nodes or for the receiver of the batches.
type setState struct {
	typ           dataplane.IPSetType
	exists, known bool
	// changed has the members that differ from what was emitted, and whether they are present now.
	changed map[dataplane.Member]bool
}

type syncState uint8

const (
	notInSync syncState = iota
	inSyncPending
	inSyncSent
)

var (
	_ MemberReceiver   = (*Sequencer)(nil)
	_ RulesReceiver    = (*Sequencer)(nil)
	_ EndpointReceiver = (*Sequencer)(nil)
)

// NewSequencer returns an empty node.
func NewSequencer() *Sequencer {
	return &Sequencer{
		sets:      map[dataplane.IPSetID]*setState{},
		dirtySets: map[dataplane.IPSetID]struct{}{},
		policies:  newObjects[policy.Key]((*dataplane.Policy).Equal),
		profiles:  newObjects[string]((*dataplane.Profile).Equal),
		endpoints: newObjects[policy.Key]((*dataplane.Endpoint).Equal),
	}
}

// IPSetAdded starts a set, empty.
func (s *Sequencer) IPSetAdded(id dataplane.IPSetID, typ dataplane.IPSetType) {
	set := s.sets[id]
	if set == nil {
		set = &setState{changed: map[dataplane.Member]bool{}}
		s.sets[id] = set
	}
	set.typ, set.exists = typ, true
	s.dirtySets[id] = struct{}{}
}

// MemberChanged adds a member to a set or removes it.
func (s *Sequencer) MemberChanged(id dataplane.IPSetID, m dataplane.Member, present bool) {
	set := s.sets[id]
	if was, ok := set.changed[m]; ok && was != present {
		delete(set.changed, m)
	} else {
		set.changed[m] = present
	}
	s.dirtySets[id] = struct{}{}
}

// IPSetRemoved ends a set, whose members have all been removed.
func (s *Sequencer) IPSetRemoved(id dataplane.IPSetID) {
	s.sets[id].exists = false
	s.dirtySets[id] = struct{}{}
}

// RulesUpdate adds or replaces a policy or profile.
func (s *Sequencer) RulesUpdate(owner policy.Key, r Rules) {
	if owner.Kind == policy.KindProfile {
		s.profiles.set(owner.Name, &dataplane.Profile{Ingress: r.Ingress, Egress: r.Egress})
		return
	}
	s.policies.set(owner, &dataplane.Policy{Tier: r.Tier, Staged: r.Staged, Ingress: r.Ingress, Egress: r.Egress})
}

// RulesRemove removes a policy or profile.
func (s *Sequencer) RulesRemove(owner policy.Key) {
	if owner.Kind == policy.KindProfile {
		s.profiles.set(owner.Name, nil)
		return
	}
	s.policies.set(owner, nil)
}

// EndpointUpdate adds or replaces an endpoint.
func (s *Sequencer) EndpointUpdate(key policy.Key, e *dataplane.Endpoint) { s.endpoints.set(key, e) }

// EndpointRemove removes an endpoint.
func (s *Sequencer) EndpointRemove(key policy.Key) { s.endpoints.set(key, nil) }

// InSync makes the next batch carry the InSync event, the first time it is called.
func (s *Sequencer) InSync() {
	if s.inSync == notInSync {
		s.inSync = inSyncPending
	}
}

// Flush returns what has changed since the last flush. The batch is empty if nothing has.
func (s *Sequencer) Flush() dataplane.Batch {
	setUpdates, setDeltas, setRemoves := s.flushSets()
	policyUpdates, policyRemoves := s.policies.flush(policy.Key.Compare,
		func(k policy.Key, p *dataplane.Policy) dataplane.Event {
			return &dataplane.PolicyUpdate{Key: k, Policy: p}
		},
		func(k policy.Key) dataplane.Event { return &dataplane.PolicyRemove{Key: k} })
	profileUpdates, profileRemoves := s.profiles.flush(strings.Compare,
		func(n string, p *dataplane.Profile) dataplane.Event {
			return &dataplane.ProfileUpdate{Name: n, Profile: p}
		},
		func(n string) dataplane.Event { return &dataplane.ProfileRemove{Name: n} })
	endpointUpdates, endpointRemoves := s.endpoints.flush(policy.Key.Compare,
		func(k policy.Key, e *dataplane.Endpoint) dataplane.Event {
			return &dataplane.EndpointUpdate{Key: k, Endpoint: e}
		},
		func(k policy.Key) dataplane.Event { return &dataplane.EndpointRemove{Key: k} })

	events := slices.Concat(setUpdates, setDeltas, policyUpdates, profileUpdates, endpointUpdates,
		endpointRemoves, profileRemoves, policyRemoves, setRemoves)
	if s.inSync == inSyncPending {
		s.inSync = inSyncSent
		events = append(events, &dataplane.InSync{})
	}
	return dataplane.Batch{Events: events}
}

func (s *Sequencer) flushSets() (updates, deltas, removes []dataplane.Event) {
	for _, id := range slices.SortedFunc(maps.Keys(s.dirtySets), compareIDs) {
		set := s.sets[id]
		added, removed := set.take()
		switch {
		case set.exists && !set.known:
			updates = append(updates, &dataplane.IPSetUpdate{ID: id, Type: set.typ, Members: added})
		case set.exists && len(added)+len(removed) > 0:
			deltas = append(deltas, &dataplane.IPSetDelta{ID: id, Added: added, Removed: removed})
		case !set.exists && set.known:
			removes = append(removes, &dataplane.IPSetRemove{ID: id})
		}
		set.known = set.exists
		if !set.exists {
			delete(s.sets, id)
		}
	}
	clear(s.dirtySets)
	return updates, deltas, removes
}

// take returns the changed members, sorted, and forgets them.
func (s *setState) take() (added, removed []dataplane.Member) {
	for _, m := range slices.SortedFunc(maps.Keys(s.changed), dataplane.Member.Compare) {
		if s.changed[m] {
			added = append(added, m)
		} else {
			removed = append(removed, m)
		}
	}
	clear(s.changed)
	return added, removed
}

// objects holds the emitted and the pending state of one kind of object.
type objects[K comparable, V any] struct {
	equal func(a, b *V) bool
	sent  map[K]*V
	// pending has what the nodes said since the last flush; nil means removed.
	pending map[K]*V
}

func newObjects[K comparable, V any](equal func(a, b *V) bool) objects[K, V] {
	return objects[K, V]{equal: equal, sent: map[K]*V{}, pending: map[K]*V{}}
}

func (o objects[K, V]) set(k K, v *V) { o.pending[k] = v }

func (o objects[K, V]) flush(
	compare func(a, b K) int, update func(K, *V) dataplane.Event, remove func(K) dataplane.Event,
) (updates, removes []dataplane.Event) {
	for _, k := range slices.SortedFunc(maps.Keys(o.pending), compare) {
		v, old := o.pending[k], o.sent[k]
		switch {
		case v == nil && old != nil:
			delete(o.sent, k)
			removes = append(removes, remove(k))
		case v != nil && (old == nil || !o.equal(v, old)):
			o.sent[k] = v
			updates = append(updates, update(k, v))
		}
	}
	clear(o.pending)
	return updates, removes
}
