// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// classifyChain returns the name of the chain that looks up the class of the other side's address.
func classifyChain(l match.List) string {
	if original(l) {
		return "classify-original-" + string(l.Dir)
	}
	return "classify-" + string(l.Dir)
}

// original reports whether the other side is the destination that a packet had before destination
// NAT.
func original(l match.List) bool { return l.Dir == match.Egress && l.Stage.Original() }

// shared has the inputs of the chains that all groups share: whether there are groups, and the
// names of the class maps.
type shared struct {
	groups bool
	maps   string
	// originals counts the groups that classify by original destinations. hasOriginals is set if
	// the table has the chain for them: shareChains writes and deletes it.
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
	for _, dir := range []match.Direction{match.Ingress, match.Egress} {
		l.cfg.Chains.Keep(l.classifyRules(match.List{Dir: dir}), now.groups)
	}
	byOriginal := match.List{Dir: match.Egress, Stage: match.StageRawDNAT}
	l.cfg.Chains.Keep(l.classifyRules(byOriginal), now.hasOriginals)
}

// classifyRules returns the chain that looks up the class. The map of full-length addresses comes
// last: its result replaces that of prefixes.
func (l *Lookups) classifyRules(list match.List) *ruleset.Chain {
	c := &ruleset.Chain{
		Name: classifyChain(list), Rules: []ruleset.Rule{build.Always(ruleset.Assign{Field: Register})},
	}
	for _, f := range sets.Families() {
		field := match.Saddr(f)
		switch {
		case original(list):
			field = match.OriginalDaddr(f)
		case list.Dir == match.Egress:
			field = match.Daddr(f)
		}
		for _, name := range l.classes.Maps(f) {
			c.Rules = append(c.Rules, ruleset.Rule{
				Matches: []ruleset.Match{match.OfFamily(f)},
				Statements: []ruleset.Statement{
					ruleset.Assign{Field: Register, Fields: []ruleset.Field{field}, Map: name},
				},
			})
		}
	}
	return c
}
