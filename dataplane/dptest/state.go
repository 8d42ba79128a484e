// SPDX-License-Identifier: Apache-2.0

package dptest

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// State is what a dataplane holds, as plain data. Its maps are never nil where this package makes
// it. Concurrent reading is fine; whoever changes a State sees to it that nobody else uses it.
type State struct {
	// InSync says that the datastore's content at start has been seen.
	InSync bool
	// Sets by ID.
	Sets map[dataplane.IPSetID]Set
	// Policies by key.
	Policies map[policy.Key]*dataplane.Policy
	// Profiles by name.
	Profiles map[string]*dataplane.Profile
	// Endpoints by key.
	Endpoints map[policy.Key]*dataplane.Endpoint
	// HostEndpoints by key.
	HostEndpoints map[policy.Key]*dataplane.HostEndpoint
	// Tunnels by node and IP version.
	Tunnels map[dataplane.TunnelKey]*dataplane.Tunnel
	// Routes by prefix.
	Routes map[netip.Prefix]*dataplane.Route
	// Nodes, Pools and Namespaces by name.
	Nodes      map[string]*dataplane.Node
	Pools      map[string]*dataplane.Pool
	Namespaces map[string]*dataplane.Namespace
	// Services, by the keys of their parts.
	Services map[policy.Key]*dataplane.Service
	// ServiceAccounts by namespace and name.
	ServiceAccounts map[dataplane.ServiceAccountKey]*dataplane.ServiceAccount
}

// Set is the content of an IP set. It is plain data; Members are shared and must not be changed.
type Set struct {
	// Type of the members.
	Type dataplane.IPSetType
	// Members, sorted and distinct.
	Members []dataplane.Member
}

// NewState returns a state that holds nothing and is not in sync.
func NewState() State {
	return State{
		Sets:            map[dataplane.IPSetID]Set{},
		Policies:        map[policy.Key]*dataplane.Policy{},
		Profiles:        map[string]*dataplane.Profile{},
		Endpoints:       map[policy.Key]*dataplane.Endpoint{},
		HostEndpoints:   map[policy.Key]*dataplane.HostEndpoint{},
		Tunnels:         map[dataplane.TunnelKey]*dataplane.Tunnel{},
		Routes:          map[netip.Prefix]*dataplane.Route{},
		Nodes:           map[string]*dataplane.Node{},
		Pools:           map[string]*dataplane.Pool{},
		Namespaces:      map[string]*dataplane.Namespace{},
		Services:        map[policy.Key]*dataplane.Service{},
		ServiceAccounts: map[dataplane.ServiceAccountKey]*dataplane.ServiceAccount{},
	}
}

// Clone returns a copy whose maps can be changed. The values are shared, as those of events are.
func (s State) Clone() State {
	return State{
		InSync:          s.InSync,
		Sets:            maps.Clone(s.Sets),
		Policies:        maps.Clone(s.Policies),
		Profiles:        maps.Clone(s.Profiles),
		Endpoints:       maps.Clone(s.Endpoints),
		HostEndpoints:   maps.Clone(s.HostEndpoints),
		Tunnels:         maps.Clone(s.Tunnels),
		Routes:          maps.Clone(s.Routes),
		Nodes:           maps.Clone(s.Nodes),
		Pools:           maps.Clone(s.Pools),
		Namespaces:      maps.Clone(s.Namespaces),
		Services:        maps.Clone(s.Services),
		ServiceAccounts: maps.Clone(s.ServiceAccounts),
	}
}

// Equal reports whether the two states hold the same; nil and empty lists and maps are the same.
func (s State) Equal(o State) bool {
	return s.InSync == o.InSync &&
		maps.EqualFunc(s.Sets, o.Sets, Set.Equal) &&
		maps.EqualFunc(s.Policies, o.Policies, (*dataplane.Policy).Equal) &&
		maps.EqualFunc(s.Profiles, o.Profiles, (*dataplane.Profile).Equal) &&
		maps.EqualFunc(s.Endpoints, o.Endpoints, (*dataplane.Endpoint).Equal) &&
		maps.EqualFunc(s.HostEndpoints, o.HostEndpoints, (*dataplane.HostEndpoint).Equal) &&
		s.equalNetwork(o)
}

// Equal reports whether the two sets have the same type and members.
func (s Set) Equal(o Set) bool {
	return s.Type == o.Type && slices.Equal(s.Members, o.Members)
}

// String returns the events that would make the state, one a line.
func (s State) String() string {
	var b strings.Builder
	for _, e := range Transition(NewState(), s).Events {
		b.WriteString(e.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Transition returns the batch that leads from one state to the other, with nothing in it that is
// not needed. A set must not change its type between the two.
func Transition(from, to State) dataplane.Batch {
	var b batch
	for _, id := range slices.Sorted(maps.Keys(to.Sets)) {
		if _, ok := from.Sets[id]; !ok {
			set := to.Sets[id]
			b.add(&dataplane.IPSetUpdate{ID: id, Type: set.Type, Members: set.Members})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(to.Sets)) {
		if old, ok := from.Sets[id]; ok && !old.Equal(to.Sets[id]) {
			b.add(delta(id, old.Members, to.Sets[id].Members))
		}
	}
	changed(from.Policies, to.Policies, policy.Key.Compare, (*dataplane.Policy).Equal,
		func(k policy.Key, p *dataplane.Policy) { b.add(&dataplane.PolicyUpdate{Key: k, Policy: p}) })
	changed(from.Profiles, to.Profiles, strings.Compare, (*dataplane.Profile).Equal,
		func(n string, p *dataplane.Profile) { b.add(&dataplane.ProfileUpdate{Name: n, Profile: p}) })
	changed(from.Endpoints, to.Endpoints, policy.Key.Compare, (*dataplane.Endpoint).Equal,
		func(k policy.Key, e *dataplane.Endpoint) { b.add(&dataplane.EndpointUpdate{Key: k, Endpoint: e}) })
	changed(from.HostEndpoints, to.HostEndpoints, policy.Key.Compare, (*dataplane.HostEndpoint).Equal,
		func(k policy.Key, h *dataplane.HostEndpoint) {
			b.add(&dataplane.HostEndpointUpdate{Key: k, HostEndpoint: h})
		})
	gone(from.Endpoints, to.Endpoints, policy.Key.Compare,
		func(k policy.Key) { b.add(&dataplane.EndpointRemove{Key: k}) })
	gone(from.HostEndpoints, to.HostEndpoints, policy.Key.Compare,
		func(k policy.Key) { b.add(&dataplane.HostEndpointRemove{Key: k}) })
	gone(from.Profiles, to.Profiles, strings.Compare,
		func(n string) { b.add(&dataplane.ProfileRemove{Name: n}) })
	gone(from.Policies, to.Policies, policy.Key.Compare,
		func(k policy.Key) { b.add(&dataplane.PolicyRemove{Key: k}) })
	for _, id := range slices.Sorted(maps.Keys(from.Sets)) {
		if _, ok := to.Sets[id]; !ok {
			b.add(&dataplane.IPSetRemove{ID: id})
		}
	}
	b.transitionNetwork(from, to)
	if to.InSync && !from.InSync {
		b.add(&dataplane.InSync{})
	}
	return dataplane.Batch{Events: b}
}

// batch collects events.
type batch []dataplane.Event

func (b *batch) add(e dataplane.Event) { *b = append(*b, e) }

// changed calls add, in order, for what is new or different in to.
func changed[K comparable, V any](from, to map[K]V, compare func(a, b K) int, equal func(a, b V) bool, add func(K, V)) {
	for _, k := range slices.SortedFunc(maps.Keys(to), compare) {
		if old, ok := from[k]; !ok || !equal(old, to[k]) {
			add(k, to[k])
		}
	}
}

// gone calls remove, in order, for what is in from and not in to.
func gone[K comparable, V any](from, to map[K]V, compare func(a, b K) int, remove func(K)) {
	for _, k := range slices.SortedFunc(maps.Keys(from), compare) {
		if _, ok := to[k]; !ok {
			remove(k)
		}
	}
}

func delta(id dataplane.IPSetID, from, to []dataplane.Member) *dataplane.IPSetDelta {
	return &dataplane.IPSetDelta{ID: id, Added: without(to, from), Removed: without(from, to)}
}

// without returns the members of a that are not in b; both are sorted.
func without(a, b []dataplane.Member) []dataplane.Member {
	return slices.DeleteFunc(slices.Clone(a), func(m dataplane.Member) bool { return contains(b, m) })
}

// contains reports whether the sorted list has the member.
func contains(sorted []dataplane.Member, m dataplane.Member) bool {
	_, ok := slices.BinarySearchFunc(sorted, m, dataplane.Member.Compare)
	return ok
}
