// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// stage is one dataplane of a Driver and what has been kept from it so far. Its size is
// bounded by the number of endpoints.
type stage struct {
	dp Dataplane
	// known are the endpoints as the dataplane has been told of them.
	known map[policy.Key]*Endpoint
	// withheld are newer states of endpoints, or new endpoints, that it has not been told of.
	withheld map[policy.Key]*Endpoint
	// hosts are the host endpoints that the dataplane has been told of, withheldHosts those that it has not: nothing is known
	// of them while the policy before them is in doubt.
	hosts         map[policy.Key]bool
	withheldHosts map[policy.Key]*HostEndpoint
	// stuck are endpoints that it has been told to remove, and could not.
	stuck map[policy.Key]*Endpoint
	// inSync says that it has not been told of InSync, which has come.
	inSync bool
	// failing says that its last call returned an error.
	failing bool
}

func newStage(dp Dataplane) *stage {
	return &stage{
		dp: dp, known: map[policy.Key]*Endpoint{}, withheld: map[policy.Key]*Endpoint{}, stuck: map[policy.Key]*Endpoint{},
		hosts: map[policy.Key]bool{}, withheldHosts: map[policy.Key]*HostEndpoint{},
	}
}

// rest returns the batch without the removal of endpoints, without what must be withheld, and
// with what was withheld and need not be any more.
func (s *stage) rest(b Batch, faults *outcome) Batch {
	var before, hosts, after []Event
	for _, e := range b.Events {
		switch e := e.(type) {
		case *EndpointUpdate:
			s.withheld[e.Key] = e.Endpoint
		case *EndpointRemove:
		case *HostEndpointUpdate:
			s.withheldHosts[e.Key] = e.HostEndpoint
		case *HostEndpointRemove:
			delete(s.withheldHosts, e.Key)
			if s.hosts[e.Key] {
				delete(s.hosts, e.Key)
				hosts = append(hosts, e)
			}
		case *InSync:
			s.inSync = true
		default:
			if beforeEndpoints(e) {
				before = append(before, e)
			} else {
				after = append(after, e)
			}
		}
	}
	if s.inSync && faults.general == nil {
		s.inSync = false
		after = append(after, &InSync{})
	}
	return Batch{Events: slices.Concat(before, s.release(faults), s.releaseHosts(faults), hosts, after)}
}

// releaseHosts returns updates for the withheld host endpoints: all of them, or while the outcome is in doubt those
// that the dataplane knows, which must refer to nothing that goes.
func (s *stage) releaseHosts(faults *outcome) []Event {
	var updates []Event
	for _, k := range slices.SortedFunc(maps.Keys(s.withheldHosts), policy.Key.Compare) {
		if faults.general != nil && !s.hosts[k] {
			continue
		}
		updates = append(updates, &HostEndpointUpdate{Key: k, HostEndpoint: s.withheldHosts[k]})
		s.hosts[k] = true
		delete(s.withheldHosts, k)
	}
	return updates
}

// beforeEndpoints reports whether the event comes before those of endpoints in a batch. All others come after them.
func beforeEndpoints(e Event) bool {
	switch e.(type) {
	case *IPSetUpdate, *IPSetDelta, *PolicyUpdate, *ProfileUpdate:
		return true
	}
	return false
}

// release returns updates for the withheld endpoints that are not at fault. Those that are keep their
// link and get the new references alone, if the dataplane knows them at all.
func (s *stage) release(faults *outcome) []Event {
	var updates []Event
	for _, k := range slices.SortedFunc(maps.Keys(s.withheld), policy.Key.Compare) {
		e := s.withheld[k]
		if faults.of(k) != nil {
			old, ok := s.known[k]
			if !ok {
				continue
			}
			e = e.withLinkOf(old)
			if e.Equal(old) {
				continue
			}
		} else {
			delete(s.withheld, k)
		}
		s.known[k] = e
		delete(s.stuck, k)
		updates = append(updates, &EndpointUpdate{Key: k, Endpoint: e})
	}
	return updates
}

// withLinkOf returns an endpoint with the link of old and the policy of e.
func (e *Endpoint) withLinkOf(old *Endpoint) *Endpoint {
	link := *old
	link.Ingress, link.Egress, link.Profiles = e.Ingress, e.Egress, e.Profiles
	return &link
}

// refersTo reports whether the endpoint refers to the policy or profile of this key.
func (e *Endpoint) refersTo(k policy.Key) bool {
	if k.Kind == policy.KindProfile {
		return slices.Contains(e.Profiles, k.Name)
	}
	return slices.ContainsFunc(slices.Concat(e.Ingress, e.Egress), func(t TierPolicies) bool {
		return slices.Contains(t.Policies, k)
	})
}
