// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"cmp"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/policy"
)

// Stats has the current sizes of a Lookups.
type Stats struct {
	// Addresses is the number of elements in the kernel's maps from full-length addresses to
	// classes. Ranges is the number of elements in the maps from prefixes.
	Addresses, Ranges int
	// Classes is the number of classes that have addresses.
	Classes int
	// Groups is the number of groups. ChainGroups is the number of groups that are over a limit.
	Groups, ChainGroups int
	// Elements is the total number of elements in the maps from classes to outcomes. Each group has
	// such a map.
	Elements int
	// Outcomes is the number of distinct outcomes of all groups. Each outcome has at least one
	// chain.
	Outcomes int
	// Cost is the cost of the groups that are within the limits.
	Cost int
	// Largest is the most expensive group within the limits, or nil if there is none.
	Largest *GroupStats
	// Chains has groups that are over a limit: at most maxListed of them, the most expensive first.
	Chains []GroupStats
}

// GroupStats describes a group.
type GroupStats struct {
	List match.List
	// Tiers is a text with the names of the tiers and profiles. The field Policy is the key of the
	// first policy of these tiers. If there is none, it is the key of the first profile.
	Tiers  string
	Policy policy.Key
	// Users has the endpoints of the group. The caller must not change the map.
	Users map[any]struct{}
	Cost  int
}

// maxListed limits the length of Stats.Chains.
const maxListed = 8

// Stats returns the counts as of the last Update. The caller must not change the lists.
func (l *Lookups) Stats() Stats {
	if !l.ofGroups.valid {
		l.ofGroups = l.groupSizes()
	}
	k, s := l.classes.Stats(), l.ofGroups
	return Stats{
		Addresses: k.Addresses, Ranges: k.Ranges, Classes: k.Classes,
		Groups: len(l.groups), ChainGroups: l.limits.groupsOver, Elements: s.elements,
		Outcomes: len(l.outcomes.byKey), Cost: l.limits.cost, Largest: s.largest, Chains: s.chains,
	}
}

// groupSizes is the part of Stats whose computation takes time in proportion to the number of
// groups. Most changes of addresses do not affect it.
type groupSizes struct {
	valid    bool
	elements int
	largest  *GroupStats
	chains   []GroupStats
}

func (l *Lookups) groupSizes() groupSizes {
	s := groupSizes{valid: true}
	var largest *Group
	var chains []*Group
	for _, g := range l.groups {
		s.elements += g.classMap.Len()
		if g.overLimit {
			chains = append(chains, g)
			continue
		}
		if largest == nil || compareGroups(g, largest) > 0 {
			largest = g
		}
	}
	if largest != nil {
		g := largest.stats()
		s.largest = &g
	}
	slices.SortFunc(chains, func(a, b *Group) int { return compareGroups(b, a) })
	for _, g := range chains[:min(maxListed, len(chains))] {
		s.chains = append(s.chains, g.stats())
	}
	return s
}

// compareGroups compares groups by their cost.
func compareGroups(a, b *Group) int {
	return cmp.Or(cmp.Compare(a.cost.total, b.cost.total), cmp.Compare(a.id, b.id))
}

// stats returns a description of the group.
func (g *Group) stats() GroupStats {
	s := GroupStats{List: g.List, Tiers: g.describe(), Users: g.users, Cost: g.cost.total}
	for _, t := range g.tiers {
		if len(t.spec.Policies) > 0 {
			s.Policy = t.spec.Policies[0]
			break
		}
	}
	return s
}
