// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"log/slog"

	"github.com/wayleave/wayleave/dataplane/nft/render"
)

// The parts of a limit, in percent, at which limitsLog reports that it is near, and no longer near.
// A cost that varies in between is not reported again.
const (
	nearLimit    = 80
	notNearLimit = 70
)

// limitsLog logs when the cost of policy nears a limit of render.ClassesConfig, when groups become
// chains, and when all of that is over.
type limitsLog struct {
	nearTotal, nearGroup bool
	// chains is the largest number of chain groups that was logged since there were none; zero if
	// all groups are lookups.
	chains int
}

// update logs what the sizes changed.
func (l *limitsLog) update(log *slog.Logger, s render.ClassStats) {
	if crossed(&l.nearTotal, s.Cost, s.MaxTotal, s.ChainGroups) {
		log.Warn("policy is near its limit; beyond it, the largest groups are written as chains, which are slower: "+
			"raise MaxTotal of render.ClassesConfig, or let policies select fewer distinct sets of peers",
			"cost", s.Cost, "limit", s.MaxTotal, "largest", s.Largest, "largest_cost", s.Largest.Cost)
	}
	if crossed(&l.nearGroup, s.Largest.Cost, s.MaxPerGroup, s.ChainGroups) {
		log.Warn("policy of one group of endpoints is near its limit; beyond it, it is written as chains, which are "+
			"slower: raise MaxPerGroup of render.ClassesConfig, or let its policies select fewer distinct sets of peers",
			"group", s.Largest, "cost", s.Largest.Cost, "limit", s.MaxPerGroup)
	}
	switch {
	case s.ChainGroups >= max(1, 2*l.chains):
		l.chains = s.ChainGroups
		largest := s.Chains[0]
		limit, size := "MaxTotal", s.MaxTotal
		if largest.Cost > s.MaxPerGroup {
			limit, size = "MaxPerGroup", s.MaxPerGroup
		}
		log.Warn("policy is over a limit and written as chains, which are slower: raise the limit of render.ClassesConfig, "+
			"or let policies select fewer distinct sets of peers",
			"groups", s.ChainGroups, "largest", largest, "cost", largest.Cost, "limit", limit, "size", size)
	case s.ChainGroups == 0 && l.chains > 0 && !l.nearTotal && !l.nearGroup:
		l.chains = 0
		log.Info("all policy is written as lookups again", "cost", s.Cost, "limit", s.MaxTotal)
	}
}

// crossed updates whether a cost is near its limit, and reports whether it became so. The cost of
// lookups is low while groups are chains: that does not count.
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
