// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"encoding/binary"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// stack has the lists of policies for the endpoints that match the same selections.
type stack struct {
	key        string
	selections []*matched
	endpoints  map[*resolved]struct{}
	stale      bool
	lists      policyLists
}

// policyLists are the lists that the endpoints of a stack share. A list is never changed, only
// replaced.
type policyLists [listCount][]dataplane.TierPolicies

// The lists of an endpoint's policies.
const (
	ingress = iota
	egress
	forwardIngress
	forwardEgress
	untrackedIngress
	untrackedEgress
	preDNATIngress
	listCount
)

// assignStack assigns an endpoint to the stack of its selections. It removes a deleted endpoint
// from its stack.
func (r *PolicyResolver) assignStack(e *resolved) {
	if e.workload == nil && e.host == nil {
		r.leaveStack(e)
		return
	}
	if !e.selectionsChanged {
		return
	}
	r.key = r.key[:0]
	for _, m := range e.selections {
		r.key = binary.BigEndian.AppendUint32(r.key, m.number)
	}
	st := r.stacks[string(r.key)]
	if st != nil && st == e.stack {
		e.selectionsChanged = false
		return
	}
	r.leaveStack(e)
	if st == nil {
		st = &stack{
			key: string(r.key), selections: slices.Clone(e.selections), endpoints: map[*resolved]struct{}{},
			stale: true,
		}
		r.stacks[st.key] = st
		for _, m := range st.selections {
			m.stacks[st] = struct{}{}
		}
	}
	st.endpoints[e] = struct{}{}
	e.stack, e.selectionsChanged = st, false
}

// leaveStack removes an endpoint from its stack, and removes the stack if it is empty.
func (r *PolicyResolver) leaveStack(e *resolved) {
	st := e.stack
	if st == nil {
		return
	}
	e.stack, e.selectionsChanged = nil, true
	delete(st.endpoints, e)
	if len(st.endpoints) > 0 {
		return
	}
	delete(r.stacks, st.key)
	for _, m := range st.selections {
		delete(m.stacks, st)
	}
}

// tierChanged marks the stacks with a policy of the tier, and their endpoints. It checks all
// stacks, of which there are at most as many as local endpoints.
func (r *PolicyResolver) tierChanged(name string) {
	for _, st := range r.stacks {
		if !st.lists.has(name) {
			continue
		}
		st.stale = true
		for e := range st.endpoints {
			r.markDirty(e)
		}
	}
}

// lists returns the lists of a stack. It builds them again if they are stale.
func (r *PolicyResolver) lists(st *stack) *policyLists {
	if st.stale {
		st.stale = false
		st.lists.update(r.build(st))
	}
	return &st.lists
}

// build returns new lists of a stack.
func (r *PolicyResolver) build(st *stack) policyLists {
	tiers := r.merged(st)
	list := func(dir policy.Type, wanted func(p *policy.Policy) bool, action policy.Action) []dataplane.TierPolicies {
		return tierList(tiers, func(p *policy.Policy) bool { return wanted(p) && p.AppliesTo(dir) }, action)
	}
	normal := func(p *policy.Policy) bool { return !p.DoNotTrack && !p.PreDNAT }
	forward := func(p *policy.Policy) bool { return p.ApplyOnForward && normal(p) }
	untracked := func(p *policy.Policy) bool { return p.DoNotTrack && !p.PreDNAT }
	preDNAT := func(p *policy.Policy) bool { return p.PreDNAT }
	return policyLists{
		ingress:          list(policy.Ingress, normal, ""),
		egress:           list(policy.Egress, normal, ""),
		forwardIngress:   list(policy.Ingress, forward, ""),
		forwardEgress:    list(policy.Egress, forward, ""),
		untrackedIngress: list(policy.Ingress, untracked, policy.Pass), // S36
		untrackedEgress:  list(policy.Egress, untracked, policy.Pass),
		preDNATIngress:   list(policy.Ingress, preDNAT, policy.Pass), // S38: ingress only
	}
}

// tierPolicies are the policies of one tier in order.
type tierPolicies struct {
	name     string
	action   policy.Action
	policies []*policy.Policy
}

// merged returns the policies of all selections of a stack, by tier in order.
func (r *PolicyResolver) merged(st *stack) []tierPolicies {
	var all []*policy.Policy
	if len(st.selections) == 1 {
		all = st.selections[0].selection.policies
	} else {
		runs := make([][]*policy.Policy, len(st.selections))
		for i, m := range st.selections {
			runs[i] = m.selection.policies
		}
		all = mergeRuns(runs)
	}
	var tiers []tierPolicies
	for from := 0; from < len(all); {
		name := all[from].TierName()
		to := from + 1
		for to < len(all) && all[to].TierName() == name {
			to++
		}
		tiers = append(tiers, tierPolicies{name, r.tier(name).Action(), all[from:to]})
		from = to
	}
	slices.SortFunc(tiers, func(a, b tierPolicies) int { return r.compareTiers(a.name, b.name) })
	return tiers
}

// mergeRuns merges sorted lists, in pairs.
func mergeRuns(runs [][]*policy.Policy) []*policy.Policy {
	switch len(runs) {
	case 0:
		return nil
	case 1:
		return runs[0]
	}
	half := len(runs) / 2
	a, b := mergeRuns(runs[:half]), mergeRuns(runs[half:])
	out := make([]*policy.Policy, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if compareInSelection(a[0], b[0]) < 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// tierList returns the wanted policies by tier. An empty action means the tier's default action.
func tierList(tiers []tierPolicies, wanted func(p *policy.Policy) bool, action policy.Action) []dataplane.TierPolicies {
	n := 0
	for _, t := range tiers {
		for _, p := range t.policies {
			if wanted(p) {
				n++
			}
		}
	}
	if n == 0 {
		return nil
	}
	keys := make([]policy.Key, 0, n)
	var out []dataplane.TierPolicies
	for _, t := range tiers {
		from := len(keys)
		for _, p := range t.policies {
			if wanted(p) {
				keys = append(keys, p.Key())
			}
		}
		if len(keys) == from {
			continue
		}
		tier := dataplane.TierPolicies{Tier: t.name, DefaultAction: t.action, Policies: keys[from:len(keys):len(keys)]}
		if action != "" {
			tier.DefaultAction = action
		}
		out = append(out, tier)
	}
	return out
}

// update replaces the lists that differ. So equal lists stay the same slices.
func (l *policyLists) update(now policyLists) {
	for i := range l {
		if !slices.EqualFunc(l[i], now[i], dataplane.TierPolicies.Equal) {
			l[i] = now[i]
		}
	}
}

// has reports whether a list has a policy of the tier.
func (l *policyLists) has(tier string) bool {
	for _, list := range l {
		for i := range list {
			if list[i].Tier == tier {
				return true
			}
		}
	}
	return false
}

// tier returns the tier with the name, or nil if it neither exists nor is built in.
func (r *PolicyResolver) tier(name string) *policy.Tier {
	if t := r.tiers[name]; t != nil {
		return t
	}
	if t, ok := policy.BuiltinTier(name); ok {
		return t
	}
	return nil
}

// compareTiers orders tiers by name: existing ones before those without a resource.
func (r *PolicyResolver) compareTiers(a, b string) int {
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
