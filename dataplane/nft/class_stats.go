// SPDX-License-Identifier: Apache-2.0

package nft

// ClassStats says how much there is of what policy of workloads is written as: see ClassesConfig. All of it is of the present. It is
// a plain value.
type ClassStats struct {
	// Addresses are elements of the kernel's maps from full-length addresses to classes, Ranges of those from prefixes.
	Addresses, Ranges int
	// Classes are those that have addresses: how many kinds of them policy tells apart.
	Classes int
	// Groups are the sets of endpoints to which just the same policy applies, by direction, and ChainGroups those among them
	// that are written as chains, because of ClassesConfig.MaxPerGroup and MaxTotal.
	Groups, ChainGroups int
	// Elements are those of all groups' maps from classes to what becomes of their packets: ClassesConfig.MaxTotal bounds what they and their rules come to.
	Elements int
	// Outcomes are the distinct answers of all groups, with at least one chain each.
	Outcomes int
}

// ClassStats counts what there is for the state that the events have led to.
func (r *Renderer) ClassStats() ClassStats {
	r.settle()
	c := &r.classes
	s := ClassStats{
		Addresses: len(c.v4.hosts) + len(c.v6.hosts), Ranges: len(c.v4.ranges.list) + len(c.v6.ranges.list),
		Classes: len(c.classNumbers.taken), Groups: len(c.groups), ChainGroups: c.beyond, Outcomes: len(c.outcomes),
	}
	for _, g := range c.groups {
		s.Elements += len(g.classMap.elements)
	}
	return s
}
