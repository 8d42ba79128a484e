// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
)

// shared has the inputs of the chains that all groups share: whether there are groups, and the
// names of the class maps.
type shared struct {
	groups bool
	maps   string
	// originals is the number of groups that classify by original destinations. The field
	// hasOriginals is set if the table has the chain for these groups, which shareChains writes and
	// deletes.
	originals    int
	hasOriginals bool
}

// shareChains writes the chains that all groups share, if there are groups.
func (l *Lookups) shareChains() {
	now := shared{groups: len(l.groups) > 0, originals: l.shared.originals, hasOriginals: l.shared.originals > 0}
	for _, f := range sets.Families() {
		now.maps += strings.Join(l.classes.Maps(f), " ") + " "
	}
	was := l.shared
	l.shared = now
	if was.groups == now.groups && was.maps == now.maps && was.hasOriginals == now.hasOriginals {
		return
	}
	for _, dir := range directions() {
		l.cfg.Chains.Keep(l.classes.Chain(match.List{Dir: dir}, Register), now.groups)
	}
	byOriginal := match.List{Dir: match.Egress, Stage: match.StageRawDNAT}
	l.cfg.Chains.Keep(l.classes.Chain(byOriginal, Register), now.hasOriginals)
}
