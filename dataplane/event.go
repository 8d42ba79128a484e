// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/policy"
)

// Event is one step of a dependency-ordered stream: a referent comes before whatever
// refers to it and goes after it. The set is closed.
type Event interface {
	fmt.Stringer
	place() place
}

// Batch is what one flush of the graph emits: the unit of atomicity. Its events are in this order,
// within each step sorted by id, with at most one event an object (an IP set that is new has an
// IPSetUpdate and no IPSetDelta):
//
//	IPSetUpdate, IPSetDelta, PolicyUpdate, ProfileUpdate, EndpointUpdate, HostEndpointUpdate,
//	EndpointRemove, HostEndpointRemove, ProfileRemove, PolicyRemove, IPSetRemove,
//	RouteRemove, TunnelRemove, TunnelUpdate, RouteUpdate,
//	NodeUpdate, NodeRemove, PoolUpdate, PoolRemove, ServiceUpdate, ServiceRemove,
//	NamespaceUpdate, NamespaceRemove, ServiceAccountUpdate, ServiceAccountRemove, InSync
//
// Tunnels and routes are replaced one by one: within a batch, two tunnels may have one address for
// a moment, and a route that is replaced may lead through a tunnel that is gone. After the batch
// neither is so.
//
// InSync occurs once in the life of a graph: last in the first complete batch.
// A receiver must not change the batch.
type Batch struct {
	Events []Event
}

// IPSetID identifies an IP set: a short stable hash of what it stands for, made of [A-Za-z0-9_-]
// after a two-character prefix "s:" (the addresses that a selector matches), "p:" (a named port) or
// "v:" (the backends of a service: addresses in a set of type IPSetNets, with ports in one of type
// IPSetPorts).
type IPSetID string

// IPSetType is the type of the members of an IP set.
type IPSetType uint8

// The types of IP sets.
const (
	// IPSetNets has addresses and prefixes of both families. Members may overlap: every
	// distinct prefix that contributes is a member.
	IPSetNets IPSetType = iota
	// IPSetPorts has (full-length address, protocol, port) of both families.
	IPSetPorts
)

// Member is one member of an IP set. Protocol and Port are zero in sets of type IPSetNets.
// Members are comparable; Compare orders them.
type Member struct {
	Prefix   netip.Prefix
	Protocol policy.Protocol
	Port     uint16
}

// IPSetUpdate makes a set, with all its members, sorted and distinct. If the set exists its content
// is replaced.
type IPSetUpdate struct {
	ID      IPSetID
	Type    IPSetType
	Members []Member
}

// IPSetDelta adds members that were absent and removes members that were present.
// Both lists are sorted.
type IPSetDelta struct {
	ID      IPSetID
	Added   []Member
	Removed []Member
}

// IPSetRemove removes a set that nothing refers to any more.
type IPSetRemove struct {
	ID IPSetID
}

// PolicyUpdate makes or replaces a policy that at least one local endpoint uses, or
// that is wanted on every node.
type PolicyUpdate struct {
	Key    policy.Key
	Policy *Policy
}

// PolicyRemove removes a policy that no endpoint refers to any more.
type PolicyRemove struct {
	Key policy.Key
}

// ProfileUpdate makes or replaces a profile.
type ProfileUpdate struct {
	Name    string
	Profile *Profile
}

// ProfileRemove removes a profile that no endpoint refers to any more.
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

// InSync marks the end of the initial state: everything that the datastore held at start has come.
type InSync struct{}
