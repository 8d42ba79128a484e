// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"slices"
	"strings"
	"time"
)

func (v *validator) checkChain(c *Chain) {
	if !ValidName(c.Name) {
		v.addf("not a name")
	}
	if c.Hook != nil {
		v.hook(c.Hook)
	}
	for i := range c.Rules {
		v.at = i + 1
		v.rule(&c.Rules[i])
	}
	v.at = 0
}

func (v *validator) hook(h *Hook) {
	switch {
	case h.Point > Postrouting:
		v.addf("unknown hook %d", h.Point)
	case h.Type > HookNAT:
		v.addf("unknown chain type %d", h.Type)
	case h.Type == HookRoute && h.Point != Output:
		v.addf("type route is for output")
	case h.Type == HookNAT && h.Point == Forward:
		v.addf("type nat at hook %s", h.Point)
	case h.Type != HookFilter && v.family == FamilyBridge:
		v.addf("type %s in family %s", h.Type, v.family)
	}
	if k := h.Policy; k.Chain != "" || k.Kind != Accept && k.Kind != Drop {
		v.addf("policy must be accept or drop")
	}
	if int(int32(h.Priority)) != h.Priority {
		v.addf("priority %d: want 32 bits", h.Priority)
	}
	if h.Type == HookNAT && h.Priority <= natPriorityFloor {
		v.addf("type nat with priority %d: connection tracking comes later", h.Priority)
	}
}

func (v *validator) rule(r *Rule) {
	if r.Comment != "" {
		v.comment(r.Comment)
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

// printable reports whether nft can read the string between quotation marks.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '"' {
			return false
		}
	}
	return true
}

func (v *validator) match(m Match) {
	if v.family != FamilyINet && slices.Contains(matchFields(m), NFProto) && !implied(v.family, []Match{m}, 0) {
		v.addf("%s in family %s", NFProto, v.family) // nft has no keyword for the match
	}
	v.families(matchFields(m))
	switch m := m.(type) {
	case Compare:
		v.compare(m)
	case Lookup:
		v.lookup(m.Fields, m.Set, func(s *Set) bool { return !s.Verdicts && len(s.Data) == 0 })
	case In:
		v.anonymous(m.Fields, m.Elements, false)
	case Raw:
		v.raw(m)
	default:
		v.addf("unknown match %T", m)
	}
}

// families reports fields that packets of the table's family do not have.
func (v *validator) families(fields []Field) {
	for _, f := range fields {
		if v.family != FamilyBridge && f.onlyBridge() {
			v.addf("%s in family %s", f, v.family)
		}
	}
}

func (v *validator) raw(r Raw) {
	if r.Text == "" && len(r.Expressions) == 0 {
		v.addf("neither text nor expressions")
	}
	if strings.ContainsAny(r.Text, "\n#") {
		v.addf("raw text %q: no comment or new line", r.Text)
	}
	for _, name := range r.Sets {
		if v.set(name) == nil {
			v.addf("no set %s", name)
		}
	}
	for _, name := range r.Chains {
		v.verdict(Verdict{Jump, name})
	}
}

func (v *validator) compare(m Compare) {
	t := m.Field.Type()
	switch {
	case t == 0:
		v.addf("unknown field %d", m.Field)
		return
	case m.Mask != nil:
		if len(m.Mask) != t.Size() || len(m.Value) != t.Size() || m.Last != nil || t == TypeIfname ||
			m.Field.Load().Mask != 0 {
			v.addf("%s: a mask that does not fit", m.Field)
			return
		}
		for i := range m.Mask {
			if m.Value[i]&^m.Mask[i] != 0 {
				v.addf("%s: never matches: bits outside of the mask", m.Field)
				return
			}
		}
		return
	case t == TypeIfname && len(m.Value) < IfnameSize:
		if m.Last != nil || !ValidIfname(string(m.Value)) {
			v.addf("%q cannot begin an interface name", m.Value)
		}
		return
	}
	v.checkKey(
		&Set{Key: []Type{t}, Interval: t != TypeIfname && t != TypeBool && !t.Bits()},
		&Element{Key: []Value{m.Value}, Last: m.Last},
	)
}

// fields checks the fields of a lookup.
func (v *validator) fields(fields []Field) {
	for _, f := range fields {
		if f.Type() == 0 {
			v.addf("unknown field %d", f)
		}
	}
	v.onlyCompared(fields)
	v.key(fieldTypes(fields))
}

// lookup checks that the types of the fields are those of the named set or map.
func (v *validator) lookup(fields []Field, name string, fits func(*Set) bool) {
	v.onlyCompared(fields)
	s := v.set(name)
	switch {
	case s == nil:
		v.addf("no set %s", name)
	case !fits(s):
		v.addf("%s is a %s", name, s.kindText())
	case !slices.EqualFunc(fields, s.Key, func(f Field, t Type) bool { return t != 0 && f.Type() == t }):
		v.addf("%s does not fit the key of %s (%s)", joinFunc(fields, " . ", Field.String), name, s.typeText())
	}
}

// statement checks a statement. Some kinds of statements must be the last.
func (v *validator) statement(s Statement, last bool) {
	switch s := s.(type) {
	case Verdict:
		v.last(last, s.String())
		v.verdict(s)
	case VMap:
		v.last(last, "vmap")
		v.families(s.Fields)
		if s.Map != "" {
			v.lookup(s.Fields, s.Map, func(s *Set) bool { return s.Verdicts })
			if len(s.Elements) > 0 {
				v.addf("vmap with a name and elements")
			}
			return
		}
		v.anonymous(s.Fields, s.Elements, true)
	case Log:
		if len(s.Prefix) > MaxLogPrefix || !printable(s.Prefix) || strings.Contains(s.Prefix, "$") {
			v.addf("log prefix %q: at most %d printable bytes, no quotation mark or dollar", s.Prefix, MaxLogPrefix)
		}
	case Limit:
		v.limit(s)
	case Reject:
		v.last(last, "reject")
		if s.Kind > RejectICMPX || s.Kind == RejectICMPX && s.Code > 3 ||
			(s.Kind == RejectDefault || s.Kind == RejectTCPReset) && s.Code != 0 {
			v.addf("unknown rejection %d with code %d", s.Kind, s.Code)
		}
	case NAT:
		v.last(last, "nat")
		v.nat(s)
	case Assign:
		v.assign(s)
	case FlowAdd:
		v.last(last, "flow add")
		if findFlowtable(v.flowtables, s.Flowtable) == nil {
			v.addf("no flowtable %s", s.Flowtable)
		}
	case Raw:
		v.raw(s)
	case Counter, Notrack:
	default:
		v.addf("unknown statement %T", s)
	}
}

func (v *validator) last(last bool, what string) {
	if !last {
		v.addf("%s is not the last statement", what)
	}
}

func (v *validator) limit(s Limit) {
	if s.Rate == 0 {
		v.addf("limit of zero")
	}
	if unitText(s.Per) == "" {
		v.addf("limit per %s: want a second, minute, hour, day or week", s.Per)
	}
}

func (v *validator) nat(s NAT) {
	moves := s.Kind == SNAT || s.Kind == DNAT
	switch {
	case s.Kind < SNAT || s.Kind > Redirect:
		v.addf("unknown translation %d", s.Kind)
		return
	case !moves && (s.Addr != nil || s.Map != ""):
		v.addf("%s takes no address", s.Kind)
	case moves && s.Addr == nil && s.Map == "" && s.Port == 0, s.Map != "" && (s.Addr != nil || s.Port != 0):
		v.addf("%s wants an address, a port or a map", s.Kind)
	case s.PortLast != 0 && s.Port == 0:
		v.addf("%s: the end of a range of ports without a beginning", s.Kind)
	case s.PortLast != 0 && s.PortLast < s.Port:
		v.addf("%s: the range ends before it begins", s.Kind)
	}
	family := s.Family
	if v.family != FamilyINet && family == FamilyINet {
		family = v.family
	}
	typ := TypeIPv4
	switch {
	case family == FamilyIPv6:
		typ = TypeIPv6
	case family != FamilyIPv4 && moves && (s.Addr != nil || s.Map != ""):
		v.addf("%s: the family of the address is missing", s.Kind)
		return
	}
	if s.Addr != nil {
		v.value(typ, s.Addr)
	}
	if s.Map != "" {
		v.families(s.Fields)
		v.noFib(s.Fields)
		v.lookup(s.Fields, s.Map, func(m *Set) bool {
			return slices.Equal(m.Data, []Type{typ}) || slices.Equal(m.Data, []Type{typ, TypeService})
		})
	}
}

func (v *validator) assign(s Assign) {
	switch {
	case !s.Field.assignable():
		v.addf("%s cannot be set", s.Field)
	case s.Mask != 0 && (s.From != 0 || s.Map != ""):
		v.addf("%s set with a mask", s.Field)
	case s.Mask != 0 && s.Value&^s.Mask != 0:
		v.addf("%s set %#x: bits outside of the mask", s.Field, s.Value)
	case s.From != 0 && (!s.From.assignable() || s.Map != ""):
		v.addf("%s set from %s", s.Field, s.From)
	case s.Map != "":
		v.families(s.Fields)
		v.noFib(s.Fields)
		v.lookup(s.Fields, s.Map, func(m *Set) bool { return slices.Equal(m.Data, []Type{s.Field.Type()}) })
	}
}

// assignable reports whether an Assign can set the field.
func (f Field) assignable() bool { return f == Mark || f == Priority || f == CtMark }

// onlyCompared reports fields that a rule cannot look up: see Load.Size.
func (v *validator) onlyCompared(fields []Field) {
	for _, f := range fields {
		if f.Load().Size != 0 {
			v.addf("a lookup of %s, which can only be compared", f)
		}
	}
}

// noFib reports fields that nft accepts in matches and verdict maps, but not in lookups of maps to
// values.
func (v *validator) noFib(fields []Field) {
	for _, f := range fields {
		if o := f.Load().Origin; o == FromFib || o == FromExthdr {
			v.addf("a map by %s, which nft 1.0.6 cannot express", f)
		}
	}
}

func (v *validator) verdict(k Verdict) {
	switch k.Kind {
	case Accept, Drop, Return:
		if k.Chain != "" {
			v.addf("%s with a chain", k)
		}
	case Jump, Goto:
		if c := v.chain(k.Chain); c == nil {
			v.addf("%s: no such chain", k)
		} else if c.Hook != nil {
			v.addf("%s: a base chain", k)
		}
	default:
		v.addf("unknown verdict %d", k.Kind)
	}
}

// unitText returns nft's keyword for the unit of time of a limit. It is empty if nft has none.
func unitText(per time.Duration) string {
	const day = 24 * time.Hour
	switch per {
	case 0, time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case day:
		return "day"
	case 7 * day:
		return "week"
	default:
		return ""
	}
}
