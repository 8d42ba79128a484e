// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/outcome"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// policies renders policies and profiles to chains.
type policies struct {
	table    *table
	rules    *ruleWriter
	sets     *ipSets
	lookups  *outcome.Lookups
	faults   faults
	eachRule bool // each rule of policy counts or logs
	byKey    map[policy.Key]*ruleOwner
	// ruleChains has the chains of the rules that count or log.
	ruleChains *ruleChains

	dirty *dirtySet[*ruleOwner]
	// dirtyTiers and dirtySubjects are marked if a policy or profile that they use changes for
	// them.
	dirtyTiers    *dirtySet[*tier]
	dirtySubjects *dirtySet[*subject]
}

// get returns the policy or profile with the key. If there is none, it adds one that does not exist
// yet.
func (p *policies) get(key policy.Key) *ruleOwner {
	o := p.byKey[key]
	if o == nil {
		o = &ruleOwner{
			Owner: match.Owner{Key: key}, tiers: map[*tier]struct{}{}, users: map[userKey]struct{}{},
		}
		p.byKey[key] = o
	}
	return o
}

// set replaces a policy or profile. If it is removed, both pol and prof are nil.
func (p *policies) set(key policy.Key, pol *dataplane.Policy, prof *dataplane.Profile) {
	o := p.get(key)
	if o.Exists() && o.Policy == pol && o.Profile == prof {
		return
	}
	o.Policy, o.Profile = pol, prof
	p.dirty.mark(o)
}

// forget drops a policy or profile that does not exist and that no tier or endpoint uses. It may be
// forgotten already, and another one may have its key.
func (p *policies) forget(o *ruleOwner) {
	if p.byKey[o.Key] == o && !p.dirty.has(o) && !o.Exists() &&
		len(o.tiers)+len(o.users) == 0 {
		delete(p.byKey, o.Key)
	}
}

// render renders the lists of a policy or profile again, and marks the tiers and endpoints that
// depend on it.
func (p *policies) render(o *ruleOwner) {
	oldErr, oldLists, oldOffered, oldChains := o.Err, o.lists, o.offered, o.chains()
	o.lists, o.Err, o.offered = nil, nil, o.Lists()
	p.sets.refer(o)
	if o.Exists() {
		o.lists = map[match.List]*ruleList{}
		if !o.Staged() { // S20
			o.Err = p.rules.check(o)
		}
	}
	for _, k := range o.offered {
		if o.needs(k) {
			p.needList(o, k)
		}
	}
	p.faults.set(o.Key, o.Err)
	if o.Err != nil {
		oldChains = append(oldChains, o.chains()...)
		o.lists = map[match.List]*ruleList{}
	}
	p.ruleChains.update(o)
	p.lookups.SetPolicy(&o.Owner)
	chains := o.chains()
	for _, name := range oldChains {
		if !slices.Contains(chains, name) {
			p.table.chains.Drop(name)
		}
	}
	if !sameError(oldErr, o.Err) || !sameShape(oldLists, o.lists) || !slices.Equal(oldOffered, o.offered) {
		for t := range o.tiers {
			p.dirtyTiers.mark(t)
		}
		for u := range o.users {
			p.dirtySubjects.mark(u.subject)
		}
	}
}

// needList renders a list of a policy or profile if that was not done yet. It does nothing if the
// policy has no such list.
func (p *policies) needList(o *ruleOwner, k match.List) {
	if !o.Exists() || o.Err != nil || o.lists[k] != nil || !slices.Contains(o.offered, k) {
		return
	}
	o.lists[k], o.Err = p.list(o, k)
}

// dropLists removes the unused lists of a policy or profile.
func (p *policies) dropLists(o *ruleOwner) {
	for k, l := range o.lists {
		if o.needs(k) {
			continue
		}
		for _, name := range l.chains {
			p.table.chains.Drop(name)
		}
		delete(o.lists, k)
	}
}

// list renders one list of rules for one stage, and puts the rules into chains where that is
// possible.
func (p *policies) list(o *ruleOwner, k match.List) (*ruleList, error) {
	l, rules := &ruleList{}, o.Rules(k.Dir)
	merged := match.Merge
	if p.eachRule {
		merged = match.Each // each counter or log line must identify one rule
	}
	var extra []*ruleset.Chain
	for i, m := range merged(rules) {
		if !k.Stage.Adapt(&m) {
			continue
		}
		// Two slashes: with one, this could be the name of a policy in a namespace that has the
		// name of o.
		out, more, err := p.rules.rule(k, o.IsProfile(), o.chainName(k)+"//log-"+strconv.Itoa(i), &m)
		if err != nil {
			return l, fmt.Errorf("%s rule %s: %w", k.Dir, strings.Join(m.IDs, " "), err)
		}
		l.rules = append(l.rules, out...)
		extra = append(extra, more...)
	}
	for _, c := range extra {
		p.table.chains.Set(c)
		l.chains = append(l.chains, c.Name)
	}
	passes := !o.IsProfile() && slices.ContainsFunc(
		rules, func(r dataplane.Rule) bool { return r.Action == policy.Pass },
	)
	if !passes && len(l.rules) > 0 {
		l.chain = o.chainName(k)
		p.table.chains.Set(&ruleset.Chain{Name: l.chain, Rules: l.rules})
		l.chains = append(l.chains, l.chain)
		l.rules = nil
	}
	return l, nil
}

// renderDirty renders the dirty policies and profiles, and returns them. After tiers and endpoints
// are rendered, the caller must call forget for each.
func (p *policies) renderDirty() []*ruleOwner {
	owners := slices.SortedFunc(maps.Keys(p.dirty.objects), func(a, b *ruleOwner) int { return a.Key.Compare(b.Key) })
	for _, o := range owners {
		p.render(o)
	}
	p.dirty.clear()
	return owners
}
