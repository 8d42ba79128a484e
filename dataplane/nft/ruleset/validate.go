// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The kernel's limits, and those that nft adds.
const (
	// MaxName is the longest name of a table, chain or set in bytes.
	MaxName = 255
	// MaxComment is the longest comment in bytes.
	MaxComment = 128
	// MaxLogPrefix is the longest log prefix in bytes.
	MaxLogPrefix = 127
	// MaxDepth is how many jumps and gotos may follow one another from a base chain.
	MaxDepth = 15
	// maxKey is the longest key in bytes, each part of a concatenation filled up to four.
	maxKey = 64
)

// Validate reports whether the kernel and nft would take the table: every name legal and unique,
// every reference met, keys of the right size, elements distinct and ranges disjoint,
// verdicts in the last place, no loop of jumps. Errors: a join of one error a problem.
func (t *Table) Validate() error {
	v := &validator{sets: map[string]*Set{}, chains: map[string]*Chain{}}
	if !ValidName(t.Name) {
		v.addf("table %q: not a name", t.Name)
	}
	if t.Family != FamilyINet {
		v.addf("table %q: unknown family %d", t.Name, t.Family)
	}
	for _, s := range t.Sets {
		if v.sets[s.Name] != nil {
			v.addf("set %s: occurs twice", s.Name)
		}
		v.sets[s.Name] = s
	}
	for _, c := range t.Chains {
		if v.chains[c.Name] != nil {
			v.addf("chain %s: occurs twice", c.Name)
		}
		v.chains[c.Name] = c
	}
	for _, s := range t.Sets {
		v.in("set "+s.Name, func() { v.set(s) })
	}
	for _, c := range t.Chains {
		v.in("chain "+c.Name, func() { v.chain(c) })
	}
	v.loops(t.Chains)
	return errors.Join(v.errs...)
}

// ValidName reports whether nft takes the string as the name of a table, chain or set: a letter, then
// letters, digits and "/-_.", at most MaxName bytes, not a word of nft's own that could stand in its place.
func ValidName(name string) bool {
	if name == "" || len(name) > MaxName || !isLetter(name[0]) || isKeyword(name) {
		return false
	}
	for i := range len(name) {
		if c := name[i]; !isLetter(c) && (c < '0' || c > '9') && !strings.ContainsRune("/-_.", rune(c)) {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// isKeyword knows the common words of nft's language.
func isKeyword(name string) bool {
	const keywords = " accept add ah all and arp at bridge bytes chain chains comment comp continue counter counters create ct" +
		" day dccp delete describe destroy device devices drop dup elements ether exists exthdr fib flags flow flowtable" +
		" flush fwd get goto handle hook hour ibrname ibridgename icmp icmpv6 igmp iif iifname iifgroup iiftype import" +
		" include index inet insert interface ip ip6 ipsec jhash jump limit list log map mark masquerade meta missing" +
		" monitor netdev nat not notrack numgen oif oifname oifgroup oiftype or osf over packets policy position priority" +
		" queue quota redefine redirect reject rename replace reset return rule ruleset sctp secmark set sets size skuid" +
		" snat dnat socket symhash synproxy table tables tcp th timeout to tproxy type typeof udp udplite undefine define" +
		" until update vlan vmap xor xt "
	return strings.Contains(keywords, " "+name+" ")
}

// validator collects problems, each with the place it was found in.
type validator struct {
	sets   map[string]*Set
	chains map[string]*Chain
	where  []string
	errs   []error
}

func (v *validator) addf(format string, args ...any) {
	place := strings.Join(v.where, ": ")
	if place != "" {
		place += ": "
	}
	v.errs = append(v.errs, errors.New("ruleset: "+place+fmt.Sprintf(format, args...)))
}

// in runs a check with the place on record.
func (v *validator) in(place string, check func()) {
	v.where = append(v.where, place)
	check()
	v.where = v.where[:len(v.where)-1]
}

func (v *validator) set(s *Set) {
	if !ValidName(s.Name) {
		v.addf("not a name")
	}
	if s.Interval && len(s.Key) != 1 {
		v.addf("intervals of a concatenation are not supported")
	}
	v.key(s.Key)
	v.elements(s.Key, s.Elements, s.Interval, s.Verdicts)
}

// key checks the types of a set's key.
func (v *validator) key(key []Type) {
	if len(key) == 0 {
		v.addf("no key")
	}
	size := 0
	for _, t := range key {
		if t.Size() == 0 {
			v.addf("unknown type %d", t)
		}
		size += (t.Size() + 3) / 4 * 4
	}
	if size > maxKey {
		v.addf("key of %d bytes, at most %d", size, maxKey)
	}
}

// elements checks the elements of a set, named or anonymous.
func (v *validator) elements(key []Type, elements []Element, ranges, verdicts bool) {
	for _, e := range elements {
		if !v.element(key, e, ranges) {
			return // ordering what is ill-formed would only add confusion
		}
		switch {
		case verdicts && e.Verdict == nil:
			v.addf("element %s: no verdict", elementText(key, e))
		case !verdicts && e.Verdict != nil:
			v.addf("element %s: a verdict in a set", elementText(key, e))
		case verdicts:
			v.verdict(*e.Verdict)
		}
	}
	sorted := elements
	if !slices.IsSortedFunc(elements, CompareElements) {
		sorted = slices.SortedFunc(slices.Values(elements), CompareElements)
	}
	for i := 1; i < len(sorted); i++ {
		a, b := sorted[i-1], sorted[i]
		end := a.Last
		if end == nil || len(key) != 1 {
			end = a.Key[0]
		}
		overlap := len(key) == 1 && bytes.Compare(end, b.Key[0]) >= 0
		if overlap || slices.EqualFunc(a.Key, b.Key, equalValue) {
			v.addf("elements %s and %s overlap", elementText(key, a), elementText(key, b))
		}
	}
}

// element checks the form of one element.
func (v *validator) element(key []Type, e Element, ranges bool) bool {
	before := len(v.errs)
	if len(e.Key) != len(key) {
		v.addf("element with %d parts, want %d", len(e.Key), len(key))
		return false
	}
	for i, value := range e.Key {
		v.value(key[i], value)
	}
	if e.Last == nil {
		return len(v.errs) == before
	}
	switch {
	case !ranges || len(key) != 1:
		v.addf("element %s: a range where none may be", elementText(key, e))
	case len(e.Last) != key[0].Size() || bytes.Compare(e.Key[0], e.Last) > 0:
		v.addf("element %s: the range ends before it begins", elementText(key, e))
	}
	return len(v.errs) == before
}

func (v *validator) value(t Type, value Value) {
	if len(value) != t.Size() {
		v.addf("%s of %d bytes, want %d", t, len(value), t.Size())
		return
	}
	if t == TypeIfname && (value[IfnameSize-1] != 0 || !ValidIfname(ifnameString(value))) {
		v.addf("%q is no interface name", ifnameString(value))
	}
}

// ValidIfname reports whether the kernel would take the string as the name of an interface.
func ValidIfname(name string) bool {
	if name == "" || len(name) >= IfnameSize || name == "." || name == ".." {
		return false
	}
	for i := range len(name) {
		switch name[i] {
		case 0, '/', ':', ' ', '\t', '\n', '\v', '\f', '\r', 0xa0: // 0xa0: the kernel's isspace is Latin-1
			return false
		}
	}
	return true
}

func (v *validator) chain(c *Chain) {
	if !ValidName(c.Name) {
		v.addf("not a name")
	}
	if c.Hook != nil {
		if c.Hook.Point > Postrouting {
			v.addf("unknown hook %d", c.Hook.Point)
		}
		if k := c.Hook.Policy; k.Chain != "" || k.Kind != Accept && k.Kind != Drop {
			v.addf("policy must be accept or drop")
		}
	}
	for i, r := range c.Rules {
		v.in(fmt.Sprintf("rule %d", i+1), func() { v.rule(r) })
	}
}

func (v *validator) rule(r Rule) {
	if len(r.Comment) > MaxComment || !printable(r.Comment) {
		v.addf("comment %q: at most %d printable bytes, no quotation mark", r.Comment, MaxComment)
	}
	for _, m := range r.Matches {
		v.match(m)
	}
	if len(r.Statements) == 0 {
		v.addf("no statement")
	}
	for i, s := range r.Statements {
		v.statement(s, i == len(r.Statements)-1)
	}
}

// printable reports whether nft can read the string back from between quotation marks.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '"' {
			return false
		}
	}
	return true
}

func (v *validator) match(m Match) {
	switch m := m.(type) {
	case Compare:
		v.compare(m)
	case Lookup:
		v.lookup(m.Fields, m.Set, false)
	case In:
		v.key(fieldTypes(m.Fields))
		if len(m.Elements) == 0 {
			v.addf("empty anonymous set")
		}
		v.elements(fieldTypes(m.Fields), m.Elements, true, false)
	default:
		v.addf("unknown match %T", m)
	}
}

func (v *validator) compare(m Compare) {
	t := m.Field.Type()
	switch {
	case t == 0:
		v.addf("unknown field %d", m.Field)
	case t == TypeIfname && len(m.Value) < IfnameSize:
		if m.Last != nil || !ValidIfname(string(m.Value)) {
			v.addf("%q is no beginning of an interface name", m.Value)
		}
	default:
		v.element([]Type{t}, Element{Key: []Value{m.Value}, Last: m.Last}, t != TypeIfname && t != TypeCtState)
	}
}

// lookup checks that the fields fit the named set or map.
func (v *validator) lookup(fields []Field, name string, verdicts bool) {
	s := v.sets[name]
	switch {
	case s == nil:
		v.addf("no set %s", name)
	case s.Verdicts != verdicts:
		v.addf("%s is a %s", name, s.keyword())
	case !slices.Equal(fieldTypes(fields), s.Key):
		v.addf("%s does not fit the key of %s (%s)", joinFunc(fields, " . ", Field.String), name, s.typeText())
	}
}

func (v *validator) statement(s Statement, last bool) {
	switch s := s.(type) {
	case Verdict:
		if !last {
			v.addf("%s is not the last statement", s)
		}
		v.verdict(s)
	case VMap:
		if !last {
			v.addf("vmap is not the last statement")
		}
		if s.Map != "" {
			v.lookup(s.Fields, s.Map, true)
			return
		}
		v.key(fieldTypes(s.Fields))
		if len(s.Elements) == 0 {
			v.addf("empty anonymous map")
		}
		v.elements(fieldTypes(s.Fields), s.Elements, true, true)
	case Log:
		if len(s.Prefix) > MaxLogPrefix || !printable(s.Prefix) || strings.Contains(s.Prefix, "$") {
			v.addf("log prefix %q: at most %d printable bytes, no quotation mark or dollar", s.Prefix, MaxLogPrefix)
		}
	case Counter:
	default:
		v.addf("unknown statement %T", s)
	}
}

func (v *validator) verdict(k Verdict) {
	switch k.Kind {
	case Accept, Drop, Return:
		if k.Chain != "" {
			v.addf("%s with a chain", k)
		}
	case Jump, Goto:
		if c := v.chains[k.Chain]; c == nil {
			v.addf("%s: no such chain", k)
		} else if c.Hook != nil {
			v.addf("%s: a base chain", k)
		}
	default:
		v.addf("unknown verdict %d", k.Kind)
	}
}

// loops finds circles of jumps and chains of them that are too long for the kernel.
func (v *validator) loops(chains []*Chain) {
	depth := map[string]int{} // jumps below the chain; -1 while on the way
	var walk func(c *Chain) int
	walk = func(c *Chain) int {
		if d, seen := depth[c.Name]; seen {
			if d < 0 {
				v.addf("chain %s: leads back to itself", c.Name)
				return 0
			}
			return d
		}
		depth[c.Name] = -1
		deepest := 0
		for _, name := range v.targets(c) {
			if next := v.chains[name]; next != nil {
				deepest = max(deepest, 1+walk(next))
			}
		}
		depth[c.Name] = deepest
		return deepest
	}
	for _, c := range chains {
		if walk(c) > MaxDepth && c.Hook != nil {
			v.addf("chain %s: more than %d jumps deep", c.Name, MaxDepth)
		}
	}
}

// targets returns the chains that the chain's rules go to, through maps too.
func (v *validator) targets(c *Chain) []string {
	var names []string
	for _, r := range c.Rules {
		for _, s := range r.Statements {
			switch s := s.(type) {
			case Verdict:
				names = append(names, s.Chain)
			case VMap:
				elements := s.Elements
				if m := v.sets[s.Map]; m != nil {
					elements = m.Elements
				}
				for _, e := range elements {
					if e.Verdict != nil {
						names = append(names, e.Verdict.Chain)
					}
				}
			}
		}
	}
	return names
}
