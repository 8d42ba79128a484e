// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector/labelindex"
)

// Snapshot returns all that Flush has returned so far as one batch, for a dataplane that joins
// late: after it such a dataplane is where one is that played every batch. What was given to Update
// since the last flush is not in it; the next flush has it. The members of IP sets are worked out
// anew, so that a snapshot costs in proportion to all that is active.
func (g *Graph) Snapshot() dataplane.Batch { return g.seq.Snapshot(g.sets.Members) }

// State is what a graph holds, for people and tools: plain data that the graph does not change any
// more. Lists are sorted.
type State struct {
	// Node is the name of the graph's node.
	Node string
	// InSync is set once InSync was called.
	InSync bool
	// Sets are the active IP sets.
	Sets []SetState
	// Policies are the active policies.
	Policies []PolicyState
	// Profiles are the names of the active profiles, missing ones included.
	Profiles []string
	// Endpoints are the local workload and host endpoints.
	Endpoints []EndpointState
}

// SetState describes an active IP set.
type SetState struct {
	ID   dataplane.IPSetID
	Type dataplane.IPSetType
	// Selector in its canonical form; empty in the set of a service.
	Selector string
	// PortName and Protocol of a set of named ports, else zero.
	PortName string
	Protocol policy.Protocol
	// Service is "namespace/name" in the set of a service.
	Service string
	// Owners is how many policies and profiles refer to the set.
	Owners int
}

// PolicyState describes why a policy is active.
type PolicyState struct {
	Key  policy.Key
	Tier string
	// Selector in its canonical form, with what the namespace and the other selectors of the policy
	// add.
	Selector string
	// Endpoints is how many local endpoints the policy selects; 0 if it is only wanted on every
	// node.
	Endpoints int
}

// EndpointState is a local endpoint.
type EndpointState struct {
	Key policy.Key
	// Selectors that select the endpoint, each with one policy or more, in canonical form.
	Selectors []string
}

// State returns what the graph holds. It costs in proportion to what is active.
func (g *Graph) State() State {
	s := State{Node: g.cfg.Node, InSync: g.inSync}
	for _, id := range slices.Sorted(maps.Keys(g.scanner.sets)) {
		s.Sets = append(s.Sets, g.scanner.sets[id].state())
	}
	for _, key := range slices.SortedFunc(maps.Keys(g.active.policies), policy.Key.Compare) {
		if p := g.active.policies[key]; p.active() {
			s.Policies = append(s.Policies, PolicyState{
				Key: key, Tier: p.policy.TierName(), Selector: p.selection.sel.String(), Endpoints: p.selection.matches,
			})
		}
	}
	for name, p := range g.active.profiles {
		if p.users > 0 {
			s.Profiles = append(s.Profiles, name)
		}
	}
	slices.Sort(s.Profiles)
	for _, key := range slices.SortedFunc(maps.Keys(g.active.endpoints), policy.Key.Compare) {
		e := EndpointState{Key: key}
		for selection := range g.active.index.Selectors(key) {
			e.Selectors = append(e.Selectors, selection.sel.String())
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

func (u *usedSet) state() SetState {
	s := SetState{
		ID: u.spec.ID, Type: u.spec.Type, PortName: u.spec.PortName, Protocol: u.spec.Protocol, Owners: u.owners,
	}
	if u.spec.Selector != nil {
		s.Selector = u.spec.Selector.String()
	} else {
		s.Service = u.spec.ServiceNamespace + "/" + u.spec.ServiceName
	}
	return s
}

// Stats counts what a graph holds and has done.
type Stats struct {
	// Policies, Selections and ActivePolicies: all policies, the distinct selectors of those that
	// can select something on this node, and those that are active.
	Policies, Selections, ActivePolicies int
	// ActiveProfiles includes missing ones.
	ActiveProfiles int
	// LocalEndpoints are the workload and host endpoints of the graph's node.
	LocalEndpoints int
	// Stacks are the distinct lists of policies that local endpoints have.
	Stacks int
	// Objects are the endpoints, host endpoints and network sets of all nodes.
	Objects int
	// Sets are the active IP sets.
	Sets int
	// SharedPrefixes are addresses and prefixes that several objects have.
	SharedPrefixes int
	// Rejected is how often a resource was treated as absent because it is invalid.
	Rejected uint64
	// Doubts is the number of policies in force with rules in doubt.
	Doubts int
	// ActiveIndex and SetIndex are the label indexes of ActiveRules and IPSets.
	ActiveIndex, SetIndex labelindex.Stats
	// Routes is what RouteResolver holds.
	Routes RouteStats
}

// Stats returns the counts. It costs in proportion to the policies that are active.
func (g *Graph) Stats() Stats {
	s := Stats{
		Policies:       len(g.active.policies) + g.active.deferred.n,
		Selections:     len(g.active.selections),
		LocalEndpoints: len(g.active.endpoints),
		Stacks:         len(g.resolver.stacks),
		Objects:        g.sets.selected.objects.Len(),
		Sets:           len(g.scanner.sets),
		SharedPrefixes: g.sets.selected.contributors.ids.Len(),
		Rejected:       g.rejected,
		Doubts:         len(g.doubts),
		ActiveIndex:    g.active.index.Stats(),
		SetIndex:       g.sets.selected.index.Stats(),
		Routes:         g.routes.Stats(),
	}
	for owner := range g.scanner.owners {
		if owner.Kind == policy.KindProfile {
			s.ActiveProfiles++
		} else {
			s.ActivePolicies++
		}
	}
	return s
}
