// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	"github.com/wayleave/wayleave/policy"
)

// merger makes one batch of several that follow each other: it has the last word on every object,
// in the order of Batch. Whoever applies it gets to where the batches lead one by one, without the
// way stations.
type merger struct {
	// Objects and routes that exist before the batches: an object that comes and goes within them
	// is not to be removed unless it was there before.
	objects map[policy.Key]struct{}
	routes  map[netip.Prefix]struct{}
}

func newMerger() merger {
	return merger{objects: map[policy.Key]struct{}{}, routes: map[netip.Prefix]struct{}{}}
}

// identity is what an event is about: the key of an object, in a kind of its own where the object
// has no key, or the destination of a route.
type identity struct {
	key   policy.Key
	route netip.Prefix
}

// The steps of a batch, in order.
const (
	stepSet = iota
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

// place returns the step that an event belongs to, what it is about, and whether it removes that.
func place(e Event) (step int, id identity, removes bool) {
	switch e := e.(type) {
	case *IPSetUpdate:
		return stepSet, named("ipset", string(e.ID)), false
	case *IPSetDelta:
		return stepDelta, named("ipset", string(e.ID)), false
	case *IPSetRemove:
		return stepSetRemove, named("ipset", string(e.ID)), true
	case *PolicyUpdate:
		return stepPolicy, identity{key: e.Key}, false
	case *PolicyRemove:
		return stepPolicyRemove, identity{key: e.Key}, true
	case *ProfileUpdate:
		return stepProfile, named("profile", e.Name), false
	case *ProfileRemove:
		return stepProfileRemove, named("profile", e.Name), true
	case *EndpointUpdate:
		return stepEndpoint, identity{key: e.Key}, false
	case *EndpointRemove:
		return stepEndpointRemove, identity{key: e.Key}, true
	case *HostEndpointUpdate:
		return stepHost, identity{key: e.Key}, false
	case *HostEndpointRemove:
		return stepHostRemove, identity{key: e.Key}, true
	case *InSync:
		return stepInSync, named("in-sync", ""), false
	default:
		return placeNetwork(e)
	}
}

// placeNetwork is place for routes, tunnels and names.
func placeNetwork(e Event) (step int, id identity, removes bool) {
	switch e := e.(type) {
	case *RouteUpdate:
		return stepRoute, identity{route: e.Route.Dst}, false
	case *RouteRemove:
		return stepRouteRemove, identity{route: e.Dst}, true
	case *TunnelUpdate:
		return stepTunnel, ofTunnel(e.Tunnel.Key()), false
	case *TunnelRemove:
		return stepTunnelRemove, ofTunnel(e.Key), true
	case *NodeUpdate:
		return stepNode, named("node", e.Node.Name), false
	case *NodeRemove:
		return stepNodeRemove, named("node", e.Name), true
	case *PoolUpdate:
		return stepPool, named("pool", e.Pool.Name), false
	case *PoolRemove:
		return stepPoolRemove, named("pool", e.Name), true
	case *ServiceUpdate:
		return stepService, identity{key: e.Service.Key}, false
	case *ServiceRemove:
		return stepServiceRemove, identity{key: e.Key}, true
	case *NamespaceUpdate:
		return stepNamespace, named("namespace", e.Namespace.Name), false
	case *NamespaceRemove:
		return stepNamespaceRemove, named("namespace", e.Name), true
	case *ServiceAccountUpdate:
		return stepAccount, ofAccount(e.ServiceAccount.Key), false
	case *ServiceAccountRemove:
		return stepAccountRemove, ofAccount(e.Key), true
	}
	return stepInSync, identity{}, false // cannot be: the set of events is closed
}

func named(kind policy.Kind, name string) identity {
	return identity{key: policy.Key{Kind: kind, Name: name}}
}

func ofTunnel(k TunnelKey) identity {
	return identity{key: policy.Key{Kind: "tunnel", Namespace: k.Node, Name: strconv.Itoa(k.IPVersion)}}
}

func ofAccount(k ServiceAccountKey) identity {
	return identity{key: policy.Key{Kind: "serviceaccount", Namespace: k.Namespace, Name: k.Name}}
}

// exists reports whether the object exists before the batches that are being merged.
func (m *merger) exists(id identity) bool {
	if id.route.IsValid() {
		_, ok := m.routes[id.route]
		return ok
	}
	_, ok := m.objects[id.key]
	return ok
}

// note remembers what exists after a batch.
func (m *merger) note(b Batch) {
	for _, e := range b.Events {
		_, id, removes := place(e)
		switch {
		case id.route.IsValid() && removes:
			delete(m.routes, id.route)
		case id.route.IsValid():
			m.routes[id.route] = struct{}{}
		case removes:
			delete(m.objects, id.key)
		default:
			m.objects[id.key] = struct{}{}
		}
	}
}

// merge returns the batch that leads to where the batches lead, and remembers what then exists.
func (m *merger) merge(batches []Batch) Batch {
	var merged Batch
	switch len(batches) {
	case 0:
		return merged
	case 1:
		merged = batches[0]
	default:
		merged = m.fold(batches)
	}
	m.note(merged)
	return merged
}

func (m *merger) fold(batches []Batch) Batch {
	last := map[identity]Event{}
	for _, b := range batches {
		for _, e := range b.Events {
			_, id, removes := place(e)
			e := follow(last[id], e)
			if e == nil || removes && !m.exists(id) {
				delete(last, id)
				continue
			}
			last[id] = e
		}
	}
	type placed struct {
		step int
		id   identity
		Event
	}
	all := make([]placed, 0, len(last))
	for id, e := range last {
		step, _, _ := place(e)
		all = append(all, placed{step, id, e})
	}
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.step, b.step), a.id.key.Compare(b.id.key), ComparePrefixes(a.id.route, b.id.route))
	})
	events := make([]Event, len(all))
	for i, p := range all {
		events[i] = p.Event
	}
	return Batch{Events: events}
}

// follow returns what two events of one object that follow each other come to; nil if to nothing.
// Only the deltas of sets depend on what was before.
func follow(before, e Event) Event {
	delta, ok := e.(*IPSetDelta)
	if !ok {
		return e
	}
	switch before := before.(type) {
	case *IPSetUpdate:
		members := union(minus(before.Members, delta.Removed), delta.Added)
		return &IPSetUpdate{ID: before.ID, Type: before.Type, Members: members}
	case *IPSetDelta:
		both := &IPSetDelta{
			ID:      delta.ID,
			Added:   union(minus(before.Added, delta.Removed), minus(delta.Added, before.Removed)),
			Removed: union(minus(before.Removed, delta.Added), minus(delta.Removed, before.Added)),
		}
		if len(both.Added)+len(both.Removed) == 0 {
			return nil
		}
		return both
	}
	return e
}

// minus returns the members of a that are not in b. Both are sorted, and so is the result.
func minus(a, b []Member) []Member {
	var out []Member
	for _, m := range a {
		for len(b) > 0 && b[0].Compare(m) < 0 {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != m {
			out = append(out, m)
		}
	}
	return out
}

// union returns the members of a and of b, which are sorted and have none in common, sorted.
func union(a, b []Member) []Member {
	out := make([]Member, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].Compare(b[0]) < 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}
