// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"slices"
	"time"
)

// setParser reads sets and their elements.
type setParser struct{ valueParser }

// set reads a set or map.
func (p *setParser) set() *Set {
	keyword := p.next()
	s := &Set{}
	name := p.tok
	s.Name = p.name(keyword.text)
	var seen []string
	p.block(func() {
		word := p.word("a property of a set")
		if slices.Contains(seen, word.text) {
			p.fail(word, "given twice")
		}
		seen = append(seen, word.text)
		p.property(s, word)
	})
	switch {
	case p.err != nil:
	case len(s.Key) == 0:
		p.fail(name, "a %s without a type", keyword.text)
	case s.keyword() != keyword.text:
		p.fail(keyword, "%s has the type of a %s", s.Name, s.keyword())
	}
	return s
}

// property reads the rest of a line of a set, after its first word.
func (p *setParser) property(s *Set, word token) {
	switch word.text {
	case "type", "typeof":
		if len(s.Key) > 0 {
			p.fail(word, "the set has a type already")
		}
		part := p.typeNamed
		if word.text == "typeof" {
			part = func() Type { return p.wantField("field").field.Type() }
		}
		p.setType(s, part)
	case "size":
		at := p.tok
		if s.Size = uint32(p.number(32, "a size")); s.Size == 0 {
			p.fail(at, "want a size above zero")
		}
	case "flags":
		p.setFlags(s)
	case "counter":
		s.Counter = true
	case "timeout":
		s.Timeout = p.positiveDuration()
	case "gc-interval":
		s.GCInterval = p.positiveDuration()
	case "comment":
		s.Comment = p.quoted("a comment")
	case "auto-merge": // concerns only elements that nft adds later
	case "elements":
		if len(s.Key) == 0 {
			p.fail(word, "want the type before the elements")
		}
		p.want("=")
		s.Elements = p.elements(s)
	default:
		p.fail(word, "a set of the model has no such property")
	}
}

// setType reads the types of key and data. part reads each type.
func (p *setParser) setType(s *Set, part func() Type) {
	parts := func() []Type {
		types := []Type{part()}
		for p.accept(".") {
			types = append(types, part())
		}
		return types
	}
	s.Key = parts()
	switch {
	case !p.accept(":"):
	case p.accept("verdict"):
		s.Verdicts = true
	default:
		s.Data = parts()
	}
}

// typeNamed reads the name of a type.
func (p *setParser) typeNamed() Type {
	word := p.word("a type")
	for t := Type(1); t.Size() != 0; t++ {
		if t.String() == word.text && !t.info().noSet {
			return t
		}
	}
	p.fail(word, "no type of the model")
	return 0
}

func (p *setParser) setFlags(s *Set) {
	for {
		switch t := p.word("a flag"); t.text {
		case "interval":
			s.Interval = true
		case "timeout":
			s.Timeouts = true
		default:
			p.fail(t, "want interval or timeout: a set of the model has no other flags")
		}
		if !p.accept(",") {
			return
		}
	}
}

func (p *setParser) positiveDuration() time.Duration {
	at := p.tok
	d := p.duration()
	if d == 0 {
		p.fail(at, "want a time above zero")
	}
	return d
}

// elements reads elements in braces. From the set, it uses only what determines the form of its
// elements.
func (p *setParser) elements(s *Set) []Element {
	var all []Element
	p.want("{")
	for {
		p.skipNewLines()
		if p.err != nil || p.accept("}") {
			return all
		}
		all = append(all, p.element(s))
		p.skipNewLines()
		if !p.accept(",") {
			p.want("}")
			return all
		}
	}
}

func (p *setParser) skipNewLines() {
	for p.tok.kind == tokenBreak && p.tok.text == "\n" {
		p.next()
	}
}

func (p *setParser) element(s *Set) Element {
	e := Element{Key: make([]Value, len(s.Key))}
	for i, t := range s.Key {
		if i > 0 {
			p.want(".")
		}
		var last Value
		e.Key[i], last = p.valueOrRange(t)
		switch {
		case last == nil:
		case len(s.Key) == 1:
			e.Last = last
		default:
			if e.Ends == nil {
				e.Ends = make([]Value, len(s.Key))
			}
			e.Ends[i] = last
		}
	}
	p.extras(s, &e)
	switch {
	case s.Verdicts:
		p.want(":")
		v := p.verdict()
		e.Verdict = &v
	case len(s.Data) > 0:
		e.Data = make([]Value, len(s.Data))
		for i, t := range s.Data {
			p.want([]string{":", "."}[min(i, 1)])
			e.Data[i] = p.value(t)
		}
	}
	return e
}

// extras reads the rest of an element, after key and data.
func (p *setParser) extras(s *Set, e *Element) {
	for {
		switch word := p.tok; {
		case p.accept("timeout"):
			e.Timeout = p.positiveDuration()
		case p.accept("expires"):
			p.duration()
		case p.accept("comment"):
			e.Comment = p.quoted("a comment")
		case p.accept("counter"):
			if !s.Counter {
				p.fail(word, "an element with a counter in a set without counters")
			}
			p.counts()
		default:
			return
		}
	}
}

// counts reads the counts of a counter, if there are any. The model does not keep them.
func (p *setParser) counts() {
	if p.accept("packets") {
		p.number(63, "a number of packets")
		p.want("bytes")
		p.number(63, "a number of bytes")
	}
}
