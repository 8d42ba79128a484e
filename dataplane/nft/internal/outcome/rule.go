// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unique"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/classify"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/policy"
)

// classRule is a rule in two parts: the predicates on the address of the other side, and the rest.
// The class of an address determines which predicates the address satisfies.
type classRule struct {
	rule *dataplane.Rule
	// The address must satisfy all predicates of in, and none of not.
	in, not []familyPredicate
	// never is set for a family if the rule matches no address of it.
	never [2]bool
	// plain is set if the rule decides, and its rest matches at most the protocol and destination
	// ports. The field always is set if its rest matches every packet.
	plain, always bool
	size          ruleSize
	// peer is a text with the predicates. Rules with the same peer match the same classes. Many
	// rules share one text. peerHash is a hash of the text.
	peer     unique.Handle[string]
	peerHash uint64
}

// familyPredicate is a predicate of a rule, with the families for which the rule needs it. If a
// list contains all addresses of a family, the rule needs no predicate in that family.
type familyPredicate struct {
	*classify.Predicate
	families [2]bool
}

func familyIndex(f sets.Family) int {
	if f == sets.IPv6 {
		return 1
	}
	return 0
}

// matchesClass reports whether the addresses of a class satisfy the predicates of the rule.
func (c *classRule) matchesClass(k *classify.Class) bool {
	f := familyIndex(k.Family())
	if c.never[f] {
		return false
	}
	for _, q := range c.in {
		if q.families[f] && !k.Has(q.Predicate) {
			return false
		}
	}
	for _, q := range c.not {
		if q.families[f] && k.Has(q.Predicate) {
			return false
		}
	}
	return true
}

// keepsOutcomes reports whether each class keeps its outcome if one rule replaces the other.
func keepsOutcomes(a, b classRule) bool {
	passes := func(c *classRule) bool { return c.rule.Action == policy.Pass }
	return a.plain == b.plain && a.always == b.always && passes(&a) == passes(&b) && a.never == b.never &&
		slices.Equal(a.in, b.in) && slices.Equal(a.not, b.not)
}

// sameChains reports whether the chains of outcomes stay the same if one rule replaces the other.
// It returns false for rules that are not plain, because their chains also depend on which sets
// their IP sets have in the kernel.
func (c *classRule) sameChains(o *classRule) bool { return c.plain && o.plain && c.rule.Equal(o.rule) }

// first returns the first predicate that an address of the family must satisfy, or nil if there is
// none.
func (c *classRule) first(f int) *classify.Predicate {
	for _, q := range c.in {
		if q.families[f] {
			return q.Predicate
		}
	}
	return nil
}

// eachPredicate calls f with every predicate of the rule.
func (c *classRule) eachPredicate(f func(*classify.Predicate)) {
	for _, q := range c.in {
		f(q.Predicate)
	}
	for _, q := range c.not {
		f(q.Predicate)
	}
}

// compile divides each rule of a list into its predicates and the rest. The rules must be valid.
func (ix *indexes) compile(o *match.Owner, list match.List) []classRule {
	rules := o.Rules(list.Dir)
	out := make([]classRule, 0, len(rules))
	for i := range rules {
		c := classRule{rule: &rules[i]}
		if list.Stage.Partial() {
			adapted := &match.Merged{Rule: rules[i]}
			if !list.Stage.Adapt(adapted) {
				continue
			}
			c.rule = &adapted.Rule
		}
		ix.addPredicates(&c, list.Dir.Peer(c.rule))
		may := match.FamiliesOf(c.rule)
		for i, f := range sets.Families() {
			c.never[i] = c.never[i] || !slices.Contains(may, sets.AnyFamily) && !slices.Contains(may, f)
		}
		rest := c.rest(o.IsProfile(), list.Dir)
		c.plain = match.IsPlain(rest.Rule)
		c.always = c.plain && match.MatchesAll(rest.Rule)
		c.size = ix.size(rest, c.plain, ix.cfg.eachRule(list))
		peer := c.describePeer()
		c.peer, c.peerHash = unique.Make(peer), ix.hash(peer)
		out = append(out, c)
	}
	return out
}

// describePeer returns a text that identifies the predicates of the rule.
func (c *classRule) describePeer() string {
	var b strings.Builder
	for _, list := range [...][]familyPredicate{c.in, c.not} {
		b.WriteByte('|')
		for _, q := range list {
			fmt.Fprintf(&b, "%q", q.Name())
		}
	}
	return fmt.Sprint(b.String(), c.never)
}

// rest returns the rule without its matches on the address of the other side.
func (c *classRule) rest(profile bool, dir match.Direction) *match.Merged {
	m := &match.Merged{Rule: *c.rule, IDs: []string{c.rule.ID}}
	if profile && m.Action == policy.Pass { // S32
		m.Action = policy.Deny
	}
	match.ClearAddresses(dir.Peer(&m.Rule))
	return m
}

// addPredicates adds the predicates of a rule on the addresses of one side. If a list has no prefix
// of a family, its predicate has no addresses of that family (S68). If a list contains all
// addresses of a family, no predicate is needed (S69, S70).
func (ix *indexes) addPredicates(c *classRule, m *dataplane.Match) {
	lists := func(nets []netip.Prefix) (some, none, all [2]bool) {
		for i, f := range sets.Families() {
			ranges := sets.MergeNets(sets.PrefixesOf(f, nets))
			none[i] = len(ranges) == 0
			all[i] = !none[i] && ranges[0].Everything()
			some[i] = !none[i] && !all[i]
		}
		return some, none, all
	}
	if len(m.Nets) > 0 {
		some, none, _ := lists(m.Nets)
		c.never = none
		if some[0] || some[1] {
			c.in = append(c.in, familyPredicate{ix.classes.List(m.Nets), some})
		}
	}
	if len(m.NotNets) > 0 {
		some, _, all := lists(m.NotNets)
		c.never[0], c.never[1] = c.never[0] || all[0], c.never[1] || all[1]
		if some[0] || some[1] {
			c.not = append(c.not, familyPredicate{ix.classes.List(m.NotNets), some})
		}
	}
	for _, id := range m.Sets {
		c.in = append(c.in, familyPredicate{ix.classes.Set(ix.cfg.Set(id)), [2]bool{true, true}})
	}
	for _, id := range m.NotSets {
		c.not = append(c.not, familyPredicate{ix.classes.Set(ix.cfg.Set(id)), [2]bool{true, true}})
	}
}
