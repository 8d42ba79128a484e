// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"iter"
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// closureOf returns the endpoint and all objects that it refers to, directly or through other
// objects. A set that is in known is copied from there.
func closureOf(s *desired, key policy.Key, known map[dataplane.IPSetID]dptest.Set) dptest.State {
	c := dptest.NewState()
	c.InSync = true
	e := s.Endpoint(key)
	if e == nil {
		return c
	}
	c.Endpoints[key] = e
	addSets := func(rules []dataplane.Rule) {
		for id := range setsOf(rules) {
			if set, ok := known[id]; ok {
				c.Sets[id] = set
			} else if _, ok := c.Sets[id]; ok {
				continue
			} else if set, ok := s.Set(id); ok {
				c.Sets[id] = set
			}
		}
	}
	for _, tiers := range [][]dataplane.TierPolicies{e.Ingress, e.Egress} {
		for i := range tiers {
			for _, k := range tiers[i].Policies {
				if p := s.Policy(k); p != nil && c.Policies[k] == nil {
					c.Policies[k] = p
					addSets(p.Ingress)
					addSets(p.Egress)
				}
			}
		}
	}
	for _, name := range e.Profiles {
		if p := s.Profile(name); p != nil {
			c.Profiles[name] = p
			addSets(p.Ingress)
			addSets(p.Egress)
		}
	}
	return c
}

// setsOf yields the sets that the rules name.
func setsOf(rules []dataplane.Rule) iter.Seq[dataplane.IPSetID] {
	return func(yield func(dataplane.IPSetID) bool) {
		for i := range rules {
			for _, m := range []*dataplane.Match{&rules[i].Source, &rules[i].Destination} {
				for _, ids := range [][]dataplane.IPSetID{m.Sets, m.NotSets, m.PortSets, m.NotPortSets} {
					for _, id := range ids {
						if !yield(id) {
							return
						}
					}
				}
			}
		}
	}
}

// snapshotOf returns the batch with the closure of an endpoint.
func snapshotOf(s *desired, key policy.Key) dataplane.Batch {
	return dptest.Transition(dptest.NewState(), closureOf(s, key, nil))
}

// view is the closure that the subscribers of an endpoint have once they have received all queued
// batches. The members of its sets are left out, because batches contain changes of members.
type view struct {
	key  policy.Key
	held dptest.State
}

// newView returns the view of a state.
func newView(s *desired, key policy.Key) *view {
	return &view{key, withoutMembers(closureOf(s, key, nil))}
}

// withoutMembers removes the members of the sets of a closure.
func withoutMembers(c dptest.State) dptest.State {
	for id, set := range c.Sets {
		c.Sets[id] = dptest.Set{Type: set.Type}
	}
	return c
}

// update returns the events by which a batch changes the closure. The batch has already been
// applied to the state. changed means that the list of malformed objects has changed. Such a change
// can affect the closure, because a malformed staged policy is sent without rules.
func (v *view) update(s *desired, b dataplane.Batch, changed bool) dataplane.Batch {
	var events []dataplane.Event // events of sets that the view has
	for _, e := range b.Events {
		switch e := e.(type) {
		case *dataplane.IPSetUpdate, *dataplane.IPSetDelta:
			if _, ok := v.held.Sets[setID(e)]; ok {
				events = append(events, e)
			}
		case *dataplane.PolicyUpdate:
			changed = changed || v.held.Policies[e.Key] != nil
		case *dataplane.ProfileUpdate:
			changed = changed || v.held.Profiles[e.Name] != nil
		case *dataplane.EndpointUpdate:
			changed = changed || e.Key == v.key
		}
	}
	if !changed {
		return dataplane.Batch{Events: events}
	}
	next := closureOf(s, v.key, v.held.Sets)
	events = slices.DeleteFunc(events, func(e dataplane.Event) bool {
		_, ok := next.Sets[setID(e)]
		return !ok
	})
	events = append(events, dptest.Transition(v.held, next).Events...)
	dataplane.SortEvents(events)
	v.held = withoutMembers(next)
	return dataplane.Batch{Events: events}
}

// setID returns the set of an IPSetUpdate or IPSetDelta, or "".
func setID(e dataplane.Event) dataplane.IPSetID {
	switch e := e.(type) {
	case *dataplane.IPSetUpdate:
		return e.ID
	case *dataplane.IPSetDelta:
		return e.ID
	}
	return ""
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[policy.Key]V) []policy.Key {
	return slices.SortedFunc(maps.Keys(m), policy.Key.Compare)
}
