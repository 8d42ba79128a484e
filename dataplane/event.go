// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/policy"
)

// Event is one step of a batch: it adds, changes or removes one object. The documentation of
// [Batch] lists all events in their order. Other packages cannot define events.
type Event interface {
	fmt.Stringer
	position() position
}

// Batch has the events that one flush of the graph emits. A dataplane applies a batch in one
// transaction where it can. A batch has at most one event for each object. (A new IP set has an
// IPSetUpdate and no IPSetDelta.) The events of one type are sorted by object. The types are in
// this order:
//
//	IPSetUpdate, IPSetDelta, PolicyUpdate, ProfileUpdate, EndpointUpdate, HostEndpointUpdate,
//	EndpointRemove, HostEndpointRemove, ProfileRemove, PolicyRemove, IPSetRemove,
//	RouteRemove, TunnelRemove, TunnelUpdate, RouteUpdate,
//	NodeUpdate, NodeRemove, PoolUpdate, PoolRemove, ServiceUpdate, ServiceRemove,
//	NamespaceUpdate, NamespaceRemove, ServiceAccountUpdate, ServiceAccountRemove, InSync
//
// Each event of a tunnel or a route changes only this one object. So in the middle of a batch, two
// tunnels may have the same address. A route may also lead through a tunnel that was removed, until
// a later event replaces the route. After the batch, neither is the case.
//
// A graph sends InSync once: it is the last event of the batch that completes the initial state. A
// receiver must not change the batch.
type Batch struct {
	Events []Event
}

// IPSetID identifies an IP set. It is a two-character prefix, followed by a short hash of the
// definition of the set, such as its selector. The characters of the hash are [A-Za-z0-9_-]. The
// prefixes are:
//
//   - "s:" for the addresses that a selector matches
//   - "p:" for a named port
//   - "v:" for the backends of a service. A set of type IPSetNets has their addresses. A set of
//     type IPSetPorts has their addresses with ports.
type IPSetID string

// IPSetType is the type of the members of an IP set.
type IPSetType uint8

// The types of IP sets.
const (
	// IPSetNets has addresses and prefixes of both families. Members may overlap: if the selector
	// matches 10.0.0.0/8 and 10.1.0.0/16, both are members.
	IPSetNets IPSetType = iota
	// IPSetPorts has addresses of both families, each with a protocol and a port. A member has a
	// single address, not a prefix.
	IPSetPorts
)

// Member is one member of an IP set. Protocol and Port are zero in sets of type IPSetNets.
// Members are comparable; Compare orders them.
type Member struct {
	Prefix   netip.Prefix
	Protocol policy.Protocol
	Port     uint16
}

// IPSetUpdate makes a set with all its members, sorted and distinct. If the set exists, its members
// are replaced.
type IPSetUpdate struct {
	ID      IPSetID
	Type    IPSetType
	Members []Member
}

// IPSetDelta changes the members of a set. It adds members that were absent and removes members
// that were present. Both lists are sorted.
type IPSetDelta struct {
	ID      IPSetID
	Added   []Member
	Removed []Member
}

// IPSetRemove removes a set to which no rule refers any more.
type IPSetRemove struct {
	ID IPSetID
}

// PolicyUpdate makes or replaces a policy. The graph sends only those policies that apply to a
// local endpoint, or that have the performance hint policy.AssumeNeededOnEveryNode.
type PolicyUpdate struct {
	Key    policy.Key
	Policy *Policy
}

// PolicyRemove removes a policy to which no endpoint refers any more.
type PolicyRemove struct {
	Key policy.Key
}

// ProfileUpdate makes or replaces a profile.
type ProfileUpdate struct {
	Name    string
	Profile *Profile
}

// ProfileRemove removes a profile to which no endpoint refers any more.
type ProfileRemove struct {
	Name string
}

// EndpointUpdate makes or replaces a local workload endpoint.
type EndpointUpdate struct {
	Key      policy.Key
	Endpoint *Endpoint
}

// EndpointRemove removes a local workload endpoint.
type EndpointRemove struct {
	Key policy.Key
}

// HostEndpointUpdate makes or replaces a host endpoint of this node.
type HostEndpointUpdate struct {
	Key          policy.Key
	HostEndpoint *HostEndpoint
}

// HostEndpointRemove removes a host endpoint of this node.
type HostEndpointRemove struct {
	Key policy.Key
}

// InSync marks the end of the initial state: the batches so far have everything that the datastore
// held at the start.
type InSync struct{}
