// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/outcome"
	"github.com/wayleave/wayleave/policy"
)

// Affected returns the keys of the objects that use at least one of the given chains, sorted. A
// policy or profile uses the chains that have its rules. The chain of a tier does not count, even
// if it has rules of a policy. An endpoint uses the chains that its packets can pass. If the kernel
// refuses the given chains, packets of these endpoints are dropped. A chain that belongs to no
// object, such as a base chain, has no effect on the result. Affected examines all objects, so it
// is slow.
func (r *Renderer) Affected(chains ...string) []policy.Key {
	r.renderDirty()
	bad := map[string]bool{}
	for _, name := range chains {
		bad[name] = true
	}
	keys := map[policy.Key]bool{}
	isBad := func(name string) bool { return bad[name] }
	owners, tiers := map[*ruleOwner]bool{}, map[*tier]bool{}
	for key, o := range r.policies.byKey {
		if slices.ContainsFunc(o.chains(), isBad) || slices.ContainsFunc(o.ruleChains, isBad) {
			keys[key], owners[o] = true, true
			for t := range o.tiers {
				tiers[t] = true
			}
		}
	}
	for name, t := range r.tiers.byName {
		tiers[t] = tiers[t] || bad[name]
	}
	r.lookups.Affected(isBad, func(key policy.Key) { keys[key] = true })
	for key, s := range r.endpoints.byKey {
		keys[key] = keys[key] || slices.ContainsFunc(s.chains, isBad) ||
			slices.ContainsFunc(s.groups, func(g *outcome.Group) bool { return g.Affected(isBad) }) ||
			slices.ContainsFunc(s.tiers, func(t *tier) bool { return tiers[t] }) ||
			slices.ContainsFunc(s.profiles, func(p profileUse) bool { return owners[p.owner] })
	}
	maps.DeleteFunc(keys, func(_ policy.Key, affected bool) bool { return !affected })
	return slices.SortedFunc(maps.Keys(keys), policy.Key.Compare)
}
