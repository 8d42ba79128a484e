// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// position is the position of an event in a batch: its step, and within the step the identity of
// its object. See Batch for the order.
type position struct {
	step step
	id   identity
}

// identity identifies the object of an event: a route by its destination, any other object by a
// key. Some objects, such as IP sets, have no key in package policy. Their identity has a key of a
// kind that package policy does not have.
type identity struct {
	key   policy.Key
	route netip.Prefix
}

// step is a part of a batch with events of one type.
type step int

// The steps, in order.
const (
	stepSet step = iota
	stepDelta
	stepPolicy
	stepProfile
	stepEndpoint
	stepHost
	stepEndpointRemove
	stepHostRemove
	stepProfileRemove
	stepPolicyRemove
	stepSetRemove
	stepRouteRemove
	stepTunnelRemove
	stepTunnel
	stepRoute
	stepNode
	stepNodeRemove
	stepPool
	stepPoolRemove
	stepService
	stepServiceRemove
	stepNamespace
	stepNamespaceRemove
	stepAccount
	stepAccountRemove
	stepInSync
)

// removes reports whether the events of the step remove objects.
func (s step) removes() bool {
	switch s {
	case stepEndpointRemove, stepHostRemove, stepProfileRemove, stepPolicyRemove, stepSetRemove, stepRouteRemove,
		stepTunnelRemove, stepNodeRemove, stepPoolRemove, stepServiceRemove, stepNamespaceRemove, stepAccountRemove:
		return true
	}
	return false
}

// compare compares two positions: first their steps, then the identities of their objects.
func (p *position) compare(q *position) (step, id int) {
	return cmp.Compare(p.step, q.step), cmp.Or(p.id.key.Compare(q.id.key), ComparePrefixes(p.id.route, q.id.route))
}

// CompareEvents compares the places of two events in a batch (see Batch). step orders them by their
// types, and id by their objects. id has no meaning unless step is 0. No object of an event may be
// nil.
func CompareEvents(a, b Event) (step, id int) {
	p, q := a.position(), b.position()
	return p.compare(&q)
}

// SortEvents puts the events of a batch into its order (see Batch). No object of an event may be
// nil.
func SortEvents(events []Event) {
	type placed struct {
		*position // made once for each event, because it is large
		event     Event
	}
	list, positions := make([]placed, len(events)), make([]position, len(events))
	for i, e := range events {
		positions[i] = e.position()
		list[i] = placed{&positions[i], e}
	}
	slices.SortFunc(list, func(a, b placed) int { return cmp.Or(a.compare(b.position)) })
	for i, p := range list {
		events[i] = p.event
	}
}

func keyed(s step, k policy.Key) position { return position{s, identity{key: k}} }

func named(s step, kind policy.Kind, name string) position {
	return keyed(s, policy.Key{Kind: kind, Name: name})
}

func ofRoute(s step, dst netip.Prefix) position { return position{s, identity{route: dst}} }

func ofAccount(s step, k ServiceAccountKey) position {
	return keyed(s, policy.Key{Kind: "serviceaccount", Namespace: k.Namespace, Name: k.Name})
}

func (e *IPSetUpdate) position() position        { return named(stepSet, "ipset", string(e.ID)) }
func (e *IPSetDelta) position() position         { return named(stepDelta, "ipset", string(e.ID)) }
func (e *PolicyUpdate) position() position       { return keyed(stepPolicy, e.Key) }
func (e *ProfileUpdate) position() position      { return named(stepProfile, "profile", e.Name) }
func (e *EndpointUpdate) position() position     { return keyed(stepEndpoint, e.Key) }
func (e *HostEndpointUpdate) position() position { return keyed(stepHost, e.Key) }
func (e *EndpointRemove) position() position     { return keyed(stepEndpointRemove, e.Key) }
func (e *HostEndpointRemove) position() position { return keyed(stepHostRemove, e.Key) }
func (e *ProfileRemove) position() position      { return named(stepProfileRemove, "profile", e.Name) }
func (e *PolicyRemove) position() position       { return keyed(stepPolicyRemove, e.Key) }
func (e *IPSetRemove) position() position        { return named(stepSetRemove, "ipset", string(e.ID)) }
func (e *RouteRemove) position() position        { return ofRoute(stepRouteRemove, e.Dst) }
func (e *TunnelRemove) position() position       { return ofTunnel(stepTunnelRemove, e.Key) }
func (e *TunnelUpdate) position() position       { return ofTunnel(stepTunnel, e.Tunnel.Key()) }
func (e *RouteUpdate) position() position        { return ofRoute(stepRoute, e.Route.Dst) }
func (e *NodeUpdate) position() position         { return named(stepNode, "node", e.Node.Name) }
func (e *NodeRemove) position() position         { return named(stepNodeRemove, "node", e.Name) }
func (e *PoolUpdate) position() position         { return named(stepPool, "pool", e.Pool.Name) }
func (e *PoolRemove) position() position         { return named(stepPoolRemove, "pool", e.Name) }
func (e *ServiceUpdate) position() position      { return keyed(stepService, e.Service.Key) }
func (e *ServiceRemove) position() position      { return keyed(stepServiceRemove, e.Key) }
func (e *NamespaceUpdate) position() position {
	return named(stepNamespace, "namespace", e.Namespace.Name)
}

func (e *NamespaceRemove) position() position { return named(stepNamespaceRemove, "namespace", e.Name) }

func (e *ServiceAccountUpdate) position() position {
	return ofAccount(stepAccount, e.ServiceAccount.Key)
}
func (e *ServiceAccountRemove) position() position { return ofAccount(stepAccountRemove, e.Key) }
func (*InSync) position() position                 { return named(stepInSync, "in-sync", "") }
