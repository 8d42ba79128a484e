// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// tableMaker makes random tables whose rules match packets of randomFlow.
type tableMaker struct {
	rng   *rand.Rand
	table *ruleset.Table
	// path is the path of the packets. Only some paths have rules that need connection tracking,
	// which reassembles fragments.
	path path
	hook *ruleset.Hook // of the base chain being made
	next int           // of comments
}

// randomTable returns a table with base chains at the points of the path.
func randomTable(rng *rand.Rand, p path) *ruleset.Table {
	m := &tableMaker{rng: rng, table: &ruleset.Table{Name: "sim"}, path: p}
	const plain = 6
	for i := range plain { // each chain leads only to later ones
		m.chain(&ruleset.Chain{Name: fmt.Sprintf("c%d", i)}, i+1, plain)
	}
	for _, point := range p.points {
		for i := range 1 + rng.IntN(3) {
			hook := &ruleset.Hook{
				Point: point, Priority: []int{-150, 0, 0, 10, 50}[rng.IntN(5)], Policy: verdict(ruleset.Accept),
			}
			if early(point) && rng.IntN(3) == 0 {
				hook.Priority = -300
			}
			if rng.IntN(6) == 0 {
				hook.Policy = verdict(ruleset.Drop)
			}
			m.chain(&ruleset.Chain{Name: fmt.Sprintf("b-%s-%d", point, i), Hook: hook}, 0, plain)
		}
		if p.translating && (point == ruleset.Prerouting || point == ruleset.Postrouting) {
			for i := range 1 + rng.IntN(2) {
				hook := &ruleset.Hook{
					Type: ruleset.HookNAT, Point: point, Priority: rng.IntN(40), Policy: verdict(ruleset.Accept),
				}
				m.chain(&ruleset.Chain{Name: fmt.Sprintf("n-%s-%d", point, i), Hook: hook}, 0, plain)
			}
		}
	}
	m.table.Normalize()
	return m.table
}

// early reports whether the hook has priorities before connection tracking.
func early(point ruleset.HookPoint) bool {
	return point == ruleset.Prerouting || point == ruleset.Output
}

// chain fills the chain with rules that lead to plain chains from first to last, and adds it.
func (m *tableMaker) chain(c *ruleset.Chain, first, last int) {
	m.hook = c.Hook
	for range 2 + m.rng.IntN(7) {
		c.Rules = append(c.Rules, m.rule(first, last))
	}
	m.table.Chains = append(m.table.Chains, c)
}

func (m *tableMaker) rule(first, last int) (r ruleset.Rule) {
	m.next++
	r.Comment = fmt.Sprintf("r%d", m.next)
	var s scope
	s, r.Matches = m.scope()
	for range m.rng.IntN(3) {
		r.Matches = append(r.Matches, m.match(s))
	}
	for range m.rng.IntN(3) {
		r.Statements = append(r.Statements, m.statement())
	}
	switch n := m.rng.IntN(20); {
	case m.hook != nil && m.hook.Type == ruleset.HookNAT && s.nfproto != 0 && n < 12:
		r.Statements = append(r.Statements, m.nat(s))
	case m.hook != nil && m.hook.Point == ruleset.Forward && n == 0:
		r.Statements = append(r.Statements, ruleset.Reject{})
	case n < 4:
		r.Statements = append(r.Statements, m.vmap(s, first, last))
	default:
		if v := m.verdict(first, last); v.Kind != 0 {
			r.Statements = append(r.Statements, v)
		}
	}
	if len(r.Statements) == 0 {
		r.Statements = append(r.Statements, ruleset.Counter{})
	}
	return r
}

// statement returns a random statement other than a verdict.
func (m *tableMaker) statement() ruleset.Statement {
	group := uint16(7)
	of := []ruleset.Statement{
		ruleset.Counter{},
		ruleset.Log{Group: &group, Prefix: "x"},
		ruleset.Limit{Rate: 1_000_000, Burst: 1_000_000},
		ruleset.Limit{Rate: 1_000_000, Burst: 1_000_000, Over: true},
		ruleset.Assign{Field: ruleset.Mark, Value: someMark(m.rng)},
		ruleset.Assign{Field: ruleset.Mark, Value: 0x100, Mask: 0xf00},
		ruleset.Assign{Field: ruleset.Priority, Value: m.rng.Uint32N(3)},
		ruleset.Assign{Field: ruleset.Mark, Fields: []ruleset.Field{ruleset.Dport}, Map: m.marks()},
	}
	if m.path.tracking && m.hook != nil && early(m.hook.Point) {
		of = append(of, ruleset.Notrack{})
	}
	return of[m.rng.IntN(len(of))]
}

// marks adds a map from ports to marks and returns its name.
func (m *tableMaker) marks() string {
	s := &ruleset.Set{
		Name: fmt.Sprintf("s%d", len(m.table.Sets)), Key: []ruleset.Type{ruleset.TypeService},
		Data: []ruleset.Type{ruleset.TypeMark},
	}
	for _, port := range []uint16{53, 80, 1000} {
		s.Elements = append(s.Elements, ruleset.Element{
			Key: []ruleset.Value{ruleset.Port(port)}, Data: []ruleset.Value{ruleset.Uint32(someMark(m.rng))},
		})
	}
	m.table.Sets = append(m.table.Sets, s)
	return s.Name
}

// nat returns a translation to a single address and port.
func (m *tableMaker) nat(s scope) ruleset.NAT {
	n := ruleset.NAT{Kind: ruleset.SNAT, Family: ruleset.FamilyIPv4}
	if s.nfproto == ruleset.NFProtoIPv6 {
		n.Family = ruleset.FamilyIPv6
	}
	to := someAddr(m.rng, s.nfproto == ruleset.NFProtoIPv6)
	if m.hook.Point == ruleset.Prerouting {
		n.Kind = ruleset.DNAT
		if m.rng.IntN(3) == 0 {
			to = local4
			if n.Family == ruleset.FamilyIPv6 {
				to = local6
			}
		}
	}
	n.Addr = ruleset.Addr(to)
	if (s.protocol == tcp || s.protocol == udp) && m.rng.IntN(2) == 0 {
		n.Port = 8080
	}
	return n
}

// verdict returns a random verdict, or none. Few verdicts end the packet's path.
func (m *tableMaker) verdict(first, last int) ruleset.Verdict {
	target := ""
	if first < last {
		target = fmt.Sprintf("c%d", first+m.rng.IntN(last-first))
	}
	switch n := m.rng.IntN(20); {
	case n < 7 && target != "":
		return ruleset.Verdict{Kind: ruleset.Jump, Chain: target}
	case n < 9 && target != "":
		return ruleset.Verdict{Kind: ruleset.Goto, Chain: target}
	case n < 11:
		return verdict(ruleset.Return)
	case n == 11:
		return verdict(ruleset.Accept)
	case n == 12:
		return verdict(ruleset.Drop)
	default:
		return ruleset.Verdict{}
	}
}

// choice is a field, and values for it.
type choice struct {
	field ruleset.Field
	value func() ruleset.Value
}

// scope is the family and protocol to which a rule is limited. They determine the fields that it
// can use. 0 is no limit.
type scope struct{ nfproto, protocol uint8 }

func (m *tableMaker) scope() (s scope, matches []ruleset.Match) {
	s = []scope{
		{},
		{},
		{protocol: tcp},
		{protocol: udp},
		{nfproto: ruleset.NFProtoIPv4},
		{nfproto: ruleset.NFProtoIPv6},
		{ruleset.NFProtoIPv4, tcp},
		{ruleset.NFProtoIPv6, udp},
		{ruleset.NFProtoIPv4, icmp4},
		{ruleset.NFProtoIPv6, icmp6},
	}[m.rng.IntN(10)]
	if s.nfproto != 0 {
		matches = append(matches, ruleset.Compare{Field: ruleset.NFProto, Value: ruleset.Byte(s.nfproto)})
	}
	if s.protocol != 0 {
		matches = append(matches, ruleset.Compare{Field: ruleset.L4Proto, Value: ruleset.Byte(s.protocol)})
	}
	return s, matches
}

// fields returns the fields for a rule of the scope. If the protocol is not limited, ports are
// bytes of any transport header.
func (m *tableMaker) fields(s scope) []choice {
	port := func() ruleset.Value { return ruleset.Port(somePort(m.rng)) }
	address := func() ruleset.Value { return ruleset.Addr(someAddr(m.rng, s.nfproto == ruleset.NFProtoIPv6)) }
	among := func(of ...uint8) func() ruleset.Value {
		return func() ruleset.Value { return ruleset.Byte(of[m.rng.IntN(len(of))]) }
	}
	name := func() ruleset.Value { return ruleset.Ifname([]string{"wan0", "wan1", "lan0", "none"}[m.rng.IntN(4)]) }
	all := []choice{{ruleset.IIFName, name}, {ruleset.OIFName, name}}
	switch s.nfproto {
	case 0:
		all = append(all, choice{ruleset.NFProto, among(ruleset.NFProtoIPv4, ruleset.NFProtoIPv6)})
	case ruleset.NFProtoIPv4:
		all = append(all, choice{ruleset.IPSaddr, address}, choice{ruleset.IPDaddr, address}, choice{
			ruleset.IPDSCP, among(0, 23, 46),
		})
	default:
		all = append(all, choice{ruleset.IP6Saddr, address}, choice{ruleset.IP6Daddr, address},
			choice{ruleset.IP6DSCP, among(0, 23, 46)})
	}
	all = append(all,
		choice{ruleset.Mark, func() ruleset.Value { return ruleset.Uint32(someMark(m.rng)) }},
		choice{ruleset.Priority, func() ruleset.Value { return ruleset.Uint32(m.rng.Uint32N(3)) }},
	)
	if !m.path.translating { // the simulator does not update routing facts after translation
		all = append(all, choice{
			ruleset.FibDaddrType, func() ruleset.Value { return ruleset.Uint32(1 + m.rng.Uint32N(3)) },
		})
	}
	switch s.protocol {
	case 0:
		all = append(all, choice{ruleset.L4Proto, among(tcp, udp, icmp4, icmp6, sctp, portless)})
		fallthrough
	case tcp, udp:
		all = append(all, choice{ruleset.Sport, port}, choice{ruleset.Dport, port})
		if s.protocol == tcp {
			all = append(all, choice{ruleset.TCPFlags, among(flagSyn, flagAck, flagSyn|flagAck, flagFin)})
		}
	case icmp4:
		all = append(all, choice{ruleset.ICMPType, among(0, 8, 13)}, choice{ruleset.ICMPCode, among(0, 1, 2)})
	default:
		all = append(all, choice{ruleset.ICMPv6Type, among(128, 129, 135)}, choice{ruleset.ICMPv6Code, among(0, 1, 2)})
	}
	if m.path.tracking {
		all = append(all, m.tracked(s)...)
	}
	return all
}

// tracked returns the fields of connections.
func (m *tableMaker) tracked(s scope) []choice {
	port := func() ruleset.Value { return ruleset.Port(somePort(m.rng)) }
	address := func() ruleset.Value { return ruleset.Addr(someAddr(m.rng, s.nfproto == ruleset.NFProtoIPv6)) }
	all := []choice{
		{ruleset.CtState, func() ruleset.Value { return ruleset.Uint32([]uint32{1, 2, 8, 64}[m.rng.IntN(4)]) }},
		{ruleset.CtStatus, func() ruleset.Value { return ruleset.Uint32([]uint32{2, 4, 8, 16, 32}[m.rng.IntN(5)]) }},
		{ruleset.CtDirection, func() ruleset.Value { return ruleset.Byte(uint8(m.rng.IntN(2))) }},
	}
	if s.protocol != 0 {
		all = append(all, choice{ruleset.CtOriginalDport, port})
	}
	switch s.nfproto {
	case ruleset.NFProtoIPv4:
		all = append(all, choice{ruleset.CtOriginalSaddr, address}, choice{ruleset.CtOriginalDaddr, address},
			choice{ruleset.CtReplySaddr, address}, choice{ruleset.CtReplyDaddr, address})
	case ruleset.NFProtoIPv6:
		all = append(all, choice{ruleset.CtOriginalSaddr6, address}, choice{ruleset.CtOriginalDaddr6, address},
			choice{ruleset.CtReplySaddr6, address}, choice{ruleset.CtReplyDaddr6, address})
	}
	return all
}

func (m *tableMaker) field(s scope) choice {
	all := m.fields(s)
	return all[m.rng.IntN(len(all))]
}

// match returns a match for a rule of the scope.
func (m *tableMaker) match(s scope) ruleset.Match {
	not := m.rng.IntN(4) == 0
	if m.rng.IntN(3) == 0 {
		fields, choices := m.concatenation(s)
		elements := m.elements(fields, choices, false, 0, 0)
		// nft compiles a set of one element to a comparison, and a comparison of bits differs from
		// a lookup.
		bits := len(fields) == 1 && fields[0].Type().Bits()
		if !bits && m.rng.IntN(2) == 0 {
			return ruleset.In{Fields: fields, Not: not, Elements: elements}
		}
		return ruleset.Lookup{Fields: fields, Not: not, Set: m.set(fields, elements, false)}
	}
	f := m.field(s)
	c := ruleset.Compare{Field: f.field, Not: not, Value: f.value()}
	typ := f.field.Type()
	switch {
	case typ == ruleset.TypeIfname && m.rng.IntN(2) == 0:
		c.Value = ruleset.IfnamePrefix([]string{"w", "wan", "lan0", "x"}[m.rng.IntN(4)])
	case typ == ruleset.TypeCtState && !not && m.rng.IntN(2) == 0:
		c.Value = ruleset.Uint32([]uint32{3, 10, 72}[m.rng.IntN(3)])
	case (ranged(typ) || typ == ruleset.TypeDSCP) && m.rng.IntN(3) == 0:
		c.Value, c.Last = m.span(f)
	case typ == ruleset.TypeMark && m.rng.IntN(2) == 0:
		c.Value, c.Mask = ruleset.Uint32(m.rng.Uint32N(2)), ruleset.Uint32(0xff)
	case typ == ruleset.TypeTCPFlag && m.rng.IntN(2) == 0:
		c.Value, c.Mask = ruleset.Byte(flagSyn), ruleset.Byte(flagSyn|flagAck|flagRst)
	}
	return c
}

func ranged(t ruleset.Type) bool {
	return t == ruleset.TypeIPv4 || t == ruleset.TypeIPv6 || t == ruleset.TypeService
}

// span returns a range that is not empty.
func (m *tableMaker) span(f choice) (first, last ruleset.Value) {
	for {
		first, last = f.value(), f.value()
		switch c := slices.Compare(first, last); {
		case c < 0:
			return first, last
		case c > 0:
			return last, first
		}
	}
}

// joins reports whether nft 1.0.6 can read the field in a concatenation. It cannot read fields
// without a type of their own, nor lists of flags.
func joins(f ruleset.Field) bool {
	return f != ruleset.TCPFlags && (f.Load().Origin != ruleset.FromCt || f.Type() != ruleset.TypeService)
}

// concatenation returns one to three different fields.
func (m *tableMaker) concatenation(s scope) (fields []ruleset.Field, choices []choice) {
	for range 1 + m.rng.IntN(3) {
		f := m.field(s)
		for f.field.Load().Size != 0 { // these fields only support comparisons
			f = m.field(s)
		}
		if len(fields) == 0 || joins(fields[0]) && joins(f.field) && !slices.Contains(fields, f.field) {
			fields, choices = append(fields, f.field), append(choices, f)
		}
	}
	return fields, choices
}

// elements returns disjoint elements, some of them ranges.
func (m *tableMaker) elements(fields []ruleset.Field, key []choice, verdicts bool, first, last int) []ruleset.Element {
	var out []ruleset.Element
	// nft 1.0.6 adds numbers in host byte order to a set with ranges in one byte order, and looks
	// them up in the other.
	ranges := m.rng.IntN(2) == 0 &&
		slices.ContainsFunc(fields, func(f ruleset.Field) bool { return ranged(f.Type()) }) &&
		!slices.ContainsFunc(
			fields, func(f ruleset.Field) bool { return f.Type().HostOrder() && f.Type() != ruleset.TypeIfname },
		)
	for range 1 + m.rng.IntN(5) {
		e, ends := ruleset.Element{}, []ruleset.Value{}
		for _, f := range key {
			v := f.value()
			end := v
			if ranges && ranged(f.field.Type()) && m.rng.IntN(2) == 0 {
				v, end = m.span(f)
			}
			e.Key, ends = append(e.Key, v), append(ends, end)
		}
		switch {
		case ranges && len(key) > 1:
			e.Ends = ends
		case ranges && slices.Compare(e.Key[0], ends[0]) != 0:
			e.Last = ends[0]
		}
		if slices.ContainsFunc(out, func(o ruleset.Element) bool { return elementsOverlap(o, e) }) {
			continue
		}
		if verdicts {
			v := m.verdict(first, last)
			if v.Kind == 0 {
				v = verdict(ruleset.Return)
			}
			e.Verdict = &v
		}
		out = append(out, e)
	}
	slices.SortFunc(out, ruleset.CompareElements)
	return out
}

// elementsOverlap reports whether two elements overlap.
func elementsOverlap(a, b ruleset.Element) bool {
	end := func(e ruleset.Element, i int) ruleset.Value {
		switch {
		case e.Ends != nil:
			return e.Ends[i]
		case e.Last != nil:
			return e.Last
		default:
			return e.Key[i]
		}
	}
	for i := range a.Key {
		if slices.Compare(end(a, i), b.Key[i]) < 0 || slices.Compare(end(b, i), a.Key[i]) < 0 {
			return false
		}
	}
	return true
}

// set adds a named set of the elements and returns its name.
func (m *tableMaker) set(fields []ruleset.Field, elements []ruleset.Element, verdicts bool) string {
	s := &ruleset.Set{Name: fmt.Sprintf("s%d", len(m.table.Sets)), Verdicts: verdicts, Elements: elements}
	for _, f := range fields {
		s.Key = append(s.Key, f.Type())
	}
	s.Interval = slices.ContainsFunc(elements, func(e ruleset.Element) bool { return e.Last != nil || e.Ends != nil })
	m.table.Sets = append(m.table.Sets, s)
	return s.Name
}

func (m *tableMaker) vmap(s scope, first, last int) ruleset.VMap {
	fields, choices := m.concatenation(s)
	elements := m.elements(fields, choices, true, first, last)
	if m.rng.IntN(2) == 0 {
		return ruleset.VMap{Fields: fields, Elements: elements}
	}
	return ruleset.VMap{Fields: fields, Map: m.set(fields, elements, true)}
}
