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
	for key, s := range r.subjects {
		keys[key] = keys[key] || slices.ContainsFunc(s.chains, isBad) ||
			slices.ContainsFunc(s.tiers, func(t *tier) bool { return tiers[t] }) ||
			slices.ContainsFunc(s.profiles, func(o *ruleOwner) bool { return owners[o] })
	}
	maps.DeleteFunc(keys, func(_ policy.Key, affected bool) bool { return !affected })
	return slices.SortedFunc(maps.Keys(keys), policy.Key.Compare)
}
