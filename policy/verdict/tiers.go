// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// policyList is one of the lists of an endpoint's policies. Workload endpoints have only the normal
// list.
type policyList int

const (
	normal    policyList = iota // for the traffic of a workload, or of the host's own processes
	forward                     // for forwarded traffic, at a host endpoint
	untracked                   // before connection tracking
	preDNAT                     // before destination NAT
	lists                       // how many there are
)

// has reports whether the list has the policy (S39, S40).
func (l policyList) has(p *policy.Policy) bool {
	switch l {
	case untracked:
		return p.DoNotTrack
	case preDNAT:
		return p.PreDNAT
	case forward:
		return p.ApplyOnForward && !p.DoNotTrack && !p.PreDNAT
	default:
		return !p.DoNotTrack && !p.PreDNAT
	}
}

// tier is a tier with at least one policy, and its policies in order.
type tier struct {
	*policy.Tier
	missing bool
	listed
}

// listed has policies by list and direction.
type listed struct {
	ingress, egress [lists][]*compiledPolicy
}

// policies returns the policies of a list that apply to a direction.
func (t *listed) policies(l policyList, dir policy.Type) []*compiledPolicy {
	if dir == policy.Egress {
		return t.egress[l]
	}
	return t.ingress[l]
}

// add adds a policy to the lists that it belongs to. Policies must be added in order.
func (t *listed) add(p *compiledPolicy) {
	for l := range lists {
		if !l.has(p.Policy) {
			continue
		}
		if p.AppliesTo(policy.Ingress) {
			t.ingress[l] = append(t.ingress[l], p)
		}
		if p.AppliesTo(policy.Egress) {
			t.egress[l] = append(t.egress[l], p)
		}
	}
}

// addTiers adds the policies to their tiers, and sorts both.
func (e *Evaluator) addTiers(w World, policies []*compiledPolicy) {
	byName := map[string]*tier{}
	slices.SortFunc(policies, func(a, b *compiledPolicy) int { return policy.ComparePolicies(a.Policy, b.Policy) })
	e.policies = policies
	staged := map[policy.Key]bool{}
	for _, p := range policies {
		if p.Staged {
			staged[enforcedKey(p.key)] = true
		}
	}
	for _, p := range policies {
		name := p.TierName()
		t := byName[name]
		if t == nil {
			t = e.findTier(w, name)
			byName[name] = t
			e.tiers = append(e.tiers, t)
		}
		t.add(p)
		p.replaced = !p.Staged && staged[p.key]
		if p.Staged || p.replaced {
			e.staging.add(p)
		}
	}
	slices.SortFunc(e.tiers, compareTiers)
}

// enforcedKey returns the key of the policy that a staged policy would replace.
func enforcedKey(k policy.Key) policy.Key {
	k.Kind = policy.KindPolicy
	return k
}

// findTier returns a tier with the settings of its resource or, without one, those of the built-in
// tier. Otherwise, the tier is missing.
func (e *Evaluator) findTier(w World, name string) *tier {
	key := (&policy.Tier{Name: name}).Key()
	if r, ok := w[key].(*policy.Tier); ok && e.rejected[key] == nil {
		return &tier{Tier: r}
	}
	if builtin, ok := policy.BuiltinTier(name); ok {
		return &tier{Tier: builtin}
	}
	return &tier{Tier: &policy.Tier{Name: name}, missing: true}
}

// compareTiers orders existing tiers by their settings. Missing tiers come after them, by name.
func compareTiers(a, b *tier) int {
	switch {
	case a.missing && b.missing:
		return cmp.Compare(a.Name, b.Name)
	case a.missing:
		return 1
	case b.missing:
		return -1
	default:
		return policy.CompareTiers(a.Tier, b.Tier)
	}
}
