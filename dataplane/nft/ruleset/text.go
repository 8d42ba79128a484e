// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// String returns the table in nft syntax, as one "table inet name { ... }" block that nft 1.0.6
// loads. Loading it adds to a table that is already there; see ReplaceScript.
func (t *Table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table %s {\n", t.ident())
	sep := ""
	for _, s := range t.Sets {
		b.WriteString(sep)
		b.WriteString(s.String())
		sep = "\n"
	}
	for _, c := range t.Chains {
		b.WriteString(sep)
		b.WriteString(c.String())
		sep = "\n"
	}
	b.WriteString("}\n")
	return b.String()
}

// ReplaceScript returns nft commands that put the table in place of one of the same name, if
// there is one.
func (t *Table) ReplaceScript() string {
	return fmt.Sprintf("table %s\ndelete table %s\n%s", t.ident(), t.ident(), t)
}

// ident is how commands name the table.
func (t *Table) ident() string { return t.Family.String() + " " + t.Name }

// String returns the family's nft name.
func (f Family) String() string {
	if f == FamilyINet {
		return "inet"
	}
	return "?"
}

// String returns the set as a block of a table, indented by a tab.
func (s *Set) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\t%s %s {\n\t\ttype %s\n", s.keyword(), s.Name, s.typeText())
	if s.Interval {
		b.WriteString("\t\tflags interval\n")
	}
	if len(s.Elements) > 0 {
		fmt.Fprintf(&b, "\t\telements = { %s }\n", elementsText(s.Key, s.Elements, ",\n\t\t\t     "))
	}
	b.WriteString("\t}\n")
	return b.String()
}

// keyword is "set" or "map".
func (s *Set) keyword() string {
	if s.Verdicts {
		return "map"
	}
	return "set"
}

// typeText is the set's type as nft writes it.
func (s *Set) typeText() string {
	text := joinFunc(s.Key, " . ", Type.String)
	if s.Verdicts {
		text += " : verdict"
	}
	return text
}

// String returns the chain as a block of a table, indented by a tab.
func (c *Chain) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\tchain %s {\n", c.Name)
	if c.Hook != nil {
		fmt.Fprintf(&b, "\t\t%s\n", c.Hook)
	}
	for _, r := range c.Rules {
		fmt.Fprintf(&b, "\t\t%s\n", r)
	}
	b.WriteString("\t}\n")
	return b.String()
}

// String returns the hook as nft writes it, policy included.
func (h *Hook) String() string {
	return fmt.Sprintf("type filter hook %s priority %s; policy %s;", h.Point, priorityText(h.Priority), h.Policy)
}

// priorityText writes a priority the way nft lists it: relative to "filter" where it is near.
func priorityText(p int) string {
	switch {
	case p == 0:
		return "filter"
	case p > 0 && p <= 10:
		return fmt.Sprintf("filter + %d", p)
	case p < 0 && p >= -10:
		return fmt.Sprintf("filter - %d", -p)
	default:
		return strconv.Itoa(p)
	}
}

// String returns the hook's nft name.
func (p HookPoint) String() string {
	switch p {
	case Prerouting:
		return "prerouting"
	case Input:
		return "input"
	case Forward:
		return "forward"
	case Output:
		return "output"
	case Postrouting:
		return "postrouting"
	default:
		return "?"
	}
}

// String returns the rule in nft syntax. Matches that nft derives from the one that follows
// are left out, as nft itself does on listing.
func (r Rule) String() string {
	var words []string
	for i, m := range r.Matches {
		if !implied(r.Matches[i:]) {
			words = append(words, matchText(m, transport(r.Matches[:i])))
		}
	}
	for _, s := range r.Statements {
		words = append(words, statementText(s))
	}
	if r.Comment != "" {
		words = append(words, "comment "+quote(r.Comment))
	}
	return strings.Join(words, " ")
}

// implied reports whether nft generates the first match by itself because of those after it.
func implied(ms []Match) bool {
	family, ok := equals(ms[0], NFProto)
	if ok {
		next, more := firstField(ms[1:])
		switch {
		case !more:
			return false
		case next == IPSaddr || next == IPDaddr:
			return family == NFProtoIPv4
		case next == IP6Saddr || next == IP6Daddr:
			return family == NFProtoIPv6
		case next == L4Proto && implied(ms[1:]):
			proto, _ := equals(ms[1], L4Proto)
			return proto == 1 && family == NFProtoIPv4 || proto == 58 && family == NFProtoIPv6
		}
		return false
	}
	proto, ok := equals(ms[0], L4Proto)
	if !ok {
		return false
	}
	next, _ := firstField(ms[1:])
	switch next {
	case Sport, Dport:
		return transportKeyword(proto) != ""
	case ICMPType, ICMPCode:
		return proto == 1
	case ICMPv6Type, ICMPv6Code:
		return proto == 58
	default:
		return false
	}
}

// equals returns the one-byte value that the match demands of the field.
func equals(m Match, f Field) (uint8, bool) {
	c, ok := m.(Compare)
	if !ok || c.Field != f || c.Not || c.Last != nil || len(c.Value) != 1 {
		return 0, false
	}
	return c.Value[0], true
}

// firstField returns the field that the first of the matches looks at first.
func firstField(ms []Match) (Field, bool) {
	if len(ms) == 0 {
		return 0, false
	}
	fields := MatchFields(ms[0])
	if len(fields) == 0 {
		return 0, false
	}
	return fields[0], true
}

// MatchFields returns the fields that a match looks at, in order.
func MatchFields(m Match) []Field {
	switch m := m.(type) {
	case Compare:
		return []Field{m.Field}
	case Lookup:
		return m.Fields
	case In:
		return m.Fields
	default:
		return nil
	}
}

// transport returns the keyword that stands for "th" after these matches: "tcp" where
// one of them demands TCP, and so on; empty if none does.
func transport(ms []Match) string {
	for _, m := range slices.Backward(ms) {
		if proto, ok := equals(m, L4Proto); ok {
			return transportKeyword(proto)
		}
	}
	return ""
}

func transportKeyword(proto uint8) string {
	switch proto {
	case 6:
		return "tcp"
	case 17:
		return "udp"
	case 132:
		return "sctp"
	default:
		return ""
	}
}

// matchText writes a match; th replaces "th" before a port unless it is empty.
func matchText(m Match, th string) string {
	switch m := m.(type) {
	case Compare:
		return fieldText(m.Field, th) + " " + notText(m.Not, "") + compareText(m)
	case Lookup:
		return fieldsText(m.Fields, th) + " " + notText(m.Not, "") + "@" + m.Set
	case In:
		return fieldsText(m.Fields, th) + " " + notText(m.Not, "") + "{ " + elementsText(fieldTypes(m.Fields), m.Elements, ", ") + " }"
	default:
		return "?"
	}
}

func notText(not bool, otherwise string) string {
	if not {
		return "!= "
	}
	return otherwise
}

// compareText writes what a Compare compares with.
func compareText(m Compare) string {
	if m.Field.Type() == TypeIfname && len(m.Value) < IfnameSize {
		return quote(escapeIfname(string(m.Value)) + "*")
	}
	return rangeText(m.Field.Type(), m.Value, m.Last)
}

func fieldText(f Field, th string) string {
	if th != "" && (f == Sport || f == Dport) {
		return th + strings.TrimPrefix(f.String(), "th")
	}
	return f.String()
}

// fieldsText writes a concatenation. Inside one of several fields nft wants "th".
func fieldsText(fs []Field, th string) string {
	if len(fs) == 1 {
		return fieldText(fs[0], th)
	}
	return joinFunc(fs, " . ", Field.String)
}

func fieldTypes(fs []Field) []Type {
	types := make([]Type, len(fs))
	for i, f := range fs {
		types[i] = f.Type()
	}
	return types
}

func statementText(s Statement) string {
	switch s := s.(type) {
	case Verdict:
		return s.String()
	case VMap:
		if s.Map != "" {
			return fieldsText(s.Fields, "") + " vmap @" + s.Map
		}
		return fieldsText(s.Fields, "") + " vmap { " + elementsText(fieldTypes(s.Fields), s.Elements, ", ") + " }"
	case Log:
		if s.Prefix == "" {
			return "log"
		}
		return "log prefix " + quote(s.Prefix)
	case Counter:
		return "counter"
	default:
		return "?"
	}
}

// String returns the verdict in nft syntax.
func (v Verdict) String() string {
	switch v.Kind {
	case Accept:
		return "accept"
	case Drop:
		return "drop"
	case Return:
		return "return"
	case Jump:
		return "jump " + v.Chain
	case Goto:
		return "goto " + v.Chain
	default:
		return "?"
	}
}
