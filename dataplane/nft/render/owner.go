// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// ruleOwner is a policy or a profile. If it does not exist, it is kept while tiers or endpoints
// refer to it.
type ruleOwner struct {
	match.Owner
	// lists has the lists that tiers and endpoints need. It is nil if the policy or profile does
	// not exist.
	lists   map[match.List]*ruleList
	offered []match.List // the result of Lists when lists was rendered
	sets    map[*sets.IPSet]struct{}
	tiers   map[*tier]struct{}   // the tiers that list the policy
	users   map[userKey]struct{} // the endpoints that name the profile
	// ruleChains has the names of the chains of those rules that count or log.
	ruleChains []string
}

// userKey identifies one list of a profile that an endpoint uses.
type userKey struct {
	subject *subject
	key     match.List
}

// ruleList is a rendered list of rules.
type ruleList struct {
	rules []ruleset.Rule
	// chain is the name of the chain with the rules. It is empty if the rules must be part of the
	// chain that uses them. That is so if a rule has the action Pass: it returns, and must return
	// from the tier's own chain.
	chain string
	// chains has the names of all chains of the list.
	chains []string
}

// chains returns the names of the chains of all lists.
func (o *ruleOwner) chains() (out []string) {
	for _, l := range o.lists {
		out = append(out, l.chains...)
	}
	return out
}

func profileKey(name string) policy.Key { return policy.Key{Kind: policy.KindProfile, Name: name} }

// chainName returns the name of the chain for one list.
func (o *ruleOwner) chainName(k match.List) string {
	if o.IsProfile() {
		return sets.ObjectName(k.Stage.Name()+"prof-"+string(k.Dir), o.Key.Name)
	}
	return sets.KeyName(k.Stage.Name()+"pol-"+string(k.Dir), o.Key)
}

// needs reports whether a tier or an endpoint uses a list.
func (o *ruleOwner) needs(k match.List) bool {
	for t := range o.tiers {
		if t.key == k {
			return true
		}
	}
	for u := range o.users {
		if u.key == k {
			return true
		}
	}
	return false
}

// dedupe removes errors with the same text. A list is rendered for several stages, so its error
// occurs more than once.
func dedupe(errs []error) (out []error) {
	for _, err := range errs {
		if err != nil && !slices.ContainsFunc(out, func(o error) bool { return o.Error() == err.Error() }) {
			out = append(out, err)
		}
	}
	return out
}

// sameError reports whether two errors have the same text.
func sameError(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
}

// sameShape reports whether the tiers and endpoints that use the lists need no change. That is so
// if each list is empty in both a and b, or in a chain of the same name. The lists are nil if the
// policy or profile does not exist.
func sameShape(a, b map[match.List]*ruleList) bool {
	if len(a) != len(b) || (a == nil) != (b == nil) {
		return false
	}
	for k, l := range a {
		m := b[k]
		if m == nil || l.chain != m.chain || (l.chain == "" && len(l.rules)+len(m.rules) > 0) {
			return false
		}
	}
	return true
}
