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
	// refersTo reports whether it refers to the policy or profile with this key.
	refersTo(k policy.Key) bool
}

// held has the endpoints of a kind in one dataplane, and those withheld from it.
type held[E interface{ Equal(o E) bool }] struct {
	// linked returns an endpoint with the link of old and the policy of e.
	linked func(e, old E) E
	// known are the endpoints as they were sent to the dataplane.
	known map[policy.Key]E
	// withheld are newer states of endpoints, or new endpoints, that were not sent to it.
	withheld map[policy.Key]E
}

func newHeld[E interface{ Equal(o E) bool }](linked func(e, old E) E) held[E] {
	return held[E]{linked: linked, known: map[policy.Key]E{}, withheld: map[policy.Key]E{}}
}

// release calls update for the withheld endpoints that are not at fault, in order. An endpoint at fault that the
// dataplane already has keeps its link, and gets only the new policy.
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

// backend is one dataplane of a Driver, with the endpoints that are withheld from it. Its size is bounded by the
// number of endpoints.
type backend struct {
	dp Dataplane
	held[*Endpoint]
	hosts held[*HostEndpoint]
	// withheldRoutes are updates that were not sent to it. knownRoutes are the destinations that were.
	withheldRoutes map[netip.Prefix]*Route
	knownRoutes    map[netip.Prefix]struct{}
	// stuck are endpoints that it could not remove.
	stuck map[policy.Key]*Endpoint
	// inSync is set while InSync was received but not sent to it.
	inSync bool
	// failing is set if its last call returned an error, or the next one may: it is called again then.
	failing bool
	// generalError is set if the last call returned a general error. The kernel may then still have a route whose
	// traffic an earlier dataplane must keep encrypting.
	generalError bool
	// lost is set if the last Resync failed as a whole. Then Apply alone may not find all repairs.
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

// batch returns the batch without the removals of endpoints and without the endpoints and routes to withhold. It
// adds the withheld ones that can now be sent. After a general error, an earlier dataplane may have failed to
// encrypt a route.
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
	sortEvents(after)
	return Batch{Events: slices.Concat(before, be.updates(faults), after)}
}

// updates returns the updates of endpoints that are not withheld, host endpoints last.
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

// beforeEndpoints reports whether the event comes before those of endpoints in a batch. All others
// come after them.
func beforeEndpoints(e Event) bool { return e.place().step < stepEndpoint }

// withLinkOf returns an endpoint with the link of old and the policy of e.
func (e *Endpoint) withLinkOf(old *Endpoint) *Endpoint {
	link := *old
	link.Ingress, link.Egress, link.Profiles = e.Ingress, e.Egress, e.Profiles
	return &link
}

// withLinkOf returns a host endpoint with the interface and addresses of old and the policy of h.
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

// refer reports whether the policy or profile of this key is among the profiles or in one of the
// lists.
func refer(k policy.Key, profiles []string, lists ...[]TierPolicies) bool {
	if k.Kind == policy.KindProfile {
		return slices.Contains(profiles, k.Name)
	}
	return slices.ContainsFunc(lists, func(tiers []TierPolicies) bool {
		return slices.ContainsFunc(tiers, func(t TierPolicies) bool { return slices.Contains(t.Policies, k) })
	})
}
