// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxDoubts is the maximum number of doubts of one rule.
const maxDoubts = 8

// DoubtError lists invalid or unknown fields in the rules of a policy. The policy is enforced, but
// each rule that has such a field is closed. A closed Allow or Log rule matches nothing, and any
// other closed rule denies everything (see Rule.Close). Update.Admit also returns a DoubtError for
// a profile that it has replaced by one that denies everything.
type DoubtError struct {
	// Key of the policy or profile.
	Key Key
	// Problems are in the order of the rules, at least one and at most 100. If there are more, the
	// last one says so.
	Problems []Problem
}

// Error returns the key of the policy and its first problems.
func (e *DoubtError) Error() string {
	return "policy: in doubt: " + e.Key.String() + ": " + sumUp(e.Problems)
}

// Doubts returns the invalid and unknown fields in the rules of the policy, or nil if there are
// none. If a rule has such a field, Decode, Update.Admit or a converter closes the rule (see
// Rule.Close), and lists the field in Rule.Doubts. The method Doubts collects the lists of all
// rules.
func (p *Policy) Doubts() *DoubtError {
	var all report
	for _, rules := range [][]Rule{p.Ingress, p.Egress} {
		for i := range rules {
			for _, doubt := range rules[i].Doubts {
				all.add(doubt.Field, "%s", doubt.Msg)
			}
		}
	}
	return all.doubts(p.Key())
}

// doubts returns the problems as a *DoubtError, or nil if there are none.
func (r *report) doubts(key Key) *DoubtError {
	if len(r.problems) == 0 {
		return nil
	}
	return &DoubtError{Key: key, Problems: r.problems}
}

// Admit returns the resource to enforce. Every receiver of updates calls it, so that all receivers
// enforce the same.
//
// For a deletion, Admit returns nil without an error. For an invalid resource, it returns nil and a
// *ValidationError: the resource is not enforced. There are two exceptions: policies with invalid
// rules, and profiles with the name of a built-in profile.
//
// If only rules of a policy are invalid, the policy is enforced. Admit returns a copy of the policy
// in which the invalid rules are closed, and a *DoubtError that lists what is wrong with them. A
// closed Allow or Log rule matches nothing, and any other closed rule denies everything (see
// Rule.Close). If a list has too many rules, one closed rule replaces the whole list.
//
// Admit also returns a *DoubtError if the policy has an unknown performance hint, or rules that
// were closed earlier, for example by Decode. The policy is still enforced. An unknown hint has no
// effect.
//
// If an invalid profile has the name of a built-in profile, Admit returns a profile that denies
// everything, and a *DoubtError. If it returned nil, the built-in profile would apply, and allow
// everything.
func (u Update) Admit() (Resource, error) {
	if u.Resource == nil {
		return nil, nil
	}
	r, err := u.admit()
	if _, builtin := BuiltinProfile(u.Key.Name); err == nil || !builtin || u.Key.Kind != KindProfile {
		return r, err
	}
	var invalid *ValidationError
	if errors.As(err, &invalid) {
		deny := func() []Rule { return []Rule{{Action: Deny}} }
		closed := &Profile{Name: u.Key.Name, Ingress: deny(), Egress: deny()}
		return closed, &DoubtError{Key: u.Key, Problems: invalid.Problems}
	}
	return r, err
}

// admit is Admit without the exception for built-in profiles.
func (u Update) admit() (Resource, error) {
	if err := u.validateKey(); err != nil {
		return nil, err
	}
	if p, ok := u.Resource.(*Policy); ok {
		return p.admit()
	}
	if err := u.Resource.Validate(); err != nil {
		return nil, err
	}
	return u.Resource, nil
}

func (p *Policy) admit() (Resource, error) {
	v := &validator{}
	if v.policyScope(p); len(v.problems) > 0 {
		return nil, p.Validate() // including the problems of the rules
	}
	admitted := p
	ingress, closed := admitRules("ingress", p.Ingress, ruleScope{Ingress, p.Namespace})
	egress, closedToo := admitRules("egress", p.Egress, ruleScope{Egress, p.Namespace})
	if closed || closedToo {
		c := *p
		c.Ingress, c.Egress = ingress, egress
		admitted = &c
	}
	all := report{}
	if d := admitted.Doubts(); d != nil {
		all.problems = d.Problems
	}
	v.hints(p.PerformanceHints)
	for _, problem := range v.problems {
		all.add(problem.Field, "%s", problem.Msg)
	}
	if d := all.doubts(p.Key()); d != nil {
		return admitted, d
	}
	return admitted, nil
}

// admitRules returns the rules with invalid ones closed, and reports whether any is invalid.
func admitRules(field string, rules []Rule, scope ruleScope) (admitted []Rule, closed bool) {
	v := &validator{}
	if !v.atMost(field, len(rules), maxRules) {
		return []Rule{closeAll(rules, v.problems)}, true
	}
	admitted = rules
	for i := range rules {
		v.enter(field, i)
		v.rule(&rules[i], scope)
		v.leave()
		if len(v.problems) == 0 {
			continue
		}
		if !closed {
			admitted, closed = slices.Clone(rules), true
		}
		admitted[i].Close(v.problems...)
		v.problems = nil
	}
	return admitted, closed
}

// closeAll returns the closed rule that replaces a whole list. The closed rule denies, unless all
// rules are Allow or Log.
func closeAll(rules []Rule, doubts []Problem) Rule {
	var r Rule
	if !slices.ContainsFunc(rules, func(r Rule) bool { return r.Action != Allow && r.Action != Log }) {
		r.Action = Allow
	}
	r.Close(doubts...)
	return r
}

// Close makes r a closed rule, and appends the reasons to r.Doubts, which keeps only the first few.
// Each reason is a doubt: a field that is invalid or unknown.
//
// A closed Allow or Log rule keeps its action and matches nothing. Any other closed rule, also one
// with an unknown action, gets the action Deny and denies everything at its place in the list. For
// this, Close replaces the conditions of the rule: an Allow or Log gets conditions that no packet
// satisfies, any other rule gets none. So code that evaluates the rule need not look at Doubts.
// Close keeps the metadata.
func (r *Rule) Close(doubts ...Problem) {
	c := Rule{Action: Deny, Metadata: r.Metadata, Doubts: slices.Concat(r.Doubts, doubts)}
	if len(c.Doubts) > maxDoubts {
		c.Doubts = append(c.Doubts[:maxDoubts-1:maxDoubts-1],
			Problem{Msg: "there are more problems, which are not listed"})
	}
	for i, doubt := range c.Doubts {
		c.Doubts[i] = Problem{Field: printable(doubt.Field), Msg: printable(doubt.Msg)}
	}
	if r.Action == Allow || r.Action == Log {
		c.Action = r.Action
		c.Source.NotNets = Nets{
			netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0),
		}
	}
	v := &validator{}
	if v.metadata(c.Metadata); len(v.problems) > 0 || c.Metadata != nil && len(c.Metadata.Annotations) == 0 {
		c.Metadata = nil
	}
	*r = c
}

// doubts adds a problem if a rule has Doubts, but its other fields are not as Close sets them.
func (v *validator) doubts(r *Rule) {
	if len(r.Doubts) == 0 {
		return
	}
	closed := *r
	if closed.Close(); !equal(reflect.ValueOf(r).Elem(), reflect.ValueOf(&closed).Elem()) {
		v.add("doubts", "a closed rule must be as Close makes it, with at most %d doubts", maxDoubts)
	}
}

// noDoubts refuses closed rules in a profile. A profile with an error in a rule is absent as a
// whole, so it has no closed rules.
func (v *validator) noDoubts(field string, rules []Rule) {
	for i := range rules {
		if len(rules[i].Doubts) > 0 {
			v.add(index(field, i)+".doubts", "only rules of a policy may have doubts")
		}
	}
}

// printable returns a text without unprintable characters, truncated to a maximum length.
func printable(s string) string {
	const most = 1024
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) {
			return -1
		}
		return r
	}, s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}
