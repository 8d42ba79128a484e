// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
)

// String returns the rule in nft syntax, for a table of family inet. Like nft, it omits matches
// that nft derives from the match after them. If the rule has a Raw without Text, nft refuses the
// result.
func (r Rule) String() string { return r.text(FamilyINet) }

func (r Rule) text(family Family) string {
	var words []string
	th := ""
	if looksUpPort(r.Statements) {
		th = transport(r.Matches)
	}
	for i := range r.Matches {
		last := i == len(r.Matches)-1
		if proto, ok := equals(r.Matches[i], L4Proto); last && ok && th != "" && transportKeyword(proto) == th {
			continue // nft derives the protocol from the statement.
		}
		if !implied(family, r.Matches, i) {
			words = append(words, matchText(r.Matches[i], transport(r.Matches[:i]))+apart(r.Matches, i))
		}
	}
	for _, s := range r.Statements {
		words = append(words, statementText(family, s, th))
	}
	if r.Comment != "" {
		words = append(words, "comment "+quote(r.Comment))
	}
	return strings.Join(words, " ")
}

// looksUpPort reports whether the first statement looks up a port in a verdict map.
func looksUpPort(statements []Statement) bool {
	if len(statements) == 0 {
		return false
	}
	m, ok := statements[0].(VMap)
	return ok && len(m.Fields) == 1 && (m.Fields[0] == Sport || m.Fields[0] == Dport)
}

// The EtherTypes that nft derives from the field after them.
const (
	etherIPv4 = 0x0800
	etherARP  = 0x0806
	etherIPv6 = 0x86dd
)

// apart returns a suffix for the second of two adjacent negated comparisons of small packet fields.
// Without the suffix, nft 1.0.6 would merge the two into one comparison, which matches unless both
// values are equal. The suffix makes the value a range, which nft does not merge. Matches on the
// same field need no suffix.
func apart(ms []Match, i int) string {
	m, ok := ms[i].(Compare)
	if !ok || i == 0 || !negatedPayload(m) {
		return ""
	}
	if before, ok := ms[i-1].(Compare); ok && before.Field != m.Field && negatedPayload(before) {
		return "-" + valueText(m.Field.Type(), m.Value)
	}
	return ""
}

func negatedPayload(c Compare) bool {
	t := c.Field.Type()
	return c.Not && c.Last == nil && c.Mask == nil && c.Field.Load().Origin == FromPayload && !t.Bits() && !t.Address()
}

// implied reports whether nft generates match i by itself because of the matches after it.
func implied(family Family, ms []Match, i int) bool {
	before, ms := ms[:i], ms[i:]
	c, ok := ms[0].(Compare)
	if !ok || c.Not || c.Last != nil || c.Mask != nil {
		return false
	}
	next, more := firstField(ms[1:])
	switch {
	case c.Field == NFProto && len(c.Value) == 1:
		switch {
		case family == FamilyIPv4 && c.Value[0] == NFProtoIPv4, family == FamilyIPv6 && c.Value[0] == NFProtoIPv6:
			return true // all packets of the table are of this family, and nft refuses the match
		case family != FamilyINet || !more:
			return false
		case c.Value[0] == NFProtoIPv4:
			return impliesEther(family, ms, next) == etherIPv4
		default:
			return c.Value[0] == NFProtoIPv6 && impliesEther(family, ms, next) == etherIPv6
		}
	case c.Field == Protocol && len(c.Value) == 2:
		return family == FamilyBridge && more &&
			impliesEther(family, ms, next) == binary.BigEndian.Uint16(c.Value)
	case c.Field == L4Proto && len(c.Value) == 1:
		// In a concatenation, ports are written as "th", from which nft derives nothing.
		// From a field of ICMP, nft also derives the family, unless a match before requires one.
		return impliesProto(next, c.Value[0]) && (len(matchFields(ms[1])) == 1 || next != Sport && next != Dport) &&
			(protoEther(c.Value[0]) == 0 || etherOf(family, before) != 0)
	}
	return false
}

// impliesEther returns the EtherType that nft derives from the matches after the first. next is the
// first field of the second match.
func impliesEther(family Family, ms []Match, next Field) uint16 {
	if next != L4Proto {
		return next.info().ether
	}
	if proto, ok := equals(ms[1], L4Proto); ok && implied(family, ms, 1) {
		return protoEther(proto)
	}
	return 0
}

// protoEther returns the EtherType that nft derives from a field of the protocol; zero if it
// derives none.
func protoEther(proto uint8) uint16 {
	switch proto {
	case protoICMP:
		return etherIPv4
	case protoICMPv6:
		return etherIPv6
	default:
		return 0
	}
}

// impliesProto reports whether nft derives the protocol from a match on the field.
func impliesProto(next Field, proto uint8) bool {
	if next == Sport || next == Dport {
		return transportKeyword(proto) != ""
	}
	return proto != 0 && proto == next.Load().Protocol
}

// equals returns the one-byte value that the match requires of the field.
func equals(m Match, f Field) (uint8, bool) {
	c, ok := m.(Compare)
	if !ok || c.Field != f || c.Not || c.Last != nil || c.Mask != nil || len(c.Value) != 1 {
		return 0, false
	}
	return c.Value[0], true
}

// firstField returns the first field of the first match.
func firstField(ms []Match) (Field, bool) {
	if len(ms) == 0 {
		return 0, false
	}
	fields := matchFields(ms[0])
	if len(fields) == 0 {
		return 0, false
	}
	return fields[0], true
}

// transport returns the keyword that replaces "th" after the matches: "tcp" if one of them requires
// TCP, and so on. It is empty if none requires a protocol.
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

// matchText writes a match. th replaces "th" before a port, unless it is empty.
func matchText(m Match, th string) string {
	switch m := m.(type) {
	case Compare:
		return compareText(m, th)
	case Lookup:
		return fieldsText(m.Fields, th) + " " + notText(m.Not) + "@" + m.Set
	case In:
		if single, ok := singleBits(m); ok {
			return compareText(single, th)
		}
		return fieldsText(m.Fields, th) + " " + notText(m.Not) + "{ " + elementsText(
			fieldTypes(m.Fields), nil, m.Elements, ", ",
		) + " }"
	case Raw:
		return rawText(m)
	default:
		return "?"
	}
}

// singleBits returns a comparison for an anonymous set with one value of bits: the field has
// exactly these bits. In nft syntax, the value alone would match any of the bits.
func singleBits(m In) (Compare, bool) {
	if len(m.Fields) != 1 || len(m.Elements) != 1 || !m.Fields[0].Type().Bits() {
		return Compare{}, false
	}
	value := m.Elements[0].Key[0]
	return Compare{Field: m.Fields[0], Not: m.Not, Value: value, Mask: bytes.Repeat([]byte{0xff}, len(value))}, true
}

// rawText returns the text of a Raw. If it has none, the result is a text that nft refuses.
func rawText(r Raw) string {
	if r.Text == "" {
		return "<raw expressions>"
	}
	return r.Text
}

func notText(not bool) string {
	if not {
		return "!= "
	}
	return ""
}

// compareText writes a comparison.
func compareText(m Compare, th string) string {
	field, t := fieldText(m.Field, th), m.Field.Type()
	switch {
	case t == TypeIfname && len(m.Value) < IfnameSize:
		return field + " " + notText(m.Not) + ifnameText(string(m.Value), true)
	case m.Mask != nil:
		op := "=="
		if m.Not {
			op = "!="
		}
		if t.Bits() && m.Whole() {
			return field + " " + op + " " + bitsText(t, m.Value)
		}
		return field + " & " + maskText(t, m.Mask) + " " + op + " " + maskText(t, m.Value)
	case t.Bits() && m.Not:
		return field + " ! " + valueText(t, m.Value)
	default:
		return field + " " + notText(m.Not) + rangeText(t, m.Value, m.Last)
	}
}

func fieldText(f Field, th string) string {
	if th != "" && (f == Sport || f == Dport) {
		return th + strings.TrimPrefix(f.String(), "th")
	}
	return f.String()
}

// fieldsText writes a field or a concatenation. In a concatenation, nft requires "th" for ports.
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
