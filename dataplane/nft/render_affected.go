// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// Affected returns the policies, profiles and endpoints that the chains belong to or that use them, sorted by key: those whose traffic
// suffers where the kernel does not take a chain. None means that the chain is one of all. It looks at everything.
func (r *Renderer) Affected(chains ...string) []policy.Key {
	r.settle()
	bad := map[string]bool{}
	for _, name := range chains {
		bad[name] = true
	}
	keys := map[policy.Key]bool{}
	isBad := func(name string) bool { return bad[name] }
	owners, tiers := map[*ruleOwner]bool{}, map[*tier]bool{}
	for key, o := range r.owners {
		if slices.ContainsFunc(o.chains, isBad) {
			keys[key], owners[o] = true, true
			for t := range o.tiers {
				tiers[t] = true
			}
		}
	}
	for name, t := range r.tiers {
		tiers[t] = tiers[t] || bad[name]
	}
	r.affectedGroups(isBad, keys)
	for key, s := range r.subjects {
		keys[key] = keys[key] || slices.ContainsFunc(s.chains, isBad) ||
			slices.ContainsFunc(s.groups, func(g *group) bool { return !g.beyond && g.affected(isBad) }) ||
			slices.ContainsFunc(s.tiers, func(t *tier) bool { return tiers[t] }) ||
			slices.ContainsFunc(s.profiles, func(o *ruleOwner) bool { return owners[o] })
	}
	maps.DeleteFunc(keys, func(_ policy.Key, affected bool) bool { return !affected })
	return slices.SortedFunc(maps.Keys(keys), policy.Key.Compare)
}

// affected reports whether one of the group's chains is bad.
func (g *group) affected(isBad func(string) bool) bool {
	if isBad(g.chain()) {
		return true
	}
	bad := func(o *outcome) bool { return o != nil && slices.ContainsFunc(o.chains, isBad) }
	for o := range g.uses {
		if bad(o) {
			return true
		}
	}
	return bad(g.others[0]) || bad(g.others[1])
}

// affectedGroups adds the policies and profiles whose rules may be in a bad chain of outcomes.
func (r *Renderer) affectedGroups(isBad func(string) bool, keys map[policy.Key]bool) {
	for _, g := range r.classes.groups {
		note := func(c *class, o *outcome) {
			if o == nil || !slices.ContainsFunc(o.chains, isBad) {
				return
			}
			for _, t := range g.tiers {
				for _, i := range t.candidates(c, nil) {
					if slices.ContainsFunc(t.places[i].rules, func(rule classRule) bool { return rule.holds(c) }) {
						keys[t.places[i].owner.key] = true
					}
				}
			}
		}
		for c, o := range g.outcomes {
			note(c, o)
		}
		note(r.classes.v4.none, g.others[0])
		note(r.classes.v6.none, g.others[1])
	}
}
