// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// maxItems is the maximum number of matches and statements of a rule. The kernel accepts 128
// expressions in a rule, and each match or statement makes at least one.
const maxItems = 128

// ruleParser reads rules.
type ruleParser struct {
	setParser
	reading bool // reading the rule's own String: see reread
}

// rule reads a rule up to the end of the line.
func (p *ruleParser) rule() Rule {
	r, start := Rule{}, p.tok
	for !p.ends() {
		switch {
		case len(r.Matches)+len(r.Statements) > maxItems:
			p.fail(p.tok, "a rule of more than %d matches and statements", maxItems)
		case p.accept("comment"):
			r.Comment = p.quoted("a comment")
			if !p.ends() {
				p.fail(p.tok, "want the end of the rule after its comment")
			}
		case !p.statement(&r):
			p.fieldItem(&r)
		}
	}
	p.reread(&r, start)
	return r
}

// reread fails unless Parse reads the same rule from its String, because other tools see only that
// text.
func (p *ruleParser) reread(r *Rule, start token) {
	if p.err != nil || p.reading {
		return
	}
	again := &ruleParser{reading: true}
	again.lexer.text, again.phrases, again.family = r.text(p.family), p.phrases, p.family
	again.next()
	if got := again.rule(); again.err != nil || again.tok.kind != tokenEnd || !got.Equal(*r) {
		p.fail(start, "the model supports this rule, but its text would mean another rule: %s", again.text)
	}
}

// fieldItem reads an item that begins with fields: a match, a lookup in a verdict map, or an
// assignment.
func (p *ruleParser) fieldItem(r *Rule) {
	start := p.tok
	named := p.fields("match or statement")
	if p.err != nil {
		return
	}
	fields := make([]Field, len(named))
	for i, n := range named {
		fields[i] = n.field
	}
	switch {
	case p.accept("vmap"):
		p.derive(r, start, named)
		s := VMap{Fields: fields}
		if p.accept("@") {
			s.Map = p.name("map")
		} else {
			s.Elements = p.elements(&Set{Key: fieldTypes(fields), Verdicts: true})
		}
		r.Statements = append(r.Statements, s)
	case p.is("set"):
		p.assign(r, start, fields)
	case len(r.Statements) > 0:
		p.fail(start, "a match after a statement, which the model does not support")
	default:
		p.derive(r, start, named)
		p.ranged = false
		r.Matches = append(r.Matches, p.match(fields))
		if end := apart(r.Matches, len(r.Matches)-1); p.err == nil && end != "" && !p.ranged {
			p.fail(start, "nft 1.0.6 merges this comparison with the previous one: want the value as a range, %s%s",
				end[1:], end)
		}
	}
}

// derive adds the matches that nft derives from the fields that follow.
func (p *ruleParser) derive(r *Rule, at token, named []phrase) {
	for _, n := range named {
		needed, proto := n.field.info().ether, n.proto
		current := etherOf(p.family, r.Matches)
		have, known := lastEquals(r.Matches, L4Proto)
		if needed == 0 && current == 0 && !known {
			needed = protoEther(proto)
		}
		switch {
		case needed == 0 || needed == current:
		case current != 0:
			p.fail(at, "an earlier match or the table's family excludes packets of this family")
		case p.family == FamilyBridge:
			p.add(r, at, Compare{Field: Protocol, Value: EtherTypeOf(needed)})
		case needed == etherARP:
			p.fail(at, "a field of ARP in a table of family %s", p.family)
		case needed == etherIPv4:
			p.add(r, at, Compare{Field: NFProto, Value: Byte(NFProtoIPv4)})
		default:
			p.add(r, at, Compare{Field: NFProto, Value: Byte(NFProtoIPv6)})
		}
		switch {
		case proto == 0 || known && have[0] == proto:
		case known:
			p.fail(at, "an earlier match excludes packets of this protocol")
		default:
			p.add(r, at, Compare{Field: L4Proto, Value: Byte(proto)})
		}
	}
}

// add adds a match that nft derives.
func (p *ruleParser) add(r *Rule, at token, m Match) {
	if len(r.Statements) > 0 {
		p.fail(at, "nft derives %q from this, a match after a statement, which the model does not support",
			matchText(m, ""))
		return
	}
	r.Matches = append(r.Matches, m)
}

// etherOf returns the EtherType that the matches require of packets; zero if they require none.
func etherOf(family Family, ms []Match) uint16 {
	switch family {
	case FamilyIPv4:
		return etherIPv4
	case FamilyIPv6:
		return etherIPv6
	case FamilyBridge:
		if v, ok := lastEquals(ms, Protocol); ok {
			return binary.BigEndian.Uint16(v)
		}
		return 0
	}
	switch v, _ := lastEquals(ms, NFProto); {
	case bytes.Equal(v, Byte(NFProtoIPv4)):
		return etherIPv4
	case bytes.Equal(v, Byte(NFProtoIPv6)):
		return etherIPv6
	default:
		return 0
	}
}

// lastEquals returns the value that the last of the matches on the field requires. Like nft, it
// treats a set with one value as that value.
func lastEquals(ms []Match, f Field) (Value, bool) {
	for _, m := range slices.Backward(ms) {
		switch m := m.(type) {
		case Compare:
			if m.Field == f && !m.Not && m.Last == nil && m.Mask == nil {
				return m.Value, true
			}
		case In:
			if slices.Equal(m.Fields, []Field{f}) && !m.Not && len(m.Elements) == 1 && m.Elements[0].Last == nil {
				return m.Elements[0].Key[0], true
			}
		}
	}
	return nil, false
}

// match reads the rest of a match, after its fields.
func (p *ruleParser) match(fields []Field) Match {
	switch {
	case p.is("&"), p.is("!"), p.is("=="):
		return p.compare(fields, false)
	}
	not := p.accept("!=")
	switch {
	case p.accept("@"):
		return Lookup{Fields: fields, Not: not, Set: p.name("set")}
	case p.is("{"):
		at := p.tok
		in := In{Fields: fields, Not: not, Elements: p.elements(&Set{Key: fieldTypes(fields)})}
		if _, single := singleBits(in); single {
			p.fail(at, "nft reads a set with one value of bits as any of the bits: want the value without braces")
		}
		return in
	default:
		return p.compare(fields, not)
	}
}

// compare reads the rest of a comparison, after its field and after "!=".
func (p *ruleParser) compare(fields []Field, not bool) Match {
	c := Compare{Field: fields[0], Not: not}
	t := c.Field.Type()
	switch {
	case len(fields) > 1:
		p.fail(p.tok, "want a set: a concatenation can be compared only with a set")
	case p.accept("&"):
		c.Mask = p.mask(t)
		if c.Not = p.accept("!="); !c.Not {
			p.want("==")
		}
		c.Value = p.mask(t)
	case t.Bits():
		p.compareBits(&c, t)
	default:
		p.accept("==")
		if t == TypeIfname {
			c.Value = p.ifname()
		} else {
			c.Value, c.Last = p.valueOrRange(t)
		}
	}
	return c
}

// compareBits reads a comparison with bits:
//
//   - "new,established" matches if any of the bits is set;
//   - "== syn|ack" matches if these and no other bits are set;
//   - "syn / syn,ack" matches if, among the bits behind the slash, those before it are set.
func (p *ruleParser) compareBits(c *Compare, t Type) {
	none := !c.Not && p.accept("!")
	exact := !c.Not && !none && p.accept("==")
	separators := ","
	if exact || c.Not {
		separators = "|,"
	}
	c.Value = p.bits(t, separators)
	switch {
	case p.is("|"):
		p.fail(p.tok, `nft reads and lists this as any of the bits: want "==" before the first, or ","`)
	case none:
		c.Not = true
	case !exact && p.accept("/"):
		c.Mask = p.bits(t, ",")
	case exact || c.Not:
		c.Mask = bytes.Repeat([]byte{0xff}, t.Size())
	}
}
