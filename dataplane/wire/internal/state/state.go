// SPDX-License-Identifier: Apache-2.0

package state

import (
	"iter"
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// State is the desired state of a dataplane.
type State struct {
	full dptest.State
	// changes are changes of sets that are not merged into full: true for an added member, false
	// for a removed one.
	changes map[dataplane.IPSetID]map[dataplane.Member]bool
}

// New returns an empty state, which is not in sync.
func New() *State {
	return &State{full: dptest.NewState(), changes: map[dataplane.IPSetID]map[dataplane.Member]bool{}}
}

// InSync reports whether the state is complete.
func (s *State) InSync() bool { return s.full.InSync }

// Apply applies the events of a batch to the state.
func (s *State) Apply(b dataplane.Batch) {
	for _, e := range b.Events {
		if !s.applySet(e) && !s.applyPolicy(e) {
			s.applyNetwork(e)
		}
	}
}

// Clone returns an independent copy. Both share the objects, which must not be changed.
func (s *State) Clone() *State {
	s.mergeAll()
	c := New()
	c.full = s.full.Clone()
	return c
}

// Objects returns a copy of the objects.
func (s *State) Objects() dptest.State {
	s.mergeAll()
	return s.full.Clone()
}

// Endpoints yields the workload endpoints, in no order.
func (s *State) Endpoints() iter.Seq2[policy.Key, *dataplane.Endpoint] {
	return maps.All(s.full.Endpoints)
}

// Endpoint returns a workload endpoint, or nil if it does not exist.
func (s *State) Endpoint(key policy.Key) *dataplane.Endpoint { return s.full.Endpoints[key] }

// Policy returns a policy, or nil if it does not exist.
func (s *State) Policy(key policy.Key) *dataplane.Policy { return s.full.Policies[key] }

// Profile returns a profile, or nil if it does not exist.
func (s *State) Profile(name string) *dataplane.Profile { return s.full.Profiles[name] }

// Set returns a set. It returns false if the set does not exist.
func (s *State) Set(id dataplane.IPSetID) (dptest.Set, bool) {
	if s.changes[id] != nil {
		s.merge(id)
	}
	set, ok := s.full.Sets[id]
	return set, ok
}

// Snapshot returns a batch with the whole state.
func (s *State) Snapshot() dataplane.Batch { return New().ChangesTo(s) }

// ChangesTo returns the batch that changes s into another state.
func (s *State) ChangesTo(to *State) dataplane.Batch {
	s.mergeAll()
	to.mergeAll()
	return dptest.Transition(s.full, to.full)
}

// applySet applies an event of a set, or InSync. It returns false for other events.
func (s *State) applySet(e dataplane.Event) bool {
	switch e := e.(type) {
	case *dataplane.IPSetUpdate:
		s.full.Sets[e.ID] = dptest.Set{Type: e.Type, Members: e.Members}
		delete(s.changes, e.ID)
	case *dataplane.IPSetDelta:
		s.change(e)
	case *dataplane.IPSetRemove:
		delete(s.full.Sets, e.ID)
		delete(s.changes, e.ID)
	case *dataplane.InSync:
		s.full.InSync = true
	default:
		return false
	}
	return true
}

// applyPolicy applies an event of a policy, profile or endpoint. It returns false for other events.
func (s *State) applyPolicy(e dataplane.Event) bool {
	switch e := e.(type) {
	case *dataplane.PolicyUpdate:
		s.full.Policies[e.Key] = e.Policy
	case *dataplane.PolicyRemove:
		delete(s.full.Policies, e.Key)
	case *dataplane.ProfileUpdate:
		s.full.Profiles[e.Name] = e.Profile
	case *dataplane.ProfileRemove:
		delete(s.full.Profiles, e.Name)
	case *dataplane.EndpointUpdate:
		s.full.Endpoints[e.Key] = e.Endpoint
	case *dataplane.EndpointRemove:
		delete(s.full.Endpoints, e.Key)
	case *dataplane.HostEndpointUpdate:
		s.full.HostEndpoints[e.Key] = e.HostEndpoint
	case *dataplane.HostEndpointRemove:
		delete(s.full.HostEndpoints, e.Key)
	default:
		return false
	}
	return true
}

// applyNetwork applies an event of any other object.
func (s *State) applyNetwork(e dataplane.Event) {
	switch e := e.(type) {
	case *dataplane.TunnelUpdate:
		s.full.Tunnels[e.Tunnel.Key()] = e.Tunnel
	case *dataplane.TunnelRemove:
		delete(s.full.Tunnels, e.Key)
	case *dataplane.RouteUpdate:
		s.full.Routes[e.Route.Dst] = e.Route
	case *dataplane.RouteRemove:
		delete(s.full.Routes, e.Dst)
	case *dataplane.NodeUpdate:
		s.full.Nodes[e.Node.Name] = e.Node
	case *dataplane.NodeRemove:
		delete(s.full.Nodes, e.Name)
	case *dataplane.PoolUpdate:
		s.full.Pools[e.Pool.Name] = e.Pool
	case *dataplane.PoolRemove:
		delete(s.full.Pools, e.Name)
	case *dataplane.ServiceUpdate:
		s.full.Services[e.Service.Key] = e.Service
	case *dataplane.ServiceRemove:
		delete(s.full.Services, e.Key)
	case *dataplane.NamespaceUpdate:
		s.full.Namespaces[e.Namespace.Name] = e.Namespace
	case *dataplane.NamespaceRemove:
		delete(s.full.Namespaces, e.Name)
	case *dataplane.ServiceAccountUpdate:
		s.full.ServiceAccounts[e.ServiceAccount.Key] = e.ServiceAccount
	case *dataplane.ServiceAccountRemove:
		delete(s.full.ServiceAccounts, e.Key)
	}
}

// change records changes of a set. It merges them if there are many.
func (s *State) change(e *dataplane.IPSetDelta) {
	changes := s.changes[e.ID]
	if changes == nil {
		changes = map[dataplane.Member]bool{}
		s.changes[e.ID] = changes
	}
	for _, m := range e.Removed {
		changes[m] = false
	}
	for _, m := range e.Added {
		changes[m] = true
	}
	const few = 64
	if len(changes) > few+len(s.full.Sets[e.ID].Members)/4 {
		s.merge(e.ID)
	}
}

func (s *State) mergeAll() {
	for id := range s.changes {
		s.merge(id)
	}
}

// merge merges the changes of a set into a new list of members, because batches share the old one.
func (s *State) merge(id dataplane.IPSetID) {
	changes, set := s.changes[id], s.full.Sets[id]
	delete(s.changes, id)
	members := make([]dataplane.Member, 0, len(set.Members)+len(changes))
	for _, m := range set.Members {
		if _, changed := changes[m]; !changed {
			members = append(members, m)
		}
	}
	for m, there := range changes {
		if there {
			members = append(members, m)
		}
	}
	slices.SortFunc(members, dataplane.Member.Compare)
	s.full.Sets[id] = dptest.Set{Type: set.Type, Members: members}
}
