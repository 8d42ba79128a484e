// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	"strings"
	"unicode/utf8"
	"unique"
)

// Limits of Parse. They apply to the text and to its canonical form, so that Parse accepts the
// canonical form of every text that it accepts.
const (
	// MaxLength is the longest text, in bytes.
	MaxLength = 16 << 10
	// MaxDepth is the maximum depth of nested parentheses.
	MaxDepth = 128

	maxLabel = 512 // bytes of a label name
)

// ParseError is the error for text that is not a selector.
type ParseError struct {
	// Pos is the position of the error in the text, in bytes from 0. At the end of the text, it is
	// the length of the text.
	Pos int
	// Msg names the expected input, and the input that was found.
	Msg string
}

// Error returns "selector: pos 7: expected ...".
func (e *ParseError) Error() string { return fmt.Sprintf("selector: pos %d: %s", e.Pos, e.Msg) }

// Parse parses a selector. If s is empty or has only white space, Parse returns the selector all().
//
// Parse returns a *ParseError if s is not in the language, or if parentheses are nested deeper than
// MaxDepth. It also returns a *ParseError if s or its canonical form is longer than MaxLength
// bytes.
func Parse(s string) (*Selector, error) {
	p := parser{text: s}
	if err := p.parse(); err != nil {
		return nil, err
	}
	sel := newSelector(p.nodes)
	if len(sel.text) > MaxLength {
		return nil, &ParseError{Pos: len(s), Msg: fmt.Sprintf(
			"expected a canonical form of at most %d bytes, found %d", MaxLength, len(sel.text))}
	}
	return sel, nil
}

// Check returns the error that Parse would return, or nil. It is faster than Parse, and does not
// intern the strings of the text.
func Check(s string) error {
	if len(s) > MaxLength/4 { // short enough for the canonical form, which adds a few bytes a term
		_, err := Parse(s)
		return err
	}
	p := parser{text: s, dry: true}
	return p.parse()
}

// parser parses the text from left to right in one pass, without backtracking. It has one method
// for each rule of the grammar:
//
//	selector = [ or ]
//	or       = and { "||" and }
//	and      = unary { "&&" unary }
//	unary    = { "!" } ( "(" or ")" | "has(" label ")" | "all()" | "global()" | label test )
//	test     = ( "==" | "!=" | "contains" | "starts with" | "ends with" ) value
//	         | ( "in" | "not in" ) "{" [ value { "," value } [ "," ] ] "}"
//
// Each method but word also skips the white space that follows.
type parser struct {
	text  string
	pos   int
	depth int  // open parentheses
	nodes tree // parsed so far; an operator's node is inserted before its operands after the last operand
	dry   bool // for Check: strings are not interned

	interned [16]handle // see intern
}

func (p *parser) parse() error {
	if len(p.text) > MaxLength {
		return p.errorAt(MaxLength, fmt.Sprintf("expected at most %d bytes", MaxLength))
	}
	p.nodes = make(tree, 0, p.estimateNodes())
	p.space()
	if p.pos == len(p.text) {
		p.add(node{op: OpAll})
		return nil
	}
	if err := p.or(); err != nil {
		return err
	}
	if p.pos < len(p.text) {
		return p.expected(`"&&", "||" or the end`)
	}
	return nil
}

func (p *parser) or() error {
	start := len(p.nodes)
	if err := p.and(); err != nil || !p.next("||") {
		return err
	}
	for p.take("||") {
		if err := p.and(); err != nil {
			return err
		}
	}
	return p.join(start, opOr)
}

func (p *parser) and() error {
	start := len(p.nodes)
	if err := p.unary(); err != nil || !p.next("&&") {
		return err
	}
	for p.take("&&") {
		if err := p.unary(); err != nil {
			return err
		}
	}
	return p.join(start, opAnd)
}

// join makes the operands from start on the subtrees of a new node.
func (p *parser) join(start int, op Op) error {
	p.nodes = p.nodes.join(start, op)
	if p.nodes[start].depth > MaxDepth {
		return p.errorAt(p.pos, tooDeep())
	}
	return nil
}

// add adds a term.
func (p *parser) add(n node) {
	n.size = 1
	p.nodes = append(p.nodes, n)
}

// estimateNodes estimates the number of nodes of the text: one for each operand and group. The
// estimate is limited, so that hostile text does not cause a large allocation. append grows the
// slice beyond it.
func (p *parser) estimateNodes() int {
	operators := strings.Count(p.text, "&")/2 + strings.Count(p.text, "|")/2
	if operators == 0 {
		return 1
	}
	return min(2+operators+strings.Count(p.text, "("), 64)
}

// intern returns the handle of a string. It caches some handles, because selectors often repeat a
// string, and the process-wide table is slower than the rest of a term.
func (p *parser) intern(s string) handle {
	if p.dry {
		return handle{}
	}
	slot := &p.interned[0]
	if s != "" {
		slot = &p.interned[(len(s)+int(s[len(s)-1]))%len(p.interned)]
	}
	if *slot == (handle{}) || slot.Value() != s {
		*slot = unique.Make(s)
	}
	return *slot
}

func (p *parser) unary() error {
	negative := false
	for p.take("!") {
		negative = !negative
	}
	start := len(p.nodes)
	if err := p.primary(); err != nil {
		return err
	}
	p.nodes[start].negated = p.nodes[start].negated != negative
	return nil
}

func (p *parser) primary() error {
	if p.next("(") {
		return p.group()
	}
	start := p.pos
	word := p.word()
	if word == "" {
		return p.expected(`a label name, "has(", "all()", "global()", "!" or "("`)
	}
	if p.next("(") { // without a space before it; with one, the word is a label name
		switch word {
		case "has":
			return p.has()
		case "all":
			return p.constant(OpAll)
		case "global":
			return p.constant(OpGlobal)
		}
	}
	if len(word) > maxLabel {
		return p.errorAt(start, fmt.Sprintf("expected a label name of at most %d bytes, found %d", maxLabel, len(word)))
	}
	p.space()
	return p.test(word)
}

func (p *parser) group() error {
	if p.depth == MaxDepth {
		return p.errorAt(p.pos, tooDeep())
	}
	p.depth++
	p.take("(")
	if err := p.or(); err != nil {
		return err
	}
	if !p.take(")") {
		return p.expected(`"&&", "||" or ")"`)
	}
	p.depth--
	return nil
}

func (p *parser) has() error {
	p.take("(")
	start := p.pos
	label := p.word()
	if label == "" {
		return p.expected("a label name")
	}
	if len(label) > maxLabel {
		return p.errorAt(start,
			fmt.Sprintf("expected a label name of at most %d bytes, found %d", maxLabel, len(label)))
	}
	p.space()
	if !p.take(")") {
		return p.expected(`")"`)
	}
	p.add(node{op: OpHas, label: p.intern(label)})
	return nil
}

func (p *parser) constant(op Op) error {
	p.take("(")
	if !p.take(")") {
		return p.expected(`")"`)
	}
	p.add(node{op: op})
	return nil
}

// test parses the operator and operand after a label name.
func (p *parser) test(label string) error {
	op, err := p.operator()
	if err != nil {
		return err
	}
	n := node{op: op, label: p.intern(label)}
	if op == OpIn || op == OpNotIn {
		n.values, err = p.set()
	} else {
		n.value, err = p.value("a value in quotes")
	}
	if err != nil {
		return err
	}
	p.add(n)
	return nil
}

func (p *parser) operator() (Op, error) {
	switch {
	case p.take("=="):
		return OpEqual, nil
	case p.take("!="):
		return OpNotEqual, nil
	}
	start := p.pos
	word := p.word()
	p.space()
	switch word {
	case "contains":
		return OpContains, nil
	case "in":
		return OpIn, nil
	case "notin":
		return OpNotIn, nil
	case "startswith":
		return OpStartsWith, nil
	case "endswith":
		return OpEndsWith, nil
	case "not":
		return OpNotIn, p.secondWord("in")
	case "starts":
		return OpStartsWith, p.secondWord("with")
	case "ends":
		return OpEndsWith, p.secondWord("with")
	}
	p.pos = start
	return 0, p.expected(`"==", "!=", "in", "not in", "contains", "starts with" or "ends with"`)
}

// secondWord parses the second word of an operator.
func (p *parser) secondWord(want string) error {
	start := p.pos
	if p.word() != want {
		p.pos = start
		return p.expected(`"` + want + `"`)
	}
	p.space()
	return nil
}

func (p *parser) set() ([]handle, error) {
	if !p.take("{") {
		return nil, p.expected(`"{"`)
	}
	var values []handle
	for !p.take("}") {
		value, err := p.value(`a value in quotes or "}"`)
		if err != nil {
			return nil, err
		}
		if !p.dry {
			values = append(values, value)
		}
		if !p.take(",") && !p.next("}") {
			return nil, p.expected(`"," or "}"`)
		}
	}
	return sortedSet(values), nil
}

func (p *parser) value(want string) (handle, error) {
	if !p.next(`"`) && !p.next(`'`) {
		return handle{}, p.expected(want)
	}
	quote, rest := p.text[p.pos], p.text[p.pos+1:]
	end := strings.IndexByte(rest, quote)
	if end < 0 {
		return handle{}, p.errorAt(len(p.text),
			fmt.Sprintf("expected a %c that ends the value begun at %d", quote, p.pos))
	}
	p.pos += 1 + end + 1
	p.space()
	return p.intern(rest[:end]), nil
}

// word parses the longest sequence of characters of label names. Unlike the other methods, it does
// not skip the white space that follows.
func (p *parser) word() string {
	start := p.pos
	for p.pos < len(p.text) && isLabelByte(p.text[p.pos]) {
		p.pos++
	}
	return p.text[start:p.pos]
}

func (p *parser) space() {
	for p.pos < len(p.text) && (p.text[p.pos] == ' ' || p.text[p.pos] == '\t') {
		p.pos++
	}
}

func (p *parser) next(token string) bool { return strings.HasPrefix(p.text[p.pos:], token) }

// take skips the token and the white space after it, if the text continues with the token.
func (p *parser) take(token string) bool {
	if !p.next(token) {
		return false
	}
	p.pos += len(token)
	p.space()
	return true
}

func tooDeep() string { return fmt.Sprintf("expected at most %d nested parentheses", MaxDepth) }

func (p *parser) expected(want string) error {
	found := "the end"
	if p.pos < len(p.text) {
		r, size := utf8.DecodeRuneInString(p.text[p.pos:])
		found = fmt.Sprintf("%q", r)
		if r == utf8.RuneError && size == 1 {
			found = fmt.Sprintf("byte 0x%02x", p.text[p.pos])
		}
	}
	return p.errorAt(p.pos, "expected "+want+", found "+found)
}

func (p *parser) errorAt(pos int, msg string) error { return &ParseError{Pos: pos, Msg: msg} }
