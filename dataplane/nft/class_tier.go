// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// tierIndex is one tier with the policies that apply to some endpoints in one direction, or one profile, with its rules filed by what
// they ask of the other side's address. Groups with just the same share it.
type tierIndex struct {
	id      string
	dir     direction
	spec    dataplane.TierPolicies
	profile bool
	users   map[*group]struct{}
	places  []place
	of      map[*ruleOwner][]int32 // the places of a policy: it may be listed twice
	// byAtom has the places with a rule that holds for addresses in that atom alone, in order; any those with a rule that asks for none.
	byAtom map[*atom][]int32
	any    []int32
	asked  map[*atom]struct{}
	faults map[int32]error
	// enforced counts the policies that are not staged.
	enforced int
	// whole counts the rules that are not plain.
	whole int
}

// place is one policy of a tier.
type place struct {
	owner    *ruleOwner
	rules    []classRule
	enforced bool
}

// err returns what is wrong with the first policy that something is wrong with.
func (t *tierIndex) err() error {
	if len(t.faults) == 0 {
		return nil
	}
	for i := range t.places {
		if err := t.faults[int32(i)]; err != nil {
			return err
		}
	}
	return nil
}

// tierIndex returns the index of a tier, made where it is not there, and notes who uses it.
func (r *Renderer) tierIndex(user *group, spec dataplane.TierPolicies, profile bool) *tierIndex {
	id := string(user.dir) + " tier " + r.tierHash(spec)
	if profile {
		id = string(user.dir) + " profile " + spec.Policies[0].Name
	}
	t := r.classes.tiers[id]
	if t == nil {
		t = &tierIndex{
			id: id, dir: user.dir, spec: spec, profile: profile, users: map[*group]struct{}{}, places: make([]place, len(spec.Policies)),
			of: map[*ruleOwner][]int32{}, byAtom: map[*atom][]int32{}, asked: map[*atom]struct{}{}, faults: map[int32]error{},
		}
		r.classes.tiers[id] = t
		for i, key := range spec.Policies {
			o := r.owner(key)
			o.indexes[t] = struct{}{}
			t.places[i].owner = o
			t.of[o] = append(t.of[o], int32(i))
		}
		for i := range t.places {
			r.file(t, int32(i))
		}
	}
	t.users[user] = struct{}{}
	return t
}

// leaveIndex notes that a group uses the index no longer. The last to leave takes it away.
func (r *Renderer) leaveIndex(user *group, t *tierIndex) {
	delete(t.users, user)
	if len(t.users) > 0 || r.classes.tiers[t.id] != t { // A profile may be named twice.
		return
	}
	delete(r.classes.tiers, t.id)
	for i := range t.places {
		r.fill(t, int32(i), place{})
	}
	for o := range t.of {
		delete(o.indexes, t)
		r.forgetOwner(o)
	}
}

// refile takes the rules of a policy or profile anew.
func (r *Renderer) refile(t *tierIndex, o *ruleOwner) {
	before, enforced := t.err(), t.enforced
	for _, i := range t.of[o] {
		r.file(t, i)
	}
	if (t.enforced == 0) != (enforced == 0) {
		for g := range t.users {
			r.doubt(g, nil)
		}
	}
	if !sameError(before, t.err()) {
		for g := range t.users {
			r.doubt(g, nil)
			for s := range g.users {
				r.dirtySubjects[s] = struct{}{}
			}
		}
	}
}

// sameError reports whether two errors say the same.
func sameError(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
}

// placeError returns what is wrong with the policy or profile at a place.
func (t *tierIndex) placeError(o *ruleOwner) error {
	switch {
	case t.profile && !o.exists():
		return fmt.Errorf("profile %s does not exist", o.key.Name) // S34
	case t.profile && o.err != nil:
		return fmt.Errorf("profile %s: %w", o.key.Name, o.err)
	case t.profile:
		return nil
	case !o.exists():
		return fmt.Errorf("tier %s: %s does not exist", t.spec.Tier, o.key)
	case o.staged():
		return nil
	case o.err != nil:
		return fmt.Errorf("tier %s: %s: %w", t.spec.Tier, o.key, o.err)
	case o.policy.Untracked || o.policy.PreDNAT:
		return fmt.Errorf("tier %s: %s is of another kind", t.spec.Tier, o.key)
	case t.spec.DefaultAction != policy.Deny && t.spec.DefaultAction != policy.Pass:
		return fmt.Errorf("tier %s: unknown default action %q", t.spec.Tier, t.spec.DefaultAction)
	}
	return nil
}

// file puts the rules of a place into the index, instead of those that were there.
func (r *Renderer) file(t *tierIndex, i int32) {
	now := place{owner: t.places[i].owner}
	delete(t.faults, i)
	if err := t.placeError(now.owner); err != nil {
		t.faults[i] = err
	} else if now.enforced = !now.owner.staged(); now.enforced { // S20
		now.rules = r.compile(now.owner, t.dir)
	}
	r.fill(t, i, now)
}

// fill puts a place in order. New atoms come before old ones go: most are both.
func (r *Renderer) fill(t *tierIndex, i int32, now place) {
	was := t.places[i]
	for k := range now.rules {
		now.rules[k].eachAtom(func(a *atom) { r.ask(t, a) })
	}
	r.doubtRules(t, &was)
	was.eachFiling(func(a *atom) {
		if a == nil {
			t.any = removePlace(t.any, i)
			return
		}
		if t.byAtom[a] = removePlace(t.byAtom[a], i); len(t.byAtom[a]) == 0 {
			delete(t.byAtom, a)
		}
	})
	now.eachFiling(func(a *atom) {
		if a == nil {
			t.any = insertPlace(t.any, i)
			return
		}
		t.byAtom[a] = insertPlace(t.byAtom[a], i)
	})
	for k := range was.rules {
		was.rules[k].eachAtom(func(a *atom) { r.unask(t, a) })
	}
	if was.enforced {
		t.enforced--
	}
	if now.enforced {
		t.enforced++
	}
	t.whole += now.whole() - was.whole()
	t.places[i] = now
	r.doubtRules(t, &now)
}

// whole counts the rules that are not plain.
func (p *place) whole() (n int) {
	for k := range p.rules {
		if !p.rules[k].plain {
			n++
		}
	}
	return n
}

// ask notes that a rule of the index asks for the atom, and unask that one does no longer.
func (r *Renderer) ask(t *tierIndex, a *atom) {
	if a.tiers[t]++; a.tiers[t] > 1 {
		return
	}
	t.asked[a] = struct{}{}
	r.doubtAll(t, a.classes)
	if len(a.tiers) == 1 {
		r.classes.include(a, true)
	}
}

func (r *Renderer) unask(t *tierIndex, a *atom) {
	if a.tiers[t]--; a.tiers[t] > 0 {
		return
	}
	delete(a.tiers, t)
	delete(t.asked, a)
	r.doubtAll(t, a.classes)
	if len(a.tiers) == 0 {
		r.classes.include(a, false)
		r.classes.loose[a] = struct{}{}
	}
}

// eachFiling calls f with what the rules of a place are filed under: for each rule and family, the first atom that it needs, or nil.
func (p *place) eachFiling(f func(*atom)) {
	for k := range p.rules {
		for fam := range p.rules[k].never {
			if !p.rules[k].never[fam] {
				f(p.rules[k].first(fam))
			}
		}
	}
}

// doubtRules has the outcome found anew for the classes that rules of a place can hold for.
func (r *Renderer) doubtRules(t *tierIndex, p *place) {
	all := false
	p.eachFiling(func(a *atom) { all = all || a == nil })
	if all {
		for g := range t.users {
			r.doubt(g, nil)
		}
		return
	}
	p.eachFiling(func(a *atom) { r.doubtAll(t, a.classes) })
}

func (r *Renderer) doubtAll(t *tierIndex, classes map[*class]struct{}) {
	for g := range t.users {
		for c := range classes {
			r.doubt(g, c)
		}
	}
}

func insertPlace(places []int32, i int32) []int32 {
	at, found := slices.BinarySearch(places, i)
	if found {
		return places
	}
	return slices.Insert(places, at, i)
}

func removePlace(places []int32, i int32) []int32 {
	at, found := slices.BinarySearch(places, i)
	if !found {
		return places
	}
	return slices.Delete(places, at, at+1)
}

// candidates returns the places that may have a rule for the addresses of a class, in order.
func (t *tierIndex) candidates(c *class, scratch []int32) []int32 {
	scratch = append(scratch[:0], t.any...)
	for _, a := range c.atoms {
		scratch = append(scratch, t.byAtom[a]...)
	}
	slices.Sort(scratch)
	return slices.Compact(scratch)
}
