// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// listSets are the sets that hold the ranges which rules list: ports and prefixes. Equal lists are one set, named after what is in it, so its
// elements never change.
//
// They have names although each could be an anonymous set of its rule, because the kernel switches rules before it shows the elements of new
// interval sets: for some microseconds an anonymous one is empty, and a rule that denies would match nothing. The applier fills a set with a
// name ahead of the rules that look into it.
type listSets struct {
	// users counts the rules that look into each set with a name, whoever's it is.
	users map[string]int
	sets  map[string]*ruleset.Set
	// parts has the IP sets by the names of their kernel sets; those in looked have one that has found its first user, or lost its last.
	parts  map[string]*ipSet
	looked map[*ipSet]struct{}
	// told are those that the table had after the last flush, dirty those whose users have changed since.
	told, dirty map[string]bool
}

func newListSets() listSets {
	return listSets{
		users: map[string]int{}, sets: map[string]*ruleset.Set{}, told: map[string]bool{}, dirty: map[string]bool{},
		parts: map[string]*ipSet{}, looked: map[*ipSet]struct{}{},
	}
}

// name returns the chain with its anonymous sets of ranges replaced by sets with names.
func (l *listSets) name(c *ruleset.Chain) *ruleset.Chain {
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
	return ok && len(in.Fields) == 1 && slices.ContainsFunc(in.Elements, func(e ruleset.Element) bool { return e.Last != nil })
}

// set returns the name of the set that holds the elements, which are sorted and disjoint.
func (l *listSets) set(in ruleset.In) string {
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
	name := prefix + hash(string(content))
	if l.sets[name] == nil {
		l.sets[name] = &ruleset.Set{Name: name, Key: []ruleset.Type{typ}, Interval: true, Elements: in.Elements}
	}
	return name
}

// replace takes note of a chain that comes in the place of another; either may be nil.
func (l *listSets) replace(old, c *ruleset.Chain) {
	l.count(c, 1)
	l.count(old, -1)
}

func (l *listSets) count(c *ruleset.Chain, n int) {
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

// use notes that so many more rules look into a set.
func (l *listSets) use(name string, n int) {
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

// flush adds to the delta which sets came and went.
func (l *listSets) flush(d *ruleset.Delta) {
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
	l.dirty = emptied(l.dirty)
}

// all returns the sets that are in use.
func (l *listSets) all() (out []*ruleset.Set) {
	for name := range l.users {
		if s := l.sets[name]; s != nil {
			out = append(out, s)
		}
	}
	return out
}
