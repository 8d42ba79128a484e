// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// target is an endpoint or a host endpoint: policy applies to it.
type target interface {
	// refersTo reports whether the endpoint refers to the policy or profile with this key.
	refersTo(k policy.Key) bool
}

// held has the endpoints of one kind in one dataplane, and the endpoints that are withheld from it.
type held[E interface{ Equal(o E) bool }] struct {
	// linked returns an endpoint with the interface and addresses of old, and with the policy of e.
	linked func(e, old E) E
	// known has the endpoints as they were last sent to the dataplane.
	known map[policy.Key]E
	// withheld has new endpoints, and newer states of known ones, that were not sent to the
	// dataplane.
	withheld map[policy.Key]E
}

func newHeld[E interface{ Equal(o E) bool }](linked func(e, old E) E) held[E] {
	return held[E]{linked: linked, known: map[policy.Key]E{}, withheld: map[policy.Key]E{}}
}

// release calls update for the withheld endpoints, in order of their keys. An endpoint that is at
// fault stays withheld. If the dataplane already has it, it keeps its interface and addresses
// there, and gets only the new policy.
func (h *held[E]) release(faults *roundResult, update func(policy.Key, E)) {
	for _, k := range slices.SortedFunc(maps.Keys(h.withheld), policy.Key.Compare) {
		e := h.withheld[k]
		if faults.of(k) != nil {
			old, ok := h.known[k]
			if !ok {
				continue
			}
			e = h.linked(e, old)
			if e.Equal(old) {
				continue
			}
		} else {
			delete(h.withheld, k)
		}
		h.known[k] = e
		update(k, e)
	}
}

// backend is one dataplane of a Driver, with the endpoints and routes that are withheld from it.
type backend struct {
	dp Dataplane
	held[*Endpoint]
	hosts held[*HostEndpoint]
	// withheldRoutes were not sent to the dataplane yet, by destination. knownRoutes has the
	// destinations of the routes that were sent.
	withheldRoutes map[netip.Prefix]*Route
	knownRoutes    map[netip.Prefix]struct{}
	// stuck has the endpoints that the dataplane failed to remove.
	stuck map[policy.Key]*Endpoint
	// inSync is set while the Driver has received InSync, but not sent it to the dataplane.
	inSync bool
	// failing is set if the dataplane must be called again: its last call returned an error, or it
	// reported that its faults changed.
	failing bool
	// generalError is set if the last call returned a general error.
	generalError bool
	// lost is set if the last Resync returned a general error. The next attempt repeats it, because
	// Apply alone may not find all differences.
	lost bool
}

func newBackend(dp Dataplane) *backend {
	return &backend{
		dp:             dp,
		held:           newHeld((*Endpoint).withLinkOf),
		hosts:          newHeld((*HostEndpoint).withLinkOf),
		withheldRoutes: map[netip.Prefix]*Route{}, knownRoutes: map[netip.Prefix]struct{}{},
		stuck: map[policy.Key]*Endpoint{},
	}
}

// lags reports whether the kernel may still have a route of this dataplane that was to be removed
// or replaced. Until that route is gone, an earlier dataplane that encrypts its packets must not
// make the deletions that it has deferred: see Finisher.
func (be *backend) lags() bool {
	return be.generalError || len(be.withheldRoutes) > 0 || be.inSync // not sent yet
}

// batch returns the part of a batch to send to the dataplane. Removals of endpoints are left out:
// remove has made them. batch adds the withheld endpoints and routes that can be sent now. It
// withholds the endpoints and routes of b that cannot be sent yet. After a general error of an
// earlier dataplane, it withholds all routes, because that dataplane may have failed to encrypt
// one.
func (be *backend) batch(b Batch, faults *roundResult) Batch {
	var before, after []Event
	for _, e := range b.Events {
		switch e := e.(type) {
		case *EndpointUpdate:
			be.withheld[e.Key] = e.Endpoint
		case *EndpointRemove:
		case *HostEndpointUpdate:
			be.hosts.withheld[e.Key] = e.HostEndpoint
		case *HostEndpointRemove:
			delete(be.hosts.withheld, e.Key)
			if be.hosts.known[e.Key] != nil {
				delete(be.hosts.known, e.Key)
				after = append(after, e)
			}
		case *RouteUpdate:
			be.withheldRoutes[e.Route.Dst] = e.Route
		case *RouteRemove:
			delete(be.withheldRoutes, e.Dst)
			if _, known := be.knownRoutes[e.Dst]; known {
				delete(be.knownRoutes, e.Dst)
				after = append(after, e)
			}
		case *InSync:
			be.inSync = true
		default:
			if beforeEndpoints(e) {
				before = append(before, e)
			} else {
				after = append(after, e)
			}
		}
	}
	if faults.general == nil {
		for dst, r := range be.withheldRoutes {
			be.knownRoutes[dst] = struct{}{}
			after = append(after, &RouteUpdate{Route: r})
		}
		clear(be.withheldRoutes)
		if be.inSync {
			after = append(after, &InSync{})
		}
		be.inSync = false
	}
	SortEvents(after)
	return Batch{Events: slices.Concat(before, be.updates(faults), after)}
}

// updates returns the updates of the endpoints that are not withheld, and then those of host
// endpoints.
func (be *backend) updates(faults *roundResult) []Event {
	var events []Event
	be.release(faults, func(k policy.Key, e *Endpoint) {
		delete(be.stuck, k)
		events = append(events, &EndpointUpdate{Key: k, Endpoint: e})
	})
	be.hosts.release(faults, func(k policy.Key, h *HostEndpoint) {
		events = append(events, &HostEndpointUpdate{Key: k, HostEndpoint: h})
	})
	return events
}

// beforeEndpoints reports whether the event comes before the events of endpoints in a batch.
// Removals of IP sets, policies and profiles come after them, and so do events of routes and names.
func beforeEndpoints(e Event) bool { return e.position().step < stepEndpoint }

// withLinkOf returns an endpoint with the interface and addresses of old, and with the policy of e.
func (e *Endpoint) withLinkOf(old *Endpoint) *Endpoint {
	link := *old
	link.Ingress, link.Egress, link.Profiles = e.Ingress, e.Egress, e.Profiles
	return &link
}

// withLinkOf returns a host endpoint with the interface and addresses of old, and with the policy
// of h.
func (h *HostEndpoint) withLinkOf(old *HostEndpoint) *HostEndpoint {
	link := *h
	link.Interface, link.Addresses = old.Interface, old.Addresses
	return &link
}

func (e *Endpoint) refersTo(k policy.Key) bool {
	return refer(k, e.Profiles, e.Ingress, e.Egress)
}

func (h *HostEndpoint) refersTo(k policy.Key) bool {
	return refer(k, h.Profiles,
		h.Ingress, h.Egress, h.ForwardIngress, h.ForwardEgress, h.UntrackedIngress, h.UntrackedEgress, h.PreDNATIngress)
}

// refer reports whether the policy or profile with this key is in the profiles or in one of the
// lists.
func refer(k policy.Key, profiles []string, lists ...[]TierPolicies) bool {
	if k.Kind == policy.KindProfile {
		return slices.Contains(profiles, k.Name)
	}
	return slices.ContainsFunc(lists, func(tiers []TierPolicies) bool {
		return slices.ContainsFunc(tiers, func(t TierPolicies) bool { return slices.Contains(t.Policies, k) })
	})
}
