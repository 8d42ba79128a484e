// SPDX-License-Identifier: Apache-2.0

package outcome

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
