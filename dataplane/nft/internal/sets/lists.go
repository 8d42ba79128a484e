// SPDX-License-Identifier: Apache-2.0

package sets

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/reuse"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Lists are the sets of the ranges of ports and prefixes that rules list. Rules with equal lists share
// a set. Its name is a hash of its elements, so they never change.
//
// An anonymous set in the rule would be simpler, but the kernel shows the elements of an interval set
// some microseconds after the rule. Meanwhile a rule that denies would match nothing. The applier fills
// a set with a name before the rules that look into it.
type Lists struct {
	// users counts the rules that look into each set with a name.
	users map[string]int
	sets  map[string]*ruleset.Set
	// parts has the IP sets by the names of their kernel sets. looked has those of which a kernel set got
	// its first user or lost its last one.
	parts  map[string]*IPSet
	looked map[*IPSet]struct{}
	// told has the sets that the table had after the last Flush, dirty those whose users changed since.
	told, dirty map[string]bool
}

// NewLists returns Lists of no rules.
func NewLists() Lists {
	return Lists{
		users: map[string]int{}, sets: map[string]*ruleset.Set{}, told: map[string]bool{}, dirty: map[string]bool{},
		parts: map[string]*IPSet{}, looked: map[*IPSet]struct{}{},
	}
}

// Named returns the chain with its anonymous sets of ranges replaced by sets with names.
func (l *Lists) Named(c *ruleset.Chain) *ruleset.Chain {
	var rules []ruleset.Rule
	for i := range c.Rules {
		matches := c.Rules[i].Matches
		if !slices.ContainsFunc(matches, isList) {
			continue
		}
		matches = slices.Clone(matches)
		for j, m := range matches {
			if isList(m) {
				in := m.(ruleset.In)
				matches[j] = ruleset.Lookup{Fields: in.Fields, Not: in.Not, Set: l.set(in)}
			}
		}
		if rules == nil {
			rules = slices.Clone(c.Rules)
		}
		rules[i].Matches = matches
	}
	if rules == nil {
		return c
	}
	return &ruleset.Chain{Name: c.Name, Hook: c.Hook, Rules: rules}
}

// isList reports whether the match looks into an anonymous set that the kernel would keep as intervals.
func isList(m ruleset.Match) bool {
	in, ok := m.(ruleset.In)
	isRange := func(e ruleset.Element) bool { return e.Last != nil }
	return ok && len(in.Fields) == 1 && slices.ContainsFunc(in.Elements, isRange)
}

// set returns the name of the set that holds the elements, which are sorted and disjoint.
func (l *Lists) set(in ruleset.In) string {
	typ := in.Fields[0].Type()
	content := []byte(typ.String())
	for _, e := range in.Elements {
		last := e.Last
		if last == nil {
			last = e.Key[0]
		}
		content = append(append(content, e.Key[0]...), last...)
	}
	prefix := "lp-"
	switch typ {
	case ruleset.TypeIPv4:
		prefix = "l4-"
	case ruleset.TypeIPv6:
		prefix = "l6-"
	}
	name := prefix + Hash(string(content))
	if l.sets[name] == nil {
		l.sets[name] = &ruleset.Set{Name: name, Key: []ruleset.Type{typ}, Interval: true, Elements: in.Elements}
	}
	return name
}

// Replace counts the lookups of a chain that replaces another one. Either may be nil.
func (l *Lists) Replace(old, c *ruleset.Chain) {
	l.count(c, 1)
	l.count(old, -1)
}

func (l *Lists) count(c *ruleset.Chain, n int) {
	if c == nil {
		return
	}
	for _, rule := range c.Rules {
		for _, m := range rule.Matches {
			if lookup, ok := m.(ruleset.Lookup); ok {
				l.use(lookup.Set, n)
			}
		}
	}
}

// use adds n to the number of rules that look into a set.
func (l *Lists) use(name string, n int) {
	before := l.users[name]
	l.users[name] += n
	if before+n == 0 {
		delete(l.users, name)
	}
	if l.sets[name] != nil {
		l.dirty[name] = true
	}
	if s := l.parts[name]; s != nil && (before == 0 || before+n == 0) {
		l.looked[s] = struct{}{}
	}
}

// TakeLooked returns the IP sets of which a kernel set got its first user or lost its last one since the
// Last call.
func (l *Lists) TakeLooked() map[*IPSet]struct{} {
	looked := l.looked
	l.looked = map[*IPSet]struct{}{}
	return looked
}

// Flush adds to the delta the sets that came or went since the last Flush.
func (l *Lists) Flush(d *ruleset.Delta) {
	for _, name := range slices.Sorted(maps.Keys(l.dirty)) {
		wanted := l.users[name] > 0
		switch {
		case wanted && !l.told[name]:
			d.Sets = append(d.Sets, l.sets[name])
			l.told[name] = true
		case !wanted && l.told[name]:
			d.DeleteSets = append(d.DeleteSets, name)
			delete(l.told, name)
		}
		if !wanted {
			delete(l.sets, name)
		}
	}
	l.dirty = reuse.Map(l.dirty)
}

// All returns the sets of ranges that rules look into.
func (l *Lists) All() (out []*ruleset.Set) {
	for name := range l.users {
		if s := l.sets[name]; s != nil {
			out = append(out, s)
		}
	}
	return out
}
