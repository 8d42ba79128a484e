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
func classifyChain(dir match.Direction) string { return "classify-" + string(dir) }

// shared has the inputs of the chains that all groups share: whether there are groups, and the
// names of the class maps.
type shared struct {
	groups bool
	maps   string
}

// shareChains writes the chains that all groups share, if there are groups.
func (l *Lookups) shareChains() {
	now := shared{groups: len(l.groups) > 0}
	for _, f := range sets.Families() {
		now.maps += strings.Join(l.classes.Maps(f), " ") + " "
	}
	if now == l.shared {
		return
	}
	l.shared = now
	for _, dir := range []match.Direction{match.Ingress, match.Egress} {
		l.cfg.Chains.Keep(l.classifyRules(dir), now.groups)
	}
}

// classifyRules returns the chain that looks up the class. The map of full-length addresses comes
// last: its result replaces that of prefixes.
func (l *Lookups) classifyRules(dir match.Direction) *ruleset.Chain {
	c := &ruleset.Chain{Name: classifyChain(dir), Rules: []ruleset.Rule{build.Always(ruleset.Assign{Field: Register})}}
	for _, f := range sets.Families() {
		field := match.Saddr(f)
		if dir == match.Egress {
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
