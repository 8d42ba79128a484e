// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/classify"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/policy"
)

// indexes has the indexes of all tiers and profiles, and the policies in them.
type indexes struct {
	cfg     *Config
	classes *classify.Classifier
	byID    map[string]*tierIndex
	entries map[policy.Key]*entry
	// users has, for each predicate, the tiers whose rules use it, and the number of these rules.
	users map[*classify.Predicate]map[*tierIndex]int
	// dirty returns the dirty classes of a group.
	dirty   func(*Group) *dirtyClasses
	scratch []int32
	measurement
	all *tally // the cost of all groups
}

// entry is a policy or profile that exists, or that is in an index.
type entry struct {
	key     policy.Key
	name    string                  // the key, in quotation marks
	hash    uint64                  // hash of the name
	owner   *match.Owner            // nil if the policy or profile does not exist
	indexes map[*tierIndex]struct{} // nil while no index has it
}

// tierIndex has the rules of a tier or profile, by their predicates on the address of the other
// side. With it, the rules that may match a class are found without a look at all rules. A tier
// here consists of the policies that apply to some endpoints in one list. Groups with the same
// policies share the index.
type tierIndex struct {
	tierKind
	id       string
	users    map[*Group]struct{}
	policies []tierPolicy
	of       map[*entry][]int32 // the positions of each entry in policies; a policy may be listed twice
	// byPredicate has, for each predicate, the positions of policies with a rule that only
	// addresses with this predicate can match, sorted. The key nil has the positions of policies
	// with a rule that requires no predicate.
	byPredicate map[*classify.Predicate][]int32
	predicates  map[*classify.Predicate]struct{}
	faults      map[int32]error
	// enforced is the number of policies that are not staged.
	enforced int
	// cost is the cost of all rules as chains.
	cost int
}

// tierKind identifies the tier or the profile of a tierIndex, and the list.
type tierKind struct {
	list    match.List
	spec    dataplane.TierPolicies
	profile bool
	end     string // text for the end of the tier in keys of outcomes
}

// tierPolicy is one policy of a tier.
type tierPolicy struct {
	entry    *entry
	rules    []classRule
	enforced bool
}

func newIndexes(cfg *Config, c *classify.Classifier, dirty func(*Group) *dirtyClasses) *indexes {
	return &indexes{
		cfg: cfg, classes: c, byID: map[string]*tierIndex{}, entries: map[policy.Key]*entry{},
		users: map[*classify.Predicate]map[*tierIndex]int{}, dirty: dirty,
		measurement: measurement{seed: maphash.MakeSeed()}, all: newTally(),
	}
}

// entry returns the entry of a policy or profile. If there is none, it creates one.
func (ix *indexes) entry(key policy.Key) *entry {
	e := ix.entries[key]
	if e == nil {
		e = &entry{key: key, name: strconv.Quote(key.String())}
		e.hash = ix.hash(e.name)
		ix.entries[key] = e
	}
	return e
}

// forget removes an entry if its policy or profile does not exist and is in no index.
func (ix *indexes) forget(e *entry) {
	if e.owner == nil && len(e.indexes) == 0 {
		delete(ix.entries, e.key)
	}
}

// setPolicy updates the indexes after the rules of a policy or profile have changed.
func (ix *indexes) setPolicy(o *match.Owner) {
	e := ix.entry(o.Key)
	e.owner = o
	if !o.Exists() {
		e.owner = nil
	}
	lists := map[match.List][]classRule{}
	for t := range e.indexes {
		ix.indexEntry(t, e, func() []classRule {
			rules, found := lists[t.list]
			if !found {
				rules = ix.compile(e.owner, t.list)
				lists[t.list] = rules
			}
			return rules
		})
	}
	ix.forget(e)
}

// err returns the error of the first policy with an error.
func (t *tierIndex) err() error {
	if len(t.faults) == 0 {
		return nil
	}
	for i := range t.policies {
		if err := t.faults[int32(i)]; err != nil {
			return err
		}
	}
	return nil
}

// addUser returns the index of a tier, and records that a group uses it. If there is no such index,
// it creates one.
func (ix *indexes) addUser(user *Group, spec dataplane.TierPolicies, profile bool) *tierIndex {
	id := user.Stage.Name() + string(user.Dir) + " tier " + ix.cfg.TierHash(spec)
	if profile {
		id = string(user.Dir) + " profile " + spec.Policies[0].Name
	}
	t := ix.byID[id]
	if t == nil {
		t = &tierIndex{
			tierKind: tierKind{user.List, spec, profile, fmt.Sprintf("\nend %q %q", spec.Tier, spec.DefaultAction)},
			id:       id,
			users:    map[*Group]struct{}{}, policies: make([]tierPolicy, len(spec.Policies)),
			of: map[*entry][]int32{}, byPredicate: map[*classify.Predicate][]int32{},
			predicates: map[*classify.Predicate]struct{}{}, faults: map[int32]error{},
		}
		ix.byID[id] = t
		for i, key := range spec.Policies {
			e := ix.entry(key)
			if e.indexes == nil {
				e.indexes = map[*tierIndex]struct{}{}
			}
			e.indexes[t] = struct{}{}
			t.policies[i].entry = e
			t.of[e] = append(t.of[e], int32(i))
		}
		for i := range t.policies {
			e := t.policies[i].entry
			ix.indexPolicy(t, int32(i), func() []classRule { return ix.compile(e.owner, t.list) })
		}
	}
	t.users[user] = struct{}{}
	return t
}

// removeUser records that a group no longer uses the index. If no group uses it, the index is
// removed.
func (ix *indexes) removeUser(user *Group, t *tierIndex) {
	delete(t.users, user)
	if len(t.users) > 0 || ix.byID[t.id] != t { // a profile may be named twice
		return
	}
	delete(ix.byID, t.id)
	for i := range t.policies {
		ix.replacePolicy(t, int32(i), tierPolicy{})
	}
	for e := range t.of {
		delete(e.indexes, t)
		ix.forget(e)
	}
}

// indexEntry updates one index after the rules of a policy or profile have changed. compile returns
// the new rules.
func (ix *indexes) indexEntry(t *tierIndex, e *entry, compile func() []classRule) {
	before, enforced := t.err(), t.enforced
	for _, i := range t.of[e] {
		ix.indexPolicy(t, i, compile)
	}
	if (t.enforced == 0) != (enforced == 0) || !sameError(before, t.err()) {
		for g := range t.users {
			ix.dirty(g).mark(nil)
			for user := range g.users {
				ix.cfg.Changed(user)
			}
		}
	}
}

// sameError reports whether two errors have the same text.
func sameError(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
}

// check returns the error of a policy or profile of the index, or nil.
func (t *tierIndex) check(e *entry) error {
	o := e.owner
	switch {
	case t.profile && o == nil:
		return fmt.Errorf("profile %s does not exist", e.key.Name) // S34
	case t.profile && o.Err != nil:
		return fmt.Errorf("profile %s: %w", e.key.Name, o.Err)
	case t.profile:
		return nil
	case o == nil:
		return fmt.Errorf("tier %s: %s does not exist", t.spec.Tier, e.key)
	case o.Staged():
		return nil
	case o.Err != nil:
		return fmt.Errorf("tier %s: %s: %w", t.spec.Tier, e.key, o.Err)
	case o.Policy == nil || !slices.Contains(o.Lists(), t.list):
		return fmt.Errorf("tier %s: %s is of another kind", t.spec.Tier, e.key)
	case t.spec.DefaultAction != policy.Deny && t.spec.DefaultAction != policy.Pass:
		return fmt.Errorf("tier %s: unknown default action %q", t.spec.Tier, t.spec.DefaultAction)
	}
	return nil
}

// indexPolicy replaces the rules of the policy at position i by its current rules. compile returns
// these.
func (ix *indexes) indexPolicy(t *tierIndex, i int32, compile func() []classRule) {
	now := tierPolicy{entry: t.policies[i].entry}
	delete(t.faults, i)
	if err := t.check(now.entry); err != nil {
		t.faults[i] = err
	} else if now.enforced = !now.entry.owner.Staged(); now.enforced { // S20
		now.rules = compile()
	}
	ix.replacePolicy(t, i, now)
}

// replacePolicy replaces the policy at position i. It adds the references of the new rules before
// it removes those of the old ones, so that a predicate of both stays in use.
func (ix *indexes) replacePolicy(t *tierIndex, i int32, now tierPolicy) {
	was := t.policies[i]
	if was.enforced && now.enforced && slices.EqualFunc(was.rules, now.rules, keepsOutcomes) {
		ix.editPolicy(t, i, now)
		return
	}
	for k := range now.rules {
		now.rules[k].eachPredicate(func(p *classify.Predicate) { ix.use(t, p) })
	}
	ix.markRules(t, &was)
	was.eachIndexKey(func(p *classify.Predicate) {
		if t.byPredicate[p] = removePosition(t.byPredicate[p], i); len(t.byPredicate[p]) == 0 {
			delete(t.byPredicate, p)
		}
	})
	now.eachIndexKey(func(p *classify.Predicate) { t.byPredicate[p] = insertPosition(t.byPredicate[p], i) })
	for k := range was.rules {
		was.rules[k].eachPredicate(func(p *classify.Predicate) { ix.release(t, p) })
	}
	if was.enforced {
		t.enforced--
		ix.all.chains.remove(listOf{was.entry, t.list})
	}
	if now.enforced {
		t.enforced++
		ix.all.chains.add(listOf{now.entry, t.list}, now.cost())
	}
	ix.changeCost(t, now.cost()-was.cost())
	t.policies[i] = now
	ix.markRules(t, &now)
}

// editPolicy does what replacePolicy does, for rules with which all classes keep their outcomes.
func (ix *indexes) editPolicy(t *tierIndex, i int32, now tierPolicy) {
	was := t.policies[i]
	t.policies[i] = now
	if more := now.cost() - was.cost(); more != 0 {
		list := listOf{now.entry, t.list}
		ix.all.chains.remove(list)
		ix.all.chains.add(list, now.cost())
		ix.changeCost(t, more)
	}
	for k := range now.rules {
		if was.rules[k].sameChains(&now.rules[k]) {
			continue
		}
		for fam, never := range now.rules[k].never {
			if never {
				continue
			}
			if p := now.rules[k].first(fam); p == nil {
				ix.markEdited(t, nil)
			} else {
				for c := range p.Classes() {
					ix.markEdited(t, c)
				}
			}
		}
	}
}

// markEdited marks a class as edited in all groups of an index, or all classes if c is nil.
func (ix *indexes) markEdited(t *tierIndex, c *classify.Class) {
	for g := range t.users {
		ix.dirty(g).markEdited(c)
	}
}

// use records that a rule of the index uses the predicate.
func (ix *indexes) use(t *tierIndex, p *classify.Predicate) {
	users := ix.users[p]
	if users == nil {
		users = map[*tierIndex]int{}
		ix.users[p] = users
	}
	if users[t]++; users[t] > 1 {
		return
	}
	t.predicates[p] = struct{}{}
	ix.markClasses(t, p.Classes())
	if len(users) == 1 {
		ix.classes.Use(p)
	}
}

// release records that a rule of the index no longer uses the predicate.
func (ix *indexes) release(t *tierIndex, p *classify.Predicate) {
	users := ix.users[p]
	if users[t]--; users[t] > 0 {
		return
	}
	delete(users, t)
	delete(t.predicates, p)
	ix.markClasses(t, p.Classes())
	if len(users) == 0 {
		delete(ix.users, p)
		ix.classes.Release(p)
	}
}

// eachIndexKey calls f with the keys that the rules of a policy have in byPredicate. A rule has one
// key for each family: the first predicate that an address must satisfy. The key is nil if there is
// none.
func (p *tierPolicy) eachIndexKey(f func(*classify.Predicate)) {
	for k := range p.rules {
		for fam := range p.rules[k].never {
			if !p.rules[k].never[fam] {
				f(p.rules[k].first(fam))
			}
		}
	}
}

// markRules marks the classes that rules of a policy may match, so that their outcomes are computed
// again.
func (ix *indexes) markRules(t *tierIndex, p *tierPolicy) {
	all := false
	p.eachIndexKey(func(p *classify.Predicate) { all = all || p == nil })
	if all {
		for g := range t.users {
			ix.dirty(g).mark(nil)
		}
		return
	}
	p.eachIndexKey(func(p *classify.Predicate) { ix.markClasses(t, p.Classes()) })
}

// changeCost adds to the cost of the rules of an index. The next update computes the costs of the
// index's groups.
func (ix *indexes) changeCost(t *tierIndex, more int) {
	if more == 0 {
		return
	}
	t.cost += more
	for g := range t.users {
		ix.dirty(g)
	}
}

// markClasses marks classes as dirty in all groups of an index.
func (ix *indexes) markClasses(t *tierIndex, classes map[*classify.Class]struct{}) {
	for g := range t.users {
		d := ix.dirty(g)
		for c := range classes {
			d.mark(c)
		}
	}
}

func insertPosition(positions []int32, i int32) []int32 {
	at, found := slices.BinarySearch(positions, i)
	if found {
		return positions
	}
	return slices.Insert(positions, at, i)
}

func removePosition(positions []int32, i int32) []int32 {
	at, found := slices.BinarySearch(positions, i)
	if !found {
		return positions
	}
	return slices.Delete(positions, at, at+1)
}

// candidates returns the positions of policies that may have a rule for the addresses of a class,
// sorted. The result is valid until the next call.
func (ix *indexes) candidates(t *tierIndex, c *classify.Class) []int32 {
	ix.scratch = t.appendCandidates(ix.scratch[:0], c)
	return ix.scratch
}

// appendCandidates does what candidates does, with the memory of an empty slice.
func (t *tierIndex) appendCandidates(positions []int32, c *classify.Class) []int32 {
	positions = append(positions, t.byPredicate[nil]...)
	for _, p := range c.Predicates() {
		positions = append(positions, t.byPredicate[p]...)
	}
	slices.Sort(positions)
	return slices.Compact(positions)
}

// writeShapes writes the shapes of the rule's IP sets: which sets each of them has in the kernel.
func (ix *indexes) writeShapes(key *strings.Builder, m *match.Merged) {
	for _, id := range match.SetIDs(&m.Rule) {
		fmt.Fprintf(key, " %v", ix.cfg.Set(id).Shape())
	}
}
