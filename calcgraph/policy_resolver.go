// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// EndpointReceiver receives the local endpoints with the policies that apply to them. An update may
// repeat the previous one.
type EndpointReceiver interface {
	EndpointUpdate(key policy.Key, e *dataplane.Endpoint)
	EndpointRemove(key policy.Key)
	HostEndpointUpdate(key policy.Key, h *dataplane.HostEndpoint)
	HostEndpointRemove(key policy.Key)
}

// PolicyResolver orders the policies that select a local endpoint: by tier, then by precedence, for
// each direction. It receives the matches from ActiveRules, and the tiers and local endpoints from
// the Graph.
//
// The ordered lists of an endpoint depend only on the selections that select it. (A Selection is a
// group of policies with the same selector.) Endpoints with the same selections share these lists,
// in a struct called stack. The lists are built again only if one of the selections or tiers
// changes:
//
//	endpoint a ──┐
//	endpoint b ──┴─▶ stack {s1, s3} ──▶ tiers, per direction
//	endpoint c ────▶ stack {s3} ──────▶ tiers, per direction
//
// Flush builds the lists from the present policies of the selections.
//
// A PolicyResolver is not safe for concurrent use.
type PolicyResolver struct {
	out        EndpointReceiver
	tiers      map[string]*policy.Tier
	endpoints  map[policy.Key]*resolved
	selections map[*Selection]*matched // those that match an endpoint
	stacks     map[string]*stack       // by the numbers of their selections
	numbers    uint32                  // last number of a selection
	dirty      []*resolved
	key        []byte // buffer
}

// resolved is the state of a key with a local endpoint or with matches.
type resolved struct {
	key               policy.Key
	workload          *policy.WorkloadEndpoint // one of workload and host, or neither
	host              *policy.HostEndpoint
	selections        []*matched // by number
	stack             *stack     // at the last flush
	selectionsChanged bool       // selections have changed since the last flush
	dirty             bool
}

// matched is a selection that matches an endpoint.
type matched struct {
	selection *Selection
	number    uint32
	endpoints int
	stacks    map[*stack]struct{}
}

var _ MatchReceiver = (*PolicyResolver)(nil)

// NewPolicyResolver returns an empty PolicyResolver, which sends its output to out.
func NewPolicyResolver(out EndpointReceiver) *PolicyResolver {
	return &PolicyResolver{
		out:        out,
		tiers:      map[string]*policy.Tier{},
		endpoints:  map[policy.Key]*resolved{},
		selections: map[*Selection]*matched{},
		stacks:     map[string]*stack{},
	}
}

// UpdateTier adds or replaces a tier.
func (r *PolicyResolver) UpdateTier(t *policy.Tier) {
	r.tiers[t.Name] = t
	r.tierChanged(t.Name)
}

// DeleteTier removes a tier. The policies of the tier still apply, after the policies of all tiers
// that exist.
func (r *PolicyResolver) DeleteTier(name string) {
	if r.tiers[name] == nil {
		return
	}
	delete(r.tiers, name)
	r.tierChanged(name)
}

// UpdateEndpoint adds or replaces a local workload endpoint.
func (r *PolicyResolver) UpdateEndpoint(w *policy.WorkloadEndpoint) {
	e := r.endpoint(w.Key())
	e.workload = w
	r.markDirty(e)
}

// UpdateHostEndpoint adds or replaces a local host endpoint.
func (r *PolicyResolver) UpdateHostEndpoint(h *policy.HostEndpoint) {
	e := r.endpoint(h.Key())
	e.host = h
	r.markDirty(e)
}

// DeleteEndpoint removes a local workload endpoint or host endpoint, if it exists.
func (r *PolicyResolver) DeleteEndpoint(key policy.Key) {
	e := r.endpoints[key]
	if e == nil {
		return
	}
	e.workload, e.host = nil, nil
	r.markDirty(e)
}

// MatchStarted records that the policies of a selection select an endpoint.
func (r *PolicyResolver) MatchStarted(s *Selection, endpoint policy.Key) {
	m := r.selections[s]
	if m == nil {
		r.numbers++
		m = &matched{selection: s, number: r.numbers, stacks: map[*stack]struct{}{}}
		r.selections[s] = m
	}
	m.endpoints++
	e := r.endpoint(endpoint)
	at, _ := e.find(m)
	e.selections = slices.Insert(e.selections, at, m)
	e.selectionsChanged = true
	r.markDirty(e)
}

// MatchStopped records that the policies of a selection no longer select an endpoint.
func (r *PolicyResolver) MatchStopped(s *Selection, endpoint policy.Key) {
	m, e := r.selections[s], r.endpoints[endpoint]
	if m == nil || e == nil {
		return
	}
	if at, ok := e.find(m); ok {
		e.selections = slices.Delete(e.selections, at, at+1)
	}
	if m.endpoints--; m.endpoints == 0 {
		delete(r.selections, s) // its stacks are removed at the next flush
	}
	e.selectionsChanged = true
	r.markDirty(e)
}

// SelectionChanged records that the policies of a selection have changed. At the next Flush, the
// policy lists of its endpoints are built again. MatchReceiver describes which changes count.
func (r *PolicyResolver) SelectionChanged(s *Selection) {
	if m := r.selections[s]; m != nil {
		for st := range m.stacks {
			st.stale = true
			for e := range st.endpoints {
				r.markDirty(e)
			}
		}
	}
}

// Flush sends every endpoint that may have changed since the last flush, sorted by key.
func (r *PolicyResolver) Flush() {
	if len(r.dirty) == 0 {
		return
	}
	slices.SortFunc(r.dirty, func(a, b *resolved) int { return a.key.Compare(b.key) })
	for _, e := range r.dirty {
		e.dirty = false
		r.assignStack(e)
		switch {
		case e.workload != nil:
			r.out.EndpointUpdate(e.key, e.workloadEndpoint(r.lists(e.stack)))
		case e.host != nil:
			r.out.HostEndpointUpdate(e.key, e.hostEndpoint(r.lists(e.stack)))
		case e.key.Kind == policy.KindHostEndpoint:
			r.out.HostEndpointRemove(e.key)
		default:
			r.out.EndpointRemove(e.key)
		}
		if e.empty() {
			delete(r.endpoints, e.key)
		}
	}
	clear(r.dirty)
	r.dirty = r.dirty[:0]
}

func (r *PolicyResolver) endpoint(key policy.Key) *resolved {
	e := r.endpoints[key]
	if e == nil {
		e = &resolved{key: key, selectionsChanged: true}
		r.endpoints[key] = e
	}
	return e
}

func (r *PolicyResolver) markDirty(e *resolved) {
	if !e.dirty {
		e.dirty = true
		r.dirty = append(r.dirty, e)
	}
}

// empty reports whether the key has no endpoint and no matches.
func (e *resolved) empty() bool {
	return e.workload == nil && e.host == nil && len(e.selections) == 0
}

func (e *resolved) find(m *matched) (int, bool) {
	return slices.BinarySearchFunc(e.selections, m, func(a, b *matched) int { return int(a.number) - int(b.number) })
}

func (e *resolved) workloadEndpoint(l *policyLists) *dataplane.Endpoint {
	w := e.workload
	return &dataplane.Endpoint{
		Interface:      w.Interface,
		Addresses:      sortedAddrs(w.Addresses),
		MAC:            strings.ToLower(w.MAC),
		Down:           w.AdminState == policy.AdminDown,
		Ingress:        l[ingress],
		Egress:         l[egress],
		Profiles:       distinct(w.Profiles),
		NATs:           sorted(slices.Clone(w.IPNATs), compareNATs),
		AllowedSources: sorted(slices.Clone(w.AllowSpoofedSourcePrefixes), dataplane.ComparePrefixes),
	}
}

func (e *resolved) hostEndpoint(l *policyLists) *dataplane.HostEndpoint {
	h := e.host
	return &dataplane.HostEndpoint{
		Interface:        h.InterfaceName,
		Addresses:        sortedAddrs(h.ExpectedIPs),
		Ingress:          l[ingress],
		Egress:           l[egress],
		ForwardIngress:   l[forwardIngress],
		ForwardEgress:    l[forwardEgress],
		UntrackedIngress: l[untrackedIngress],
		UntrackedEgress:  l[untrackedEgress],
		PreDNATIngress:   l[preDNATIngress],
		Profiles:         distinct(h.Profiles),
	}
}

func sortedAddrs(addrs []netip.Addr) []netip.Addr {
	out := make([]netip.Addr, len(addrs))
	for i, addr := range addrs {
		out[i] = addr.Unmap()
	}
	return sorted(out, netip.Addr.Compare)
}

func compareNATs(a, b policy.IPNAT) int {
	return cmp.Or(a.ExternalIP.Compare(b.ExternalIP), a.InternalIP.Compare(b.InternalIP))
}

// sorted sorts a list in place, and returns it without duplicates.
func sorted[S ~[]E, E comparable](list S, compare func(a, b E) int) S {
	slices.SortFunc(list, compare)
	return slices.Compact(list)
}
