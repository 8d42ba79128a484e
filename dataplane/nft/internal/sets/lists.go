// SPDX-License-Identifier: Apache-2.0

package sets

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/reuse"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Lists has a named set for each list of prefixes or ports in rules, if the list has ranges. If a
// rule maps such ranges to verdicts, Lists has a named verdict map. Rules with equal lists share a
// set. The name of a set is a hash of its elements, so these sets never change.
//
// A set cannot be anonymous, because the kernel shows the elements of an interval set some
// microseconds later than the rule. Until then, a rule that denies would match nothing. Package
// applier fills a named set before it adds the rules that reference the set.
type Lists struct {
	// users has the number of rules that reference each named set.
	users map[string]int
	sets  map[string]*ruleset.Set
	// users also counts the rules that reference IP sets. An IP set can have several sets in the
	// kernel. The field parts maps the name of each of these sets to its IP set. The field
	// usageChanged has the IP sets whose use by rules has begun or ended since the last call of
	// TakeUsageChanged.
	parts        map[string]*IPSet
	usageChanged map[*IPSet]struct{}
	// installed has the sets that the table had after the last Flush. dirty has the sets whose
	// users have changed since then.
	installed, dirty map[string]bool
}

// NewLists returns Lists for no rules.
func NewLists() Lists {
	return Lists{
		users: map[string]int{}, sets: map[string]*ruleset.Set{}, parts: map[string]*IPSet{},
		usageChanged: map[*IPSet]struct{}{}, installed: map[string]bool{}, dirty: map[string]bool{},
	}
}

// Named returns the chain with a named set instead of each anonymous set that has ranges. In the
// same way, a named verdict map replaces each anonymous verdict map that has ranges.
func (l *Lists) Named(c *ruleset.Chain) *ruleset.Chain {
	var rules []ruleset.Rule
	for i := range c.Rules {
		matches, statements := c.Rules[i].Matches, c.Rules[i].Statements
		if !slices.ContainsFunc(matches, isList) && !slices.ContainsFunc(statements, isMap) {
			continue
		}
		matches, statements = slices.Clone(matches), slices.Clone(statements)
		for j, m := range matches {
			if isList(m) {
				in := m.(ruleset.In)
				matches[j] = ruleset.Lookup{Fields: in.Fields, Not: in.Not, Set: l.set(in.Fields[0], in.Elements)}
			}
		}
		for j, s := range statements {
			if isMap(s) {
				m := s.(ruleset.VMap)
				statements[j] = ruleset.VMap{Fields: m.Fields, Map: l.set(m.Fields[0], m.Elements)}
			}
		}
		if rules == nil {
			rules = slices.Clone(c.Rules)
		}
		rules[i].Matches, rules[i].Statements = matches, statements
	}
	if rules == nil {
		return c
	}
	return &ruleset.Chain{Name: c.Name, Hook: c.Hook, Rules: rules}
}

// isList reports whether the match has an anonymous set with ranges.
func isList(m ruleset.Match) bool {
	in, ok := m.(ruleset.In)
	return ok && hasRanges(in.Fields, in.Elements)
}

// isMap reports whether the statement has an anonymous verdict map with ranges.
func isMap(s ruleset.Statement) bool {
	m, ok := s.(ruleset.VMap)
	return ok && hasRanges(m.Fields, m.Elements)
}

// hasRanges reports whether the kernel would store the elements as intervals.
func hasRanges(fields []ruleset.Field, elements []ruleset.Element) bool {
	isRange := func(e ruleset.Element) bool { return e.Last != nil }
	return len(fields) == 1 && slices.ContainsFunc(elements, isRange)
}

// set returns the name of the set or verdict map with the elements. They must be sorted and
// disjoint.
func (l *Lists) set(field ruleset.Field, elements []ruleset.Element) string {
	typ, verdicts := field.Type(), elements[0].Verdict != nil
	content := []byte(typ.String())
	for _, e := range elements {
		last := e.Last
		if last == nil {
			last = e.Key[0]
		}
		content = append(append(content, e.Key[0]...), last...)
		if verdicts {
			content = append(append(content, e.Verdict.String()...), 0)
		}
	}
	prefix := "lp-"
	switch {
	case verdicts:
		prefix = "vp-"
	case typ == ruleset.TypeIPv4:
		prefix = "l4-"
	case typ == ruleset.TypeIPv6:
		prefix = "l6-"
	}
	name := prefix + Hash(string(content))
	if l.sets[name] == nil {
		l.sets[name] = &ruleset.Set{
			Name: name, Key: []ruleset.Type{typ}, Interval: true, Verdicts: verdicts, Elements: elements,
		}
	}
	return name
}

// Replace records that chain c replaces chain old: it updates the number of rules that reference
// each set. Either chain may be nil.
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
		for _, s := range rule.Statements {
			if m, ok := s.(ruleset.VMap); ok && m.Map != "" {
				l.use(m.Map, n)
			}
		}
	}
}

// use adds n to the number of rules that reference a set.
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
		l.usageChanged[s] = struct{}{}
	}
}

// TakeUsageChanged returns the IP sets for which a set in the kernel may have to be added or
// deleted. An IP set can have several sets in the kernel (see IPSet). Each of them exists only
// while a rule references it. An IP set is in the result if, since the last call, one of these sets
// got its first rule or lost its last one.
func (l *Lists) TakeUsageChanged() map[*IPSet]struct{} {
	changed := l.usageChanged
	l.usageChanged = map[*IPSet]struct{}{}
	return changed
}

// Flush appends to the delta the sets that were added or removed since the last Flush.
func (l *Lists) Flush(d *ruleset.Delta) {
	for _, name := range slices.Sorted(maps.Keys(l.dirty)) {
		wanted := l.users[name] > 0
		switch {
		case wanted && !l.installed[name]:
			d.Sets = append(d.Sets, l.sets[name])
			l.installed[name] = true
		case !wanted && l.installed[name]:
			d.DeleteSets = append(d.DeleteSets, name)
			delete(l.installed, name)
		}
		if !wanted {
			delete(l.sets, name)
		}
	}
	l.dirty = reuse.Map(l.dirty)
}

// All returns the sets of ranges that rules reference.
func (l *Lists) All() (out []*ruleset.Set) {
	for name := range l.users {
		if s := l.sets[name]; s != nil {
			out = append(out, s)
		}
	}
	return out
}
