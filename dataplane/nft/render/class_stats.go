// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"

	"github.com/wayleave/wayleave/dataplane/nft/internal/outcome"
	"github.com/wayleave/wayleave/policy"
)

// ClassStats has the present sizes of the lookups in the table: see ClassesConfig.
type ClassStats struct {
	// Addresses counts the elements of the kernel's maps from full-length addresses to classes.
	// Ranges counts those of the maps from prefixes.
	Addresses, Ranges int
	// Classes counts the classes that have addresses.
	Classes int
	// Groups counts the groups. A group is the endpoints with the same tiers and profiles in one
	// direction. Untracked and pre-DNAT policy has groups of its own.
	// ChainGroups counts the groups that are written as chains, because they are over
	// ClassesConfig.MaxPerGroup or MaxTotal.
	Groups, ChainGroups int
	// Elements counts the elements of all groups' maps from classes to outcomes.
	Elements int
	// Outcomes counts the distinct outcomes of all groups. Each has at least one chain.
	Outcomes int
	// Cost is the cost of all groups that are written as lookups. MaxTotal limits it.
	Cost int
	// Largest is the most expensive group that is written as lookups. MaxPerGroup limits its cost.
	// Largest is zero if there is no such group.
	Largest ClassGroup
	// Chains has the most expensive groups that are written as chains, at most eight.
	Chains []ClassGroup
	// MaxPerGroup and MaxTotal are the limits, as in ClassesConfig.
	MaxPerGroup, MaxTotal int
}

// ClassGroup describes a group: see ClassesConfig.
type ClassGroup struct {
	// Direction is "ingress" or "egress". For untracked and pre-DNAT policy, it has the prefix of
	// the group's chains: "raw-", "prednat-", "recheck-raw-", "recheck-prednat-" or "dnat-raw-".
	Direction string
	// Tiers names the tiers and profiles. Policy is the first policy or profile.
	Tiers  string
	Policy policy.Key
	// Endpoints counts the endpoints of the group. Endpoint is the one with the lowest key.
	Endpoints int
	Endpoint  policy.Key
	// Cost is the cost of the group, as in ClassesConfig.
	Cost int
}

// String describes the group in one line: "ingress of WorkloadEndpoint/shop/web-1 and 2 more, tier
// default, first policy Policy/shop/allow-web".
func (g ClassGroup) String() string {
	out := fmt.Sprintf("%s of %s", g.Direction, g.Endpoint)
	if g.Endpoints > 1 {
		out += fmt.Sprintf(" and %d more", g.Endpoints-1)
	}
	if g.Tiers != "" {
		out += ", " + g.Tiers
	}
	if g.Policy != (policy.Key{}) {
		out += fmt.Sprintf(", first policy %s", g.Policy)
	}
	return out
}

// ClassStats returns the counts for the present state of the Renderer.
func (r *Renderer) ClassStats() ClassStats {
	r.renderDirty()
	s := r.lookups.Stats()
	limits := r.cfg.Classes
	out := ClassStats{
		Addresses: s.Addresses, Ranges: s.Ranges, Classes: s.Classes, Groups: s.Groups, ChainGroups: s.ChainGroups,
		Elements: s.Elements, Outcomes: s.Outcomes, Cost: s.Cost,
		MaxPerGroup: limits.MaxPerGroup, MaxTotal: limits.MaxTotal,
	}
	if s.Largest != nil {
		out.Largest = classGroup(s.Largest)
	}
	for i := range s.Chains {
		out.Chains = append(out.Chains, classGroup(&s.Chains[i]))
	}
	return out
}

func classGroup(g *outcome.GroupStats) ClassGroup {
	out := ClassGroup{
		Direction: g.List.Stage.Name() + string(g.List.Dir), Tiers: g.Tiers, Policy: g.Policy,
		Endpoints: len(g.Users), Cost: g.Cost,
	}
	first := true
	for user := range g.Users {
		if key := user.(*subject).key; first || key.Compare(out.Endpoint) < 0 {
			out.Endpoint, first = key, false
		}
	}
	return out
}
