// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// place is the position of an event in a batch: its step, and within the step the identity of its
// object. See Batch for the order.
type place struct {
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

// sortEvents puts the events of a batch into its order.
func sortEvents(events []Event) {
	slices.SortFunc(events, func(a, b Event) int {
		p, q := a.place(), b.place()
		return cmp.Or(
			cmp.Compare(p.step, q.step), p.id.key.Compare(q.id.key), ComparePrefixes(p.id.route, q.id.route))
	})
}

func keyed(s step, k policy.Key) place { return place{s, identity{key: k}} }

func named(s step, kind policy.Kind, name string) place {
	return keyed(s, policy.Key{Kind: kind, Name: name})
}

func ofRoute(s step, dst netip.Prefix) place { return place{s, identity{route: dst}} }

func ofAccount(s step, k ServiceAccountKey) place {
	return keyed(s, policy.Key{Kind: "serviceaccount", Namespace: k.Namespace, Name: k.Name})
}

func (e *IPSetUpdate) place() place        { return named(stepSet, "ipset", string(e.ID)) }
func (e *IPSetDelta) place() place         { return named(stepDelta, "ipset", string(e.ID)) }
func (e *PolicyUpdate) place() place       { return keyed(stepPolicy, e.Key) }
func (e *ProfileUpdate) place() place      { return named(stepProfile, "profile", e.Name) }
func (e *EndpointUpdate) place() place     { return keyed(stepEndpoint, e.Key) }
func (e *HostEndpointUpdate) place() place { return keyed(stepHost, e.Key) }
func (e *EndpointRemove) place() place     { return keyed(stepEndpointRemove, e.Key) }
func (e *HostEndpointRemove) place() place { return keyed(stepHostRemove, e.Key) }
func (e *ProfileRemove) place() place      { return named(stepProfileRemove, "profile", e.Name) }
func (e *PolicyRemove) place() place       { return keyed(stepPolicyRemove, e.Key) }
func (e *IPSetRemove) place() place        { return named(stepSetRemove, "ipset", string(e.ID)) }
func (e *RouteRemove) place() place        { return ofRoute(stepRouteRemove, e.Dst) }
func (e *TunnelRemove) place() place       { return ofTunnel(stepTunnelRemove, e.Key) }
func (e *TunnelUpdate) place() place       { return ofTunnel(stepTunnel, e.Tunnel.Key()) }
func (e *RouteUpdate) place() place        { return ofRoute(stepRoute, e.Route.Dst) }
func (e *NodeUpdate) place() place         { return named(stepNode, "node", e.Node.Name) }
func (e *NodeRemove) place() place         { return named(stepNodeRemove, "node", e.Name) }
func (e *PoolUpdate) place() place         { return named(stepPool, "pool", e.Pool.Name) }
func (e *PoolRemove) place() place         { return named(stepPoolRemove, "pool", e.Name) }
func (e *ServiceUpdate) place() place      { return keyed(stepService, e.Service.Key) }
func (e *ServiceRemove) place() place      { return keyed(stepServiceRemove, e.Key) }
func (e *NamespaceUpdate) place() place    { return named(stepNamespace, "namespace", e.Namespace.Name) }

func (e *NamespaceRemove) place() place      { return named(stepNamespaceRemove, "namespace", e.Name) }
func (e *ServiceAccountUpdate) place() place { return ofAccount(stepAccount, e.ServiceAccount.Key) }
func (e *ServiceAccountRemove) place() place { return ofAccount(stepAccountRemove, e.Key) }
func (*InSync) place() place                 { return named(stepInSync, "in-sync", "") }
