// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"encoding/binary"
	"strings"
	"time"
)

// statement reads a statement that begins with a keyword, and reports whether there was one.
func (p *ruleParser) statement(r *Rule) bool {
	var s Statement
	switch start := p.tok; {
	case p.is("accept"), p.is("drop"), p.is("return"), p.is("jump"), p.is("goto"):
		s = p.verdict()
	case p.accept("counter"):
		p.counts()
		s = Counter{}
	case p.accept("notrack"):
		s = Notrack{}
	case p.accept("flow"):
		p.want("add")
		p.want("@")
		s = FlowAdd{p.name("flowtable")}
	case p.accept("log"):
		s = p.log()
	case p.accept("limit"):
		s = p.limit()
	case p.accept("reject"):
		reject := p.reject()
		if _, known := lastEquals(r.Matches, L4Proto); reject.Kind == RejectTCPReset && !known {
			// nft puts the match before all statements.
			r.Matches = append(r.Matches, Compare{Field: L4Proto, Value: Byte(6)})
		}
		s = reject
	default:
		kind := SNAT
		for kind.String() != start.text && kind <= Redirect {
			kind++
		}
		if kind > Redirect || start.kind != tokenWord {
			return false
		}
		p.next()
		s = p.nat(r, kind)
	}
	r.Statements = append(r.Statements, s)
	return true
}

func (p *ruleParser) log() Log {
	var s Log
	for {
		switch {
		case p.accept("prefix"):
			s.Prefix = p.quoted("a prefix")
		case p.accept("group"):
			group := uint16(p.number(16, "a group"))
			s.Group = &group
		default:
			return s
		}
	}
}

// defaultBurst is the burst of a limit without an explicit one.
const defaultBurst = 5

func (p *ruleParser) limit() Limit {
	var s Limit
	p.want("rate")
	s.Over = p.accept("over")
	at := p.word("a rate")
	rate, unit, _ := strings.Cut(at.text, "/")
	n, ok := parseNumber(rate)
	s.Rate = n
	for _, s.Per = range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour} {
		if unitText(s.Per) == unit {
			break
		}
	}
	if p.err == nil && (!ok || unitText(s.Per) != unit) {
		p.fail(at, "want packets in a second, minute, hour, day or week, as 10/second")
	}
	if p.accept("burst") {
		s.Burst = uint32(p.number(32, "a burst"))
		p.want("packets")
	}
	if s.Burst == defaultBurst {
		s.Burst = 0
	}
	return s
}

func (p *ruleParser) reject() Reject {
	switch {
	case !p.accept("with"):
		return Reject{}
	case p.accept("tcp"):
		p.want("reset")
		return Reject{Kind: RejectTCPReset}
	}
	if !p.accept("icmpx") {
		p.fail(p.tok, "want tcp reset or icmpx")
	}
	p.accept("type")
	if code, ok := rejectCode(p.tok.text); ok {
		p.next()
		return Reject{RejectICMPX, code}
	}
	return Reject{RejectICMPX, uint8(p.number(8, "a code of icmpx"))}
}

// nat reads the rest of a translation, after its first word.
func (p *ruleParser) nat(r *Rule, kind NATKind) NAT {
	s := NAT{Kind: kind}
	moves := kind == SNAT || kind == DNAT
	start := p.tok
	typ := TypeIPv4
	if moves && (p.accept("ip") || p.accept("ip6")) {
		s.Family, _ = familyNamed(start.text)
		if p.accept("addr") { // nft before 1.0 lists a map so
			p.want(".")
			p.want("port")
		}
	}
	if p.family != FamilyINet {
		if s.Family != FamilyINet && s.Family != p.family {
			p.fail(start, "a translation to another family than the table's")
		}
		s.Family = FamilyINet // The table determines the family.
	}
	if s.Family == FamilyIPv6 || p.family == FamilyIPv6 {
		typ = TypeIPv6
	}
	switch {
	case !p.is("to") && !moves:
		return s
	case p.is("to"):
		p.next()
	default:
		p.fail(p.tok, `want "to"`)
	}
	if at := p.tok; moves && len(p.phrases[at.text]) > 0 {
		named := p.fields("field")
		p.derive(r, at, named)
		p.want("map")
		p.want("@")
		s.Map = p.name("map")
		for _, n := range named {
			s.Fields = append(s.Fields, n.field)
		}
		return s
	}
	p.target(&s, typ, moves)
	return s
}

// target reads an address, a port, or both.
func (p *ruleParser) target(s *NAT, typ Type, moves bool) {
	at := p.word("an address or a port")
	if p.err != nil {
		return
	}
	address, port, hasPort := at.text, "", false
	switch i := strings.LastIndexByte(at.text, ':'); {
	case strings.HasPrefix(at.text, "[") && strings.Contains(at.text, "]:"):
		address, port, hasPort = strings.Cut(at.text[1:], "]:")
	case i == 0 || i > 0 && typ == TypeIPv4:
		address, port, hasPort = at.text[:i], at.text[i+1:], true
	}
	if address != "" {
		addr, ok := parseValue(typ, address)
		switch {
		case !moves:
			p.fail(at, "want a port, as :80")
		case !ok:
			p.fail(at, "want an address of type %s", typ)
		}
		s.Addr = addr
		if p.family == FamilyINet && s.Family == FamilyINet {
			p.fail(at, "want ip or ip6 before the address's \"to\"")
		}
	}
	if !hasPort {
		return
	}
	first, last, problem := parseRange(TypeService, port)
	if problem != "" || binary.BigEndian.Uint16(first) == 0 {
		p.fail(at, "want a port from 1 on, or a range of ports")
		return
	}
	s.Port = binary.BigEndian.Uint16(first)
	if last != nil && string(last) != string(first) {
		s.PortLast = binary.BigEndian.Uint16(last)
	}
	if s.PortLast != 0 && s.PortLast < s.Port {
		p.fail(at, "the range of ports ends before it begins")
	}
}

// assign reads the rest of an assignment, after its fields. start is the token of the first field.
func (p *ruleParser) assign(r *Rule, start token, fields []Field) {
	s := Assign{Field: fields[0]}
	if len(fields) > 1 || !s.Field.assignable() {
		p.fail(start, "want a field that can be set: meta mark, meta priority or ct mark")
		return
	}
	p.next()
	switch at := p.tok; {
	case len(p.phrases[at.text]) == 0:
		s.Value = s.Field.Type().number(p.value(s.Field.Type()))
	default:
		named := p.fields("field")
		switch {
		case p.accept("map"):
			p.derive(r, at, named)
			p.want("@")
			s.Map = p.name("map")
			for _, n := range named {
				s.Fields = append(s.Fields, n.field)
			}
		case p.err != nil:
		case len(named) > 1 || !named[0].field.assignable():
			p.fail(at, `want meta mark, meta priority or ct mark, or a lookup with "map"`)
		case !p.is("&") && !p.is("|"):
			s.From = named[0].field
		case named[0].field != s.Field:
			p.fail(p.tok, "the model has such an operation only with the field that is set")
		default:
			p.assignBits(&s)
		}
	}
	r.Statements = append(r.Statements, s)
}

// assignBits reads the bits that stay and the bits that are set: "& 0xffff00ff | 0x1200".
func (p *ruleParser) assignBits(s *Assign) {
	at, t := p.tok, s.Field.Type()
	keep := ^uint32(0)
	if p.accept("&") {
		keep = t.number(p.value(t))
	}
	if p.accept("|") {
		s.Value = t.number(p.value(t))
	}
	switch s.Mask = ^keep | s.Value; s.Mask {
	case 0:
		p.fail(at, "this changes no bit")
	case ^uint32(0):
		s.Mask = 0 // all bits
	}
}
