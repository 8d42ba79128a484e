// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// EndpointReceiver is told the local endpoints with the policy that applies to them. An
// update may repeat what was said before.
type EndpointReceiver interface {
	EndpointUpdate(key policy.Key, e *dataplane.Endpoint)
	EndpointRemove(key policy.Key)
}

// PolicyResolver puts the policies that select a local endpoint in order: by tier, then by order, per
// direction. It takes the matches of ActiveRules, and the tiers, policies and local
// endpoints of the datastore. It knows of all policies, matching or not, so that a
// policy counts with its latest order from the moment it matches.
//
// A PolicyResolver is not safe for concurrent use.
type PolicyResolver struct {
	out       EndpointReceiver
	tiers     map[string]*policy.Tier
	policies  map[policy.Key]*policy.Policy
	endpoints map[policy.Key]*policy.WorkloadEndpoint
	// byEndpoint and byPolicy hold the matches, both ways.
	byEndpoint, byPolicy relation
	dirty                map[policy.Key]struct{}
}

var _ MatchReceiver = (*PolicyResolver)(nil)

// NewPolicyResolver returns an empty node that sends its output to out.
func NewPolicyResolver(out EndpointReceiver) *PolicyResolver {
	return &PolicyResolver{
		out:        out,
		tiers:      map[string]*policy.Tier{},
		policies:   map[policy.Key]*policy.Policy{},
		endpoints:  map[policy.Key]*policy.WorkloadEndpoint{},
		byEndpoint: relation{},
		byPolicy:   relation{},
		dirty:      map[policy.Key]struct{}{},
	}
}

// UpdateTier adds or replaces a tier.
func (r *PolicyResolver) UpdateTier(t *policy.Tier) {
	r.tiers[t.Name] = t
	r.tierChanged(t.Name)
}

// DeleteTier removes a tier. Policies that name it go on, in a tier after all others.
func (r *PolicyResolver) DeleteTier(name string) {
	delete(r.tiers, name)
	r.tierChanged(name)
}

// UpdatePolicy adds or replaces a policy.
func (r *PolicyResolver) UpdatePolicy(p *policy.Policy) {
	key := p.Key()
	r.policies[key] = p
	r.policyChanged(key)
}

// DeletePolicy removes a policy, if it exists.
func (r *PolicyResolver) DeletePolicy(key policy.Key) {
	delete(r.policies, key)
	r.policyChanged(key)
}

// UpdateEndpoint adds or replaces a local endpoint.
func (r *PolicyResolver) UpdateEndpoint(w *policy.WorkloadEndpoint) {
	key := w.Key()
	r.endpoints[key] = w
	r.dirty[key] = struct{}{}
}

// DeleteEndpoint removes a local endpoint, if it exists.
func (r *PolicyResolver) DeleteEndpoint(key policy.Key) {
	if r.endpoints[key] == nil {
		return
	}
	delete(r.endpoints, key)
	r.dirty[key] = struct{}{}
}

// MatchStarted says that a policy now selects an endpoint.
func (r *PolicyResolver) MatchStarted(pol, endpoint policy.Key) {
	r.byEndpoint.add(endpoint, pol)
	r.byPolicy.add(pol, endpoint)
	r.dirty[endpoint] = struct{}{}
}

// MatchStopped says that a policy no longer selects an endpoint.
func (r *PolicyResolver) MatchStopped(pol, endpoint policy.Key) {
	r.byEndpoint.remove(endpoint, pol)
	r.byPolicy.remove(pol, endpoint)
	r.dirty[endpoint] = struct{}{}
}

// Flush sends every endpoint that may have changed since the last flush, sorted by key.
func (r *PolicyResolver) Flush() {
	for _, key := range slices.SortedFunc(maps.Keys(r.dirty), policy.Key.Compare) {
		if w := r.endpoints[key]; w != nil {
			r.out.EndpointUpdate(key, r.resolve(key, w))
		} else {
			r.out.EndpointRemove(key)
		}
	}
	clear(r.dirty)
}

func (r *PolicyResolver) policyChanged(key policy.Key) {
	for endpoint := range r.byPolicy[key] {
		r.dirty[endpoint] = struct{}{}
	}
}

func (r *PolicyResolver) tierChanged(name string) {
	for key := range r.byPolicy {
		if p := r.policies[key]; p != nil && p.TierName() == name {
			r.policyChanged(key)
		}
	}
}

func (r *PolicyResolver) resolve(key policy.Key, w *policy.WorkloadEndpoint) *dataplane.Endpoint {
	policies := make([]*policy.Policy, 0, len(r.byEndpoint[key]))
	for k := range r.byEndpoint[key] {
		if p := r.policies[k]; p != nil {
			policies = append(policies, p)
		}
	}
	slices.SortFunc(policies, func(a, b *policy.Policy) int {
		if c := r.compareTiers(a.TierName(), b.TierName()); c != 0 {
			return c
		}
		return policy.ComparePolicies(a, b)
	})
	return &dataplane.Endpoint{
		Interface: w.Interface,
		Addresses: sortedAddrs(w.Addresses),
		MAC:       w.MAC,
		Down:      w.AdminState == policy.AdminDown,
		Ingress:   r.tierList(policies, policy.Ingress),
		Egress:    r.tierList(policies, policy.Egress),
		Profiles:  distinct(w.Profiles),
	}
}

// tierList groups policies, already in order, by tier, leaving out those that do not apply in
// the direction.
func (r *PolicyResolver) tierList(policies []*policy.Policy, dir policy.Type) []dataplane.TierPolicies {
	var out []dataplane.TierPolicies
	for _, p := range policies {
		if !p.AppliesTo(dir) {
			continue
		}
		name := p.TierName()
		if len(out) == 0 || out[len(out)-1].Tier != name {
			out = append(out, dataplane.TierPolicies{Tier: name, DefaultAction: r.defaultAction(name)})
		}
		last := &out[len(out)-1]
		last.Policies = append(last.Policies, p.Key())
	}
	return out
}

// tier returns the tier of that name, or nil if it neither exists nor is built in.
func (r *PolicyResolver) tier(name string) *policy.Tier {
	if t := r.tiers[name]; t != nil {
		return t
	}
	if t, ok := policy.BuiltinTier(name); ok {
		return t
	}
	return nil
}

func (r *PolicyResolver) defaultAction(name string) policy.Action {
	if t := r.tier(name); t != nil {
		return t.Action()
	}
	return policy.Deny
}

// compareTiers orders tiers by their names: those that exist before those that do not.
func (r *PolicyResolver) compareTiers(a, b string) int {
	if a == b {
		return 0
	}
	ta, tb := r.tier(a), r.tier(b)
	switch {
	case ta != nil && tb == nil:
		return -1
	case ta == nil && tb != nil:
		return 1
	case ta == nil:
		ta, tb = &policy.Tier{Name: a}, &policy.Tier{Name: b}
	}
	return policy.CompareTiers(ta, tb)
}

func sortedAddrs(addrs []netip.Addr) []netip.Addr {
	out := make([]netip.Addr, len(addrs))
	for i, addr := range addrs {
		out[i] = addr.Unmap()
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// relation is a set of pairs, by their first part.
type relation map[policy.Key]map[policy.Key]struct{}

func (r relation) add(a, b policy.Key) {
	if r[a] == nil {
		r[a] = map[policy.Key]struct{}{}
	}
	r[a][b] = struct{}{}
}

func (r relation) remove(a, b policy.Key) {
	delete(r[a], b)
	if len(r[a]) == 0 {
		delete(r, a)
	}
}
