// SPDX-License-Identifier: Apache-2.0

package outcome

import "maps"

// Stats has the present sizes of a Lookups.
type Stats struct {
	// Addresses counts the elements of the kernel's maps from full-length addresses to classes.
	// Ranges counts those of the maps from prefixes.
	Addresses, Ranges int
	// Classes counts the classes that have addresses.
	Classes int
	// Groups counts the groups. ChainGroups counts the groups that are over a limit.
	Groups, ChainGroups int
	// Elements counts the elements of all groups' maps from classes to outcomes.
	Elements int
	// Outcomes counts the distinct outcomes of all groups. Each has at least one chain.
	Outcomes int
}

// Stats returns the counts as of the last Update.
func (l *Lookups) Stats() Stats {
	k := l.classes.Stats()
	s := Stats{
		Addresses: k.Addresses, Ranges: k.Ranges, Classes: k.Classes,
		Groups: len(l.groups), ChainGroups: l.groupsOverLimit, Outcomes: len(l.outcomes.byKey),
	}
	for _, g := range l.groups {
		s.Elements += g.classMap.Len()
	}
	return s
}

// Sizes returns the number of entries of each internal map, for tests of memory use.
func (l *Lookups) Sizes() map[string]int {
	out := map[string]int{
		"used predicates": len(l.indexes.users), "tiers": len(l.indexes.byID), "entries": len(l.indexes.entries),
		"groups": len(l.groups), "outcomes": len(l.outcomes.byKey),
		"outcome numbers": l.outcomes.numbers.Len(), "outcomes passed": l.outcomes.numbers.Passed(),
		"idle": len(l.outcomes.idle), "changed": len(l.changed), "removed": len(l.removed), "dirty": len(l.dirty),
	}
	maps.Copy(out, l.classes.Sizes())
	for _, users := range l.indexes.users {
		out["predicate tiers"] += len(users)
	}
	for _, e := range l.indexes.entries {
		out["indexes"] += len(e.indexes)
	}
	for _, t := range l.indexes.byID {
		out["users"] += len(t.users)
		out["tier predicates"] += len(t.predicates)
		out["byPredicate"] += len(t.byPredicate)
		out["faults"] += len(t.faults)
	}
	for _, g := range l.groups {
		out["group users"] += len(g.users)
		out["group classes"] += len(g.classes)
		out["group uses"] += len(g.uses)
		out["group elements"] += g.classMap.Len() + g.outcomeMap.Len() + g.classMap.Changed() + g.outcomeMap.Changed()
	}
	for _, o := range l.outcomes.byKey {
		out["outcome uses"] += o.uses
		out["outcome chains"] += len(o.chains)
	}
	return out
}
