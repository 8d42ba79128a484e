// SPDX-License-Identifier: Apache-2.0

package dptest

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// State has all objects of a dataplane, as plain data. In the States that functions of this package
// return, no map is nil. Several goroutines may read a State that does not change.
type State struct {
	// InSync is true after the event InSync. The state then has everything that the datastore had
	// at the start.
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
	// Tunnels by node, IP version and encapsulation.
	Tunnels map[dataplane.TunnelKey]*dataplane.Tunnel
	// Routes by prefix.
	Routes map[netip.Prefix]*dataplane.Route
	// Nodes, Pools and Namespaces by name.
	Nodes      map[string]*dataplane.Node
	Pools      map[string]*dataplane.Pool
	Namespaces map[string]*dataplane.Namespace
	// Services by Service.Key. This is the key of the ServiceBackends resource from which the
	// service was made.
	Services map[policy.Key]*dataplane.Service
	// ServiceAccounts by namespace and name.
	ServiceAccounts map[dataplane.ServiceAccountKey]*dataplane.ServiceAccount
}

// Set is the content of an IP set. Several Sets may share Members, so Members must not be changed.
type Set struct {
	// Type of the members.
	Type dataplane.IPSetType
	// Members, sorted and distinct.
	Members []dataplane.Member
}

// NewState returns an empty state, which is not in sync.
func NewState() State { return State{}.Clone() }

// Clone returns a copy of the state. The caller may change the maps of the copy, but not the values
// in the maps, because both States share the values.
func (s State) Clone() State {
	for _, k := range kinds() {
		k.cloneMap(&s)
	}
	return s
}

// Equal reports whether the two states have the same objects. Nil and empty lists and maps are the
// same.
func (s State) Equal(o State) bool {
	for _, k := range kinds() {
		if !k.equal(&s, &o) {
			return false
		}
	}
	return s.InSync == o.InSync
}

// Equal reports whether the two sets have the same type and members.
func (s Set) Equal(o Set) bool {
	return s.Type == o.Type && slices.Equal(s.Members, o.Members)
}

// String returns the events that lead from an empty state to this one, one on each line.
func (s State) String() string {
	var b strings.Builder
	for _, e := range Transition(NewState(), s).Events {
		b.WriteString(e.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Transition returns the smallest batch that leads from one state to the other. A set must have the
// same type in both states.
func Transition(from, to State) dataplane.Batch {
	var events []dataplane.Event
	for _, k := range kinds() {
		events = append(events, k.changes(&from, &to)...)
	}
	if to.InSync && !from.InSync {
		events = append(events, &dataplane.InSync{})
	}
	dataplane.SortEvents(events)
	return dataplane.Batch{Events: events}
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
