// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"log/slog"

	"github.com/wayleave/wayleave/dataplane/nft/render"
)

// A cost counts as near its limit once it reaches nearLimit percent, until it falls below
// notNearLimit percent. So a cost that varies between the two is not reported again.
const (
	nearLimit    = 80
	notNearLimit = 70
)

// limitsLog logs how the cost of policy relates to the limits of render.ClassesConfig. Policy of a
// group of endpoints is written as lookups, or as chains of rules if its cost is over a limit. The
// log says when a cost nears its limit, when groups become chains, and when all groups are lookups
// again.
type limitsLog struct {
	nearTotal, nearGroup bool
	// chains is the number of groups written as chains when this was last logged; zero if all
	// groups are lookups.
	chains int
}

// update compares the costs with the limits, and logs what has changed since the last call.
func (l *limitsLog) update(log *slog.Logger, s render.ClassStats) {
	if crossed(&l.nearTotal, s.Cost, s.MaxTotal, s.ChainGroups) {
		log.Warn("policy is near its limit: beyond it, the largest groups are written as chains. "+
			"Let policies select sets of peers that overlap less; in a program of your own, raise MaxTotal of "+
			"render.ClassesConfig",
			"cost", s.Cost, "limit", s.MaxTotal, "largest", s.Largest, "largest_cost", s.Largest.Cost)
	}
	if crossed(&l.nearGroup, s.Largest.Cost, s.MaxPerGroup, s.ChainGroups) {
		log.Warn("policy of one group of endpoints is near its limit: beyond it, the group is written as chains. "+
			"Let its policies select fewer overlapping sets of peers; in a program of your own, raise MaxPerGroup of "+
			"render.ClassesConfig",
			"group", s.Largest, "cost", s.Largest.Cost, "limit", s.MaxPerGroup)
	}
	switch {
	case s.ChainGroups >= max(1, 2*l.chains):
		l.chains = s.ChainGroups
		largest := s.Chains[0]
		option, limit := "MaxTotal", s.MaxTotal
		if largest.Cost > s.MaxPerGroup {
			option, limit = "MaxPerGroup", s.MaxPerGroup
		}
		log.Warn("policy of some groups is over a limit and written as chains. Let policies select sets of peers "+
			"that overlap less; in a program of your own, raise the limit in render.ClassesConfig",
			"groups", s.ChainGroups, "largest", largest, "cost", largest.Cost, "limit", limit, "option", option)
	case s.ChainGroups == 0 && l.chains > 0 && !l.nearTotal && !l.nearGroup:
		l.chains = 0
		log.Info("all policy is written as lookups again", "cost", s.Cost, "limit", s.MaxTotal)
	}
}

// crossed updates near: whether a cost is near its limit. It reports whether near became true.
// While groups are written as chains, their policy is not in the cost, so near stays true.
func crossed(near *bool, cost, limit, chains int) bool {
	switch {
	case !*near && cost*100 >= limit*nearLimit && limit > 0:
		*near = true
		return true
	case *near && cost*100 < limit*notNearLimit && chains == 0:
		*near = false
	}
	return false
}
