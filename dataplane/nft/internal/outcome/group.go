// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/classify"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// Group consists of the endpoints that have the same tiers and profiles in one direction. Untracked
// and pre-DNAT policy have groups of their own.
//
// A predicate is a condition that rules test: an address is in an IP set or in a list of prefixes.
// All addresses of a class satisfy the same predicates. If a class satisfies at least one predicate
// of the group's rules, the group has an outcome for the class. The outcome consists of the rules
// that can match addresses of the class, compiled to a short chain. All other addresses of a family
// share one outcome.
type Group struct {
	groupKind
	cost  groupCost
	id    string
	tiers []*tierIndex // profiles are last
	users map[any]struct{}
	// classes has the classes that have addresses and satisfy a predicate of the group's rules.
	classes map[*classify.Class]classState
	// others has, by family, the outcome of the addresses of all other classes.
	others [2]*outcome
	// classMap maps a class to the number of its outcome. The field chains maps that number to a
	// chain.
	classMap *sets.ElementSet
	chains   *chainMap
	// overLimit is set if the cost is over a limit. The endpoints then use chains of rules instead.
	// atFault is set if the policy has an error. The packets of the endpoints are then dropped, and
	// classes is empty.
	overLimit, atFault bool
}

// groupKind is the kind of a group. The field rest is the action for packets about which no tier or
// profile decides: Allow or Deny. Pass leaves them undecided.
type groupKind struct {
	match.List
	rest policy.Action
	// returns is Policy.Return.
	returns bool
}

// Policy is the policy that a group applies.
type Policy struct {
	List     match.List
	Tiers    []dataplane.TierPolicies
	Profiles []string
	// Rest is the action for packets about which no tier or profile decides: Allow or Deny. At a
	// partial stage (untracked or pre-DNAT policy), these packets stay undecided.
	Rest policy.Action
	// Return selects which rule leads packets to the chains of their outcomes. If Return is not
	// set, a rule of the group's chain does this.
	//
	// If Return is set, the rule of Dispatch does this. The group's chain writes the number of the
	// outcome into Register, and returns. Evaluation continues after the rule that jumped to the
	// endpoint's chain. The caller must put the rule of Dispatch there. There is one exception: if
	// the peer's address satisfies no predicate of the group's rules, the group's chain itself
	// leads the packet to its outcome.
	Return bool
}

// classState has the outcome of a class in a group.
type classState struct {
	outcome *outcome // nil while the group is over a limit
	hash    outcomeHash
}

// dirtyClasses has the classes of a group whose outcomes must be computed again. A class is edited
// if only ports or actions of its rules changed. It keeps its outcome, but the chains of the
// outcome may change.
type dirtyClasses struct {
	// all is set if all classes are dirty. edited is set if all classes are dirty or edited.
	all, edited bool
	// classes has the dirty classes. The value is true if the class is only edited.
	classes map[*classify.Class]bool
	// chain is set if the group's chain must be written again.
	chain bool
}

func newDirtyClasses() *dirtyClasses { return &dirtyClasses{classes: map[*classify.Class]bool{}} }

// mark adds a class, or all classes if c is nil.
func (d *dirtyClasses) mark(c *classify.Class) {
	if c == nil {
		d.all = true
	} else {
		d.classes[c] = false
	}
}

// markEdited adds a class as edited, or all classes of the group if c is nil.
func (d *dirtyClasses) markEdited(c *classify.Class) {
	if c == nil {
		d.edited = true
	} else if _, dirty := d.classes[c]; !dirty {
		d.classes[c] = true
	}
}

// Err returns the errors of the group's policy. If there are any, all packets of the group's
// endpoints must be dropped.
func (g *Group) Err() error {
	var errs []error
	for _, t := range g.tiers {
		errs = append(errs, t.err())
	}
	return errors.Join(errs...)
}

// Enforces reports whether the group has a policy that is not staged.
func (g *Group) Enforces() bool {
	return slices.ContainsFunc(g.tiers, func(t *tierIndex) bool { return t.enforced > 0 })
}

// OverLimit reports whether the group is over a limit, so that its endpoints need chains of rules.
func (g *Group) OverLimit() bool { return g.overLimit }

// Rules returns the rules that decide about packets of the group's endpoints. Untracked and
// pre-DNAT policy may leave a packet undecided. The kernel then continues with the rule that comes
// after the returned ones.
func (g *Group) Rules() []ruleset.Rule {
	if g.Stage.Partial() {
		return []ruleset.Rule{build.Always(build.Jump(g.chain()))}
	}
	return []ruleset.Rule{build.Always(build.Goto(g.chain()))}
}

// chain returns the name of the group's chain.
func (g *Group) chain() string { return g.Stage.Name() + "group-" + string(g.Dir) + "/" + g.id }

// id returns a text that identifies the group that applies the policy.
func (l *Lookups) id(p *Policy) string {
	parts := []string{p.List.Stage.Name() + string(p.List.Dir)}
	if p.Rest == policy.Allow {
		parts = append(parts, "rest allowed")
	}
	if p.List.Stage == match.StageNormal && !p.Return {
		parts = append(parts, "own map")
	}
	for _, spec := range p.Tiers {
		parts = append(parts, l.cfg.TierHash(spec))
	}
	return sets.Hash(append(append(parts, "profiles"), p.Profiles...)...)
}

// Join adds an endpoint to the group that applies policy p, and returns the group. If there is no
// such group, Join creates it. The parameter user identifies the endpoint, and must be comparable.
func (l *Lookups) Join(user any, p Policy) *Group {
	if p.List.Stage.Partial() {
		p.Rest = policy.Pass
	}
	id := l.id(&p)
	g := l.groups[id]
	if g == nil {
		classID := []ruleset.Type{ruleset.TypeClassID}
		g = &Group{
			groupKind: groupKind{p.List, p.Rest, p.Return}, cost: newGroupCost(),
			id: id, users: map[any]struct{}{}, classes: map[*classify.Class]classState{},
			classMap: sets.NewElementSet(ruleset.Set{
				Name: "gc-" + id, Key: classID, Data: classID, DeleteAfterGrace: true,
			}),
		}
		if p.Return {
			g.chains = l.maps[p.List.Dir]
		} else {
			g.chains = newChainMap("go-"+id, ruleset.Goto)
		}
		if old := l.removed[id]; old != nil { // removed since the last flush
			g.classMap, g.chains = old.classMap, old.chains
			delete(l.removed, id)
		}
		l.groups[id], l.changed[id] = g, g
		if classify.Original(p.List) {
			l.shared.originals++
		}
		for _, spec := range p.Tiers {
			g.tiers = append(g.tiers, l.indexes.addUser(g, spec, false))
		}
		for _, name := range p.Profiles {
			profile := policy.Key{Kind: policy.KindProfile, Name: name}
			spec := dataplane.TierPolicies{Policies: []policy.Key{profile}, DefaultAction: policy.Pass}
			g.tiers = append(g.tiers, l.indexes.addUser(g, spec, true))
		}
		l.dirtyOf(g).mark(nil)
	}
	g.users[user] = struct{}{}
	l.ofGroups.valid = false
	return g
}

// Leave removes an endpoint from the group. If the group has no other endpoints, it is removed.
func (l *Lookups) Leave(user any, g *Group) {
	delete(g.users, user)
	l.ofGroups.valid = false
	if len(g.users) > 0 {
		return
	}
	delete(l.groups, g.id)
	delete(l.dirty, g)
	if classify.Original(g.List) {
		l.shared.originals--
	}
	for _, t := range g.tiers {
		l.indexes.removeUser(g, t)
	}
	l.removeGroup(g)
	l.indexes.removeCost(g)
	if g.overLimit {
		l.limits.groupsOver--
	}
	g.classes = nil
	l.removed[g.id] = g
	l.limits.recheck = true
}

// dirtyOf returns the dirty classes of a group. The next update computes their outcomes.
func (l *Lookups) dirtyOf(g *Group) *dirtyClasses {
	d := l.dirty[g]
	if d == nil {
		d = newDirtyClasses()
		l.dirty[g] = d
	}
	return d
}

// updateDirtyGroups computes the outcomes of dirty classes, and applies the limits of costs.
func (l *Lookups) updateDirtyGroups() {
	work := l.dirty
	l.ofGroups.valid = false
	l.dirty = map[*Group]*dirtyClasses{}
	l.outcomes.updates++
	for g, d := range work {
		l.updateGroupClasses(g, d)
	}
	l.limitGroups(work)
	for g, d := range work {
		switch {
		case g.atFault:
			l.removeGroup(g)
		case !g.overLimit:
			l.updateGroup(g, d)
		}
	}
}

// limitGroups determines which groups are over a limit. A group is over a limit if its own cost is
// too high. If the total cost of the other groups is too high, the most expensive ones of them are
// over a limit, too.
func (l *Lookups) limitGroups(work map[*Group]*dirtyClasses) {
	l.limits.recheck = false
	l.limits.cost = l.indexes.all.cost()
	exceeded := l.limits.groupsOver > 0 || l.limits.cost > l.cfg.MaxTotal
	for g := range work {
		exceeded = exceeded || g.cost.total > l.cfg.MaxPerGroup
	}
	if !exceeded {
		return
	}
	groups := slices.SortedFunc(maps.Values(l.groups), compareGroups)
	within, full := newTally(), false
	l.limits.cost = 0
	for _, g := range groups {
		overLimit := full || g.cost.total > l.cfg.MaxPerGroup
		if !overLimit {
			within.add(g)
			full = within.cost() > l.cfg.MaxTotal
			overLimit = full
		}
		if !overLimit {
			l.limits.cost = within.cost()
		}
		if overLimit == g.overLimit {
			continue
		}
		g.overLimit = overLimit
		l.limits.groupsOver += map[bool]int{true: 1, false: -1}[overLimit]
		for user := range g.users {
			l.cfg.Changed(user)
		}
		if overLimit {
			l.removeGroup(g)
			continue
		}
		if work[g] == nil {
			work[g] = newDirtyClasses()
		}
		work[g].all = true
		for c := range g.classes {
			work[g].mark(c)
		}
	}
}

// updateGroupClasses updates the classes of a group, and its cost.
func (l *Lookups) updateGroupClasses(g *Group, d *dirtyClasses) {
	before := len(g.classes)
	if atFault := g.Err() != nil; atFault != g.atFault {
		g.atFault, d.all = atFault, true
	}
	switch {
	case d.all:
		for c := range g.classes {
			d.mark(c)
		}
		for _, t := range g.tiers {
			for p := range t.predicates {
				for c := range p.Classes() {
					d.mark(c)
				}
			}
		}
	case d.edited:
		for c := range g.classes {
			d.markEdited(c)
		}
	}
	for c := range d.classes {
		l.updateClass(g, c)
	}
	d.chain = d.all || d.edited || (before == 0) != (len(g.classes) == 0)
	g.updateCost()
	l.indexes.all.classes += len(g.classes) - before
}

// updateClass adds a class to the classes of a group, or removes it. It also updates the cost of
// the class's outcome.
func (l *Lookups) updateClass(g *Group, c *classify.Class) {
	state, had := g.classes[c]
	relevant := !g.atFault && c.HasAddresses() && g.distinguishes(c)
	if !relevant && !had {
		return
	}
	oldHash := state.hash
	if relevant {
		state.hash = l.indexes.measure(g, c)
		l.indexes.addClass(g, state.hash)
		g.classes[c] = state
	} else {
		l.setOutcome(g, c, nil)
		delete(g.classes, c)
	}
	if had {
		l.indexes.removeClass(g, oldHash)
	}
}

// distinguishes reports whether the class satisfies a predicate of the group's rules.
func (g *Group) distinguishes(c *classify.Class) bool {
	for _, p := range c.Predicates() {
		for _, t := range g.tiers {
			if _, ok := t.predicates[p]; ok {
				return true
			}
		}
	}
	return false
}

// updateGroup computes the outcomes of dirty classes. If the group's chain changes, it writes the
// chain.
func (l *Lookups) updateGroup(g *Group, d *dirtyClasses) {
	if d.all || d.edited {
		for i, none := range l.none() {
			if was := g.others[i]; d.all || !l.outcomes.refresh(was, g, none) {
				g.others[i] = l.outcomes.of(g, none)
				l.outcomes.drop(was)
			}
		}
	}
	for c, edited := range d.classes {
		switch state, found := g.classes[c]; {
		case !found:
		case edited && l.outcomes.refresh(state.outcome, g, c):
			l.writeOutcome(g, state.outcome)
		default:
			l.setOutcome(g, c, l.outcomes.of(g, c))
		}
	}
	if d.chain || d.all {
		l.cfg.Chains.Set(g.rules())
		g.setWanted(len(g.classes) > 0)
	}
}

// none returns, by family, the class of the addresses that satisfy no predicate.
func (l *Lookups) none() [2]*classify.Class {
	return [2]*classify.Class{l.classes.None(sets.IPv4), l.classes.None(sets.IPv6)}
}

// removeGroup removes the chain and the maps of a group from the table.
func (l *Lookups) removeGroup(g *Group) {
	for c := range g.classes {
		l.setOutcome(g, c, nil)
	}
	for i := range g.others {
		l.outcomes.drop(g.others[i])
		g.others[i] = nil
	}
	g.setWanted(false)
	l.changed[g.id] = g
	l.cfg.Chains.Drop(g.chain())
}

// setOutcome sets the outcome of a class. Nil removes the outcome. If the class already has the
// outcome o, only the map element of o is written, and only if the chain of o has changed.
func (l *Lookups) setOutcome(g *Group, c *classify.Class, o *outcome) {
	state := g.classes[c]
	was := state.outcome
	if o != nil && o == was {
		l.outcomes.drop(o)
		l.writeOutcome(g, o)
		return
	}
	state.outcome = o
	g.classes[c] = state
	if o == nil {
		g.classMap.Remove(sets.ElementKey(classElement(c, &outcome{})))
	} else {
		g.classMap.Put(classElement(c, o))
		g.chains.add(o, 1)
	}
	if was != nil {
		g.chains.add(was, -1)
		l.outcomes.drop(was)
	}
	l.changed[g.id] = g
}

// writeOutcome writes the element of an outcome of the group if the outcome's chain has changed.
func (l *Lookups) writeOutcome(g *Group, o *outcome) {
	if g.chains.add(o, 0); !g.returns {
		l.changed[g.id] = g
	}
}

// classElement returns the element that maps a class to the number of an outcome.
func classElement(c *classify.Class, o *outcome) ruleset.Element {
	return ruleset.Element{
		Key: []ruleset.Value{ruleset.Uint32(c.Number())}, Data: []ruleset.Value{ruleset.Uint32(o.Number())},
	}
}

// setWanted sets whether the table should have the maps of the group.
func (g *Group) setWanted(wanted bool) {
	g.classMap.Wanted = wanted
	if !g.returns {
		g.chains.set.Wanted = wanted
	}
}

// rules returns the chain of the group. At a partial stage (untracked or pre-DNAT policy), the
// chain may leave a packet undecided. The packet's priority must not look like a decision then.
// Therefore the chain looks up the class even if no rule needs it: this writes a class or zero into
// the priority.
func (g *Group) rules() *ruleset.Chain {
	c := &ruleset.Chain{Name: g.chain()}
	if len(g.classes) > 0 || g.Stage.Partial() {
		c.Rules = append(c.Rules, build.Always(build.Jump(classify.ChainName(g.List))))
	}
	if len(g.classes) > 0 {
		number := ruleset.Assign{Field: Register, Fields: []ruleset.Field{Register}, Map: g.classMap.Name()}
		if g.returns {
			c.Rules = append(c.Rules, build.Always(number, build.Return()))
		} else {
			c.Rules = append(c.Rules, build.Always(number), build.Dispatch(g.chains.set.Name(), Register))
		}
	}
	if g.others[0] != g.others[1] {
		c.Rules = append(c.Rules, build.When(build.Goto(g.others[0].chain), match.OfFamily(sets.IPv4)))
	}
	c.Rules = append(c.Rules, build.Always(build.Goto(g.others[1].chain)))
	c.Rules[0].Comment = sets.Comment(g.describe())
	return c
}

// describe returns a text with the names of the tiers and profiles.
func (g *Group) describe() string {
	var names []string
	for _, t := range g.tiers {
		if t.profile {
			names = append(names, "profile "+t.spec.Policies[0].Name)
		} else {
			names = append(names, "tier "+t.spec.Tier)
		}
	}
	return strings.Join(names, ", ")
}

// Affected reports whether packets of the group's endpoints may reach a bad chain. It examines the
// chain of the group and the chains of its outcomes. The parameter isBad reports whether a chain is
// bad, for example because the kernel refuses it. If the group is over a limit, its endpoints do
// not use these chains, and Affected returns false.
func (g *Group) Affected(isBad func(chain string) bool) bool {
	if g.overLimit {
		return false
	}
	if isBad(g.chain()) {
		return true
	}
	for _, state := range g.classes {
		if state.outcome.affected(isBad) {
			return true
		}
	}
	return g.others[0].affected(isBad) || g.others[1].affected(isBad)
}

// Affected calls f for each policy and profile that has rules in a bad chain. The parameter isBad
// reports whether a chain is bad, for example because the kernel refuses it. Affected may call f
// several times for the same policy. It examines the outcomes of all groups.
func (l *Lookups) Affected(isBad func(chain string) bool, f func(policy.Key)) {
	for _, g := range l.groups {
		visit := func(c *classify.Class, o *outcome) {
			if o.affected(isBad) {
				g.eachPolicy(c, f)
			}
		}
		for c, state := range g.classes {
			visit(c, state.outcome)
		}
		for i, none := range l.none() {
			visit(none, g.others[i])
		}
	}
}

// eachPolicy calls f for the policies and profiles with a rule that matches a class.
func (g *Group) eachPolicy(c *classify.Class, f func(policy.Key)) {
	for _, t := range g.tiers {
		for _, i := range t.appendCandidates(nil, c) {
			if slices.ContainsFunc(t.policies[i].rules, func(rule classRule) bool { return rule.matchesClass(c) }) {
				f(t.policies[i].entry.key)
			}
		}
	}
}
