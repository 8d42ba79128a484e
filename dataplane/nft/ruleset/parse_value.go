// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"bytes"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// valueParser reads fields, values and verdicts.
type valueParser struct {
	tokens
	phrases map[string][]phrase
	family  Family // the family of the table
	ranged  bool   // whether the last value was written as a range
}

// field returns the field with the longest name that the next words match.
func (p *valueParser) field() (phrase, bool) {
	var best phrase
	start, tok := p.lexer, p.tok
	after, afterTok := start, tok
	for _, c := range p.phrases[tok.text] {
		p.lexer, p.tok = start, tok
		differs := func(word string) bool { return !p.accept(word) }
		if len(c.words) > len(best.words) && !slices.ContainsFunc(c.words, differs) {
			best, after, afterTok = c, p.lexer, p.tok
		}
	}
	if p.err != nil {
		return phrase{}, false
	}
	p.lexer, p.tok = after, afterTok
	return best, best.field != 0
}

// wantField reads a field. kind describes it in the error.
func (p *valueParser) wantField(kind string) phrase {
	f, ok := p.field()
	if !ok && p.err == nil {
		at := p.tok
		if p.next(); len(p.phrases[at.text]) > 0 && p.tok.kind == tokenWord {
			at.text += " " + p.tok.text
		}
		p.fail(at, "no %s of the model", kind)
	}
	return f
}

// fields reads a field or a concatenation of several.
func (p *valueParser) fields(kind string) []phrase {
	all := []phrase{p.wantField(kind)}
	for p.accept(".") {
		all = append(all, p.wantField("field"))
	}
	return all
}

func (p *valueParser) verdict() Verdict {
	t := p.word("a verdict")
	v := Verdict{Kind: Accept}
	for v.Kind <= Goto && strings.TrimSpace(v.String()) != t.text {
		v.Kind++
	}
	switch v.Kind {
	case Accept, Drop, Return:
	case Jump, Goto:
		v.Chain = p.name("chain")
	default:
		p.fail(t, "want accept, drop, return, jump or goto")
	}
	return v
}

// value reads one value of a type.
func (p *valueParser) value(t Type) Value {
	at := p.tok
	v, last := p.valueOrRange(t)
	if last != nil {
		p.fail(at, "want one value, not a range")
	}
	return v
}

// valueOrRange reads a value, a prefix or a range of a type. For a single value, last is nil.
func (p *valueParser) valueOrRange(t Type) (first, last Value) {
	switch {
	case t == TypeIfname:
		at := p.tok
		v := p.ifname()
		if p.err == nil && len(v) < IfnameSize {
			p.fail(at, `a set has no prefixes of interface names: an asterisk in a name is \*`)
		}
		return v, nil
	case t.Bits():
		return p.bits(t, "|"), nil
	}
	at := p.valueWord(t)
	if p.err != nil {
		return nil, nil
	}
	first, last, problem := parseRange(t, at.text)
	p.ranged = last != nil
	switch {
	case problem != "":
		p.fail(at, "%s", problem)
	case bytes.Equal(first, last):
		last = nil
	case last != nil && t.HostOrder():
		p.fail(at, "a range of %s: the kernel cannot compare ranges in host byte order", t)
	case last != nil && bytes.Compare(first, last) > 0:
		p.fail(at, "the range ends before it begins")
	}
	return first, last
}

func (p *valueParser) valueWord(t Type) token {
	if p.tok.kind != tokenWord {
		p.fail(p.tok, "want a value of type %s", t)
	}
	return p.next()
}

// parseRange reads a value, a prefix or a range of a type.
func parseRange(t Type, word string) (first, last Value, problem string) {
	if v, ok := parseValue(t, word); ok {
		return v, nil, ""
	}
	if address, length, ok := strings.Cut(word, "/"); ok && t.Address() {
		first, last = parsePrefix(t, address, length)
		if first == nil {
			return nil, nil, "want a prefix, as 10.0.0.0/8, without bits beyond its length"
		}
		return first, last, ""
	}
	for i := range len(word) {
		if word[i] != '-' {
			continue
		}
		if first, ok := parseValue(t, word[:i]); ok {
			if last, ok := parseValue(t, word[i+1:]); ok {
				return first, last, ""
			}
		}
	}
	return nil, nil, "want a value of type " + t.String()
}

// parsePrefix returns the first and the last address of a prefix, or nil if it is not valid.
func parsePrefix(t Type, address, length string) (first, last Value) {
	first, ok := parseValue(t, address)
	n, err := strconv.ParseUint(length, 10, 8)
	if !ok || err != nil || int(n) > 8*len(first) {
		return nil, nil
	}
	last = bytes.Clone(first)
	for i := int(n); i < 8*len(last); i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	if got, ok := PrefixLen(first, last); !ok || got != int(n) {
		return nil, nil
	}
	return first, last
}

// parseValue reads one value. The type must not be one of bits, nor that of interface names.
func parseValue(t Type, word string) (Value, bool) {
	if word == "" {
		return nil, false
	}
	if t.Address() {
		a, err := netip.ParseAddr(word)
		return Addr(a), err == nil && a.Zone() == "" && a.BitLen() == 8*t.Size()
	}
	if t == TypeEtherAddr {
		return parseEther(word)
	}
	if major, minor, ok := strings.Cut(word, ":"); ok && t == TypeClassID {
		high, err1 := strconv.ParseUint(major, 16, 16)
		low, err2 := strconv.ParseUint(minor, 16, 16)
		return Uint32(uint32(high<<16 | low)), err1 == nil && err2 == nil
	}
	n, ok := parseNumber(word)
	if !ok || t == TypeBool {
		return t.valueNamed(word)
	}
	most := uint64(t.info().most)
	if most == 0 {
		most = 1<<(8*t.Size()) - 1
	}
	return t.encode(uint32(n)), n <= most
}

// parseEther reads an Ethernet address such as 02:00:00:00:00:01.
func parseEther(word string) (Value, bool) {
	parts := strings.Split(word, ":")
	if len(parts) != TypeEtherAddr.Size() {
		return nil, false
	}
	v := make(Value, len(parts))
	for i, part := range parts {
		b, err := strconv.ParseUint(part, 16, 8)
		if err != nil || len(part) > 2 {
			return nil, false
		}
		v[i] = byte(b)
	}
	return v, true
}

// ifname reads the name of an interface. For a prefix such as "way*", the value is shorter than
// IfnameSize.
func (p *valueParser) ifname() Value {
	t := p.tok
	if t.kind != tokenString {
		t = p.word("an interface name")
	} else {
		p.next()
	}
	name, escaped := strings.CutSuffix(t.text, `\*`)
	prefix := false
	if escaped {
		name += "*"
	} else {
		name, prefix = strings.CutSuffix(t.text, "*")
	}
	if p.err == nil && (!ValidIfname(name) || prefix && strings.HasSuffix(name, `\`) || strings.HasSuffix(name, `\*`)) {
		p.fail(t, "not an interface name")
		return nil
	}
	if prefix {
		return IfnamePrefix(name)
	}
	return Ifname(name)
}

// bits reads names of bits, or numbers, separated by one of the given marks.
func (p *valueParser) bits(t Type, separators string) Value {
	n := uint32(0)
	for {
		n |= p.bit(t)
		if len(p.tok.text) != 1 || p.tok.kind != tokenMark || !strings.Contains(separators, p.tok.text) {
			return t.encode(n)
		}
		p.next()
	}
}

func (p *valueParser) bit(t Type) uint32 {
	word := p.valueWord(t)
	for _, b := range bitTable(t) {
		if b.name == word.text {
			return b.bit
		}
	}
	n, ok := parseNumber(word.text)
	if p.err == nil && (!ok || n>>(8*t.Size()) != 0) {
		p.fail(word, "want a value of type %s", t)
	}
	return uint32(n)
}

// mask reads a mask, or the value that remains under a mask.
func (p *valueParser) mask(t Type) Value {
	switch {
	case t == TypeIfname:
		p.fail(p.tok, "a mask of an interface name")
		return nil
	case !t.Bits():
		return p.value(t)
	case p.accept("("):
		v := p.bits(t, "|,")
		p.want(")")
		return v
	default:
		return t.encode(p.bit(t))
	}
}
