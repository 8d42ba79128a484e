// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"

	"github.com/wayleave/wayleave/dataplane/nft/internal/outcome"
	"github.com/wayleave/wayleave/policy"
)

// ClassStats has the size and cost of the lookups in the table. ClassesConfig explains groups,
// classes and outcomes.
type ClassStats struct {
	// Addresses is the number of elements in the kernel's maps from full-length addresses to
	// classes. Ranges is the number of elements in the maps from prefixes.
	Addresses, Ranges int
	// Classes is the number of classes that have addresses.
	Classes int
	// Groups is the number of groups. ChainGroups is the number of groups among them that are
	// written as chains, because of ClassesConfig.MaxPerGroup or MaxTotal.
	Groups, ChainGroups int
	// Elements is the total number of elements in the maps from classes to outcomes. Each group has
	// such a map.
	Elements int
	// Outcomes is the number of distinct outcomes of all groups. Each outcome has at least one
	// chain.
	Outcomes int
	// Cost is the cost of all groups that are written as lookups. MaxTotal limits this cost.
	Cost int
	// Largest is the most expensive group that is written as lookups. It is zero if there is none.
	// MaxPerGroup limits the cost of each group.
	Largest ClassGroup
	// Chains has groups that are written as chains: at most eight of them, the most expensive
	// first.
	Chains []ClassGroup
	// MaxPerGroup and MaxTotal are the limits in use: the values in ClassesConfig, or the defaults
	// instead of zeros.
	MaxPerGroup, MaxTotal int
}

// ClassGroup describes a group: all endpoints with the same tiers and profiles in one direction.
type ClassGroup struct {
	// Direction is "ingress" or "egress". For untracked and pre-DNAT policy, it begins with the
	// prefix of the group's chains: "raw-", "prednat-", "recheck-raw-", "recheck-prednat-" or
	// "dnat-raw-".
	Direction string
	// Tiers is a text with the names of the tiers and profiles. The field Policy is the key of the
	// first policy of these tiers. If there is none, it is the key of the first profile.
	Tiers  string
	Policy policy.Key
	// Endpoints is the number of endpoints in the group. The field Endpoint is the lowest of their
	// keys.
	Endpoints int
	Endpoint  policy.Key
	// Cost is the cost of the group: see ClassesConfig.
	Cost int
}

// String describes the group in one line: its direction, endpoints and policy. An example: "ingress
// of WorkloadEndpoint/shop/web-1 and 2 more, tier default, first policy Policy/shop/allow-web".
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

// ClassStats returns the size and cost of the lookups in the current state.
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
