// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector/labelindex"
)

// Snapshot returns one batch with the state after the last flush, for a dataplane that is added
// later. The batch has the same effect as all batches so far together. Updates since the last flush
// are not in it: the next flush returns them. Snapshot computes the members of IP sets again, so
// its cost is proportional to the size of the state.
func (g *Graph) Snapshot() dataplane.Batch { return g.seq.Snapshot(g.sets.Members) }

// State is the state of a graph, for debugging tools. It is a copy. Lists are sorted.
type State struct {
	// Node is the name of the graph's node.
	Node string
	// InSync is true after the call of InSync.
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

// SetState is an active IP set.
type SetState struct {
	ID   dataplane.IPSetID
	Type dataplane.IPSetType
	// Selector is the selector in its canonical form. It is empty for the set of a service.
	Selector string
	// PortName and Protocol are set for a set of named ports.
	PortName string
	Protocol policy.Protocol
	// Service is "namespace/name" for the set of a service.
	Service string
	// Owners is the number of policies and profiles that refer to the set.
	Owners int
}

// PolicyState is an active policy, and why it is active.
type PolicyState struct {
	Key  policy.Key
	Tier string
	// Selector is the effective selector in its canonical form: it includes the namespace and the
	// other selectors of the policy.
	Selector string
	// Endpoints is the number of local endpoints that the policy selects. It is 0 if the policy is
	// active only because of the hint policy.AssumeNeededOnEveryNode.
	Endpoints int
}

// EndpointState is a local endpoint.
type EndpointState struct {
	Key policy.Key
	// Selectors are the selectors that select the endpoint, in canonical form. Each has one or more
	// policies.
	Selectors []string
}

// State returns the state of the graph. It takes time in proportion to the number of policies,
// profiles, active IP sets and local endpoints.
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

// Stats has counts of the contents and the work of a graph.
type Stats struct {
	// Policies counts all policies. Selections counts the distinct selectors of the policies that
	// can select an endpoint of this node. ActivePolicies counts the active policies.
	Policies, Selections, ActivePolicies int
	// ActiveProfiles counts the active profiles, including missing ones.
	ActiveProfiles int
	// LocalEndpoints counts the workload and host endpoints of the graph's node.
	LocalEndpoints int
	// Stacks counts the distinct lists of policies of local endpoints.
	Stacks int
	// Objects counts the endpoints, host endpoints and network sets of all nodes.
	Objects int
	// Sets counts the active IP sets.
	Sets int
	// SharedPrefixes counts the addresses and prefixes that several objects have.
	SharedPrefixes int
	// Rejected counts the updates whose resource was invalid.
	Rejected uint64
	// Doubts counts the policies and profiles that are in doubt (see Hooks.Doubt).
	Doubts int
	// ActiveIndex has the counts of the label index of ActiveRules. SetIndex has the counts of the
	// label index with which IPSets finds the members of sets that have a selector. The sets of
	// services have another index.
	ActiveIndex, SetIndex labelindex.Stats
	// Routes has the counts of the RouteResolver.
	Routes RouteStats
}

// Stats returns the counts. The cost is proportional to the number of active policies.
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
