// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// ChainName returns the name of the chain that looks up the class of the other side's address. The
// list l has the direction and stage of the policy. For ingress policy, the other side's address is
// the source of the packet. For egress policy, it is the destination.
func ChainName(l match.List) string {
	if Original(l) {
		return "classify-original-" + string(l.Dir)
	}
	return "classify-" + string(l.Dir)
}

// Original reports whether the chain for l looks up the destination that the packet had before
// destination NAT.
func Original(l match.List) bool { return l.Dir == match.Egress && l.Stage.Original() }

// Chain returns the chain named ChainName. The chain looks up one address of the packet. The
// parameter l selects the address: the source, the destination, or the destination before
// destination NAT. The chain writes the number of the address's class to the given field, or zero
// if the address is in no class.
//
// The chain looks the address up in the map of prefixes, and then in the map of full-length
// addresses. If the second map has the address, its result replaces the first result.
func (c *Classifier) Chain(l match.List, to ruleset.Field) *ruleset.Chain {
	chain := &ruleset.Chain{Name: ChainName(l), Rules: []ruleset.Rule{build.Always(ruleset.Assign{Field: to})}}
	for _, f := range sets.Families() {
		field := match.Saddr(f)
		switch {
		case Original(l):
			field = match.OriginalDaddr(f)
		case l.Dir == match.Egress:
			field = match.Daddr(f)
		}
		for _, name := range c.Maps(f) {
			chain.Rules = append(chain.Rules, ruleset.Rule{
				Matches:    []ruleset.Match{match.OfFamily(f)},
				Statements: []ruleset.Statement{ruleset.Assign{Field: to, Fields: []ruleset.Field{field}, Map: name}},
			})
		}
	}
	return chain
}
