// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// maxText is the size in bytes of the longest text that Parse reads.
const maxText = 64 << 20

// ParseError reports where and why Parse cannot read a text.
type ParseError struct {
	// Line and Column are the place of the word, counted from one. Columns are bytes.
	Line, Column int
	// Word is the word that Parse cannot read.
	Word string
	// Msg is the reason, or what Parse expected instead.
	Msg string
}

// Error returns the place, the word and what is wrong with it.
func (e *ParseError) Error() string {
	return fmt.Sprintf("ruleset: line %d, column %d: %q: %s", e.Line, e.Column, e.Word, e.Msg)
}

// Parse reads a table in nft syntax: one "table inet name { ... }" block. The text may come from
// String, from a listing of nft (with or without handles), or from a user. Like nft, Parse adds
// matches that another match needs, for example the protocol before a port. Elements, sets and
// chains keep the order of the text: see Normalize.
//
// Parse supports the fields, types and values that String writes. It ignores some other parts,
// which do not change the verdict on a packet. These parts are comments after a number sign, counts
// of counters, remaining times of elements, auto-merge, and the owner of the table. Everything else
// is an error. Parse checks only the syntax: call Validate for the rest.
//
// Errors: a *ParseError for the first word that is not valid.
func Parse(text string) (*Table, error) {
	p := newParser(text)
	p.skipLines()
	t := p.table()
	p.skipLines()
	if p.tok.kind != tokenEnd {
		p.fail(p.tok, "want the end of the text after one table")
	}
	if p.err != nil {
		return nil, p.err
	}
	return t, nil
}

// ParseTables reads any number of tables, as "nft list ruleset" lists them. See Parse.
//
// Errors: a *ParseError for the first word that is not valid.
func ParseTables(text string) ([]*Table, error) {
	p := newParser(text)
	var tables []*Table
	for p.skipLines(); p.tok.kind != tokenEnd; p.skipLines() {
		tables = append(tables, p.table())
	}
	if p.err != nil {
		return nil, p.err
	}
	return tables, nil
}

// tokens reads a text word by word. After an error, the rest of the text counts as empty, so that
// every loop ends.
type tokens struct {
	lexer
	tok token // the next token
	err *ParseError
}

// parser reads tables. It embeds parsers for rules, sets, values and tokens, each of which uses the
// next one.
type parser struct{ ruleParser }

func newParser(text string) *parser {
	p := &parser{}
	p.phrases = phrases()
	if len(text) > maxText {
		p.fail(token{kind: tokenMark, line: 1, column: 1}, "a text of %d bytes, at most %d", len(text), maxText)
		return p
	}
	p.lexer.text = text
	p.next()
	return p
}

// next returns the next token and moves past it.
func (p *tokens) next() token {
	t := p.tok
	p.tok = p.scan()
	if p.tok.kind == tokenWord && len(p.tok.text) > maxWord {
		long := p.tok
		long.text = long.text[:maxWord]
		p.fail(long, "a word of more than %d bytes", maxWord)
	}
	return t
}

// fail records the first error.
func (p *tokens) fail(at token, format string, args ...any) {
	if p.err == nil {
		p.err = &ParseError{at.line, at.column, at.shown(), fmt.Sprintf(format, args...)}
	}
	p.at = len(p.lexer.text)
	p.tok = token{}
}

// is reports whether the next token is the given word or mark.
func (p *tokens) is(text string) bool {
	return p.tok.text == text && (p.tok.kind == tokenWord || p.tok.kind == tokenMark)
}

// accept moves past the next token if it is the given word or mark.
func (p *tokens) accept(text string) bool {
	if !p.is(text) {
		return false
	}
	p.next()
	return true
}

// want moves past the given word or mark, and fails if it does not come next.
func (p *tokens) want(text string) {
	if !p.accept(text) {
		p.fail(p.tok, "want %q", text)
	}
}

// word returns the next token, which must be a word.
func (p *tokens) word(what string) token {
	if p.tok.kind != tokenWord {
		p.fail(p.tok, "want %s", what)
		return token{}
	}
	return p.next()
}

// quoted returns the text of the next token, which must be in quotation marks.
func (p *tokens) quoted(what string) string {
	if p.tok.kind != tokenString {
		p.fail(p.tok, "want %s in quotation marks", what)
		return ""
	}
	return p.next().text
}

// name returns the name of a table, set, flowtable or chain.
func (p *tokens) name(what string) string {
	t := p.word("the name of a " + what)
	if p.err == nil && !ValidName(t.text) {
		p.fail(t, "not a name of a %s", what)
	}
	return t.text
}

// number reads a number with at most the given number of bits.
func (p *tokens) number(bits int, what string) uint64 {
	t := p.word(what)
	n, ok := parseNumber(t.text)
	if p.err == nil && (!ok || n>>bits != 0) {
		p.fail(t, "want %s: a number of %d bits", what, bits)
	}
	return n
}

// parseNumber reads a decimal or hexadecimal number. It refuses leading zeros, because nft would
// read an octal number.
func parseNumber(word string) (uint64, bool) {
	if hex, ok := strings.CutPrefix(word, "0x"); ok {
		n, err := strconv.ParseUint(hex, 16, 64)
		return n, err == nil
	}
	if len(word) > 1 && word[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseUint(word, 10, 64)
	return n, err == nil
}

// duration reads a time such as "1d2h". A number alone counts seconds.
func (p *tokens) duration() time.Duration {
	t := p.word("a time")
	if p.err != nil {
		return 0
	}
	d, ok := parseDuration(t.text)
	if !ok {
		p.fail(t, "want a time, as 1d2h3m4s5ms")
	}
	return d
}

func parseDuration(text string) (time.Duration, bool) {
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		return time.Duration(n) * time.Second, true
	}
	total := time.Duration(0)
	for text != "" {
		digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
		n, err := strconv.ParseUint(text[:digits], 10, 40)
		text = text[digits:]
		unit := len(text) - len(strings.TrimLeft(text, "dhms"))
		length := unitLength(text[:unit])
		if err != nil || length == 0 || time.Duration(n) > maxDuration/length {
			return 0, false
		}
		text = text[unit:]
		if total += time.Duration(n) * length; total > maxDuration {
			return 0, false
		}
	}
	return total, true
}

// maxDuration limits times. The sum of two does not overflow.
const maxDuration = 1 << 61

// skipLines moves past ends of lines and semicolons.
func (p *tokens) skipLines() {
	for p.tok.kind == tokenBreak {
		p.next()
	}
}

// ends reports whether the line has no further words.
func (p *tokens) ends() bool {
	return p.tok.kind == tokenBreak || p.tok.kind == tokenEnd || p.is("}")
}

// block reads a block in braces. item reads each of its entries.
func (p *tokens) block(item func()) {
	p.want("{")
	for p.skipLines(); !p.accept("}"); p.skipLines() {
		if p.tok.kind == tokenEnd {
			p.fail(p.tok, `want "}"`)
			return
		}
		item()
		if !p.ends() {
			p.fail(p.tok, "want the end of the line")
		}
	}
}

func (p *parser) table() *Table {
	p.want("table")
	t := &Table{Family: FamilyIPv4} // nft reads a table without a family as IPv4
	if known, ok := familyNamed(p.tok.text); ok {
		t.Family = known
		p.word("a family")
	}
	t.Name = p.name("table (after inet, ip, ip6 or bridge)")
	p.family = t.Family
	p.block(func() {
		switch word := p.tok; {
		case p.is("set") || p.is("map"):
			t.Sets = append(t.Sets, p.set())
		case p.is("flowtable"):
			t.Flowtables = append(t.Flowtables, parseFlowtable(p))
		case p.is("chain"):
			t.Chains = append(t.Chains, p.chain())
		case p.accept("flags"):
			p.tableFlags()
		default:
			p.fail(word, "want a set, map, flowtable or chain: a table of the model has nothing else")
		}
	})
	if !p.ends() {
		p.fail(p.tok, "want the end of the line")
	}
	return t
}

func familyNamed(name string) (Family, bool) {
	for f := Family(0); f.Number() != 0; f++ {
		if f.String() == name {
			return f, true
		}
	}
	return 0, false
}

// tableFlags reads the flags of a table's owner. In place of persist, nft 1.0.6 lists nothing.
func (p *parser) tableFlags() {
	for !p.ends() {
		if t := p.word("a flag"); t.text != "owner" && t.text != "persist" {
			p.fail(t, "want owner or persist: a table of the model has no other flags")
		}
		if !p.accept(",") {
			return
		}
	}
}

func (p *parser) chain() *Chain {
	p.next()
	c := &Chain{Name: p.name("chain")}
	policy := false
	p.block(func() {
		switch word := p.tok; {
		case p.is("type"):
			if c.Hook != nil {
				p.fail(word, "the chain has a hook already")
			}
			c.Hook = p.hook()
		case p.accept("policy"):
			if c.Hook == nil || policy {
				p.fail(word, "want one policy, after the hook")
				return
			}
			policy = true
			c.Hook.Policy = p.policy()
		case p.is("comment"):
			p.fail(word, "a chain of the model has no comment")
		default:
			c.Rules = append(c.Rules, p.rule())
		}
	})
	return c
}

func (p *parser) policy() Verdict {
	switch t := p.word("accept or drop"); t.text {
	case "accept":
		return Verdict{Kind: Accept}
	case "drop":
		return Verdict{Kind: Drop}
	default:
		p.fail(t, "want accept or drop")
		return Verdict{}
	}
}

func (p *parser) hook() *Hook {
	h := &Hook{Policy: Verdict{Kind: Accept}}
	p.next()
	t := p.word("filter, route or nat")
	for h.Type = 0; h.Type.String() != t.text; h.Type++ {
		if h.Type.String() == "?" {
			p.fail(t, "want filter, route or nat")
			return h
		}
	}
	p.want("hook")
	t = p.word("a hook")
	for h.Point = 0; h.Point.String() != t.text; h.Point++ {
		if h.Point.String() == "?" {
			p.fail(t, "want prerouting, input, forward, output or postrouting")
			return h
		}
	}
	p.want("priority")
	h.Priority = p.priority(p.family)
	return h
}

// priority reads a priority: a number, a name, or a name plus or minus a number. The numbers of
// names depend on the family.
func (p *parser) priority(family Family) int {
	t := p.word("a priority")
	base, named := listedPriority(family, t.text)
	if !named {
		digits, negative := strings.CutPrefix(t.text, "-")
		n, ok := parseNumber(digits)
		if p.err == nil && (!ok || n > math.MaxInt32) {
			p.fail(t, "want a priority: a number, or a name as filter")
		}
		if negative {
			return -int(n)
		}
		return int(n)
	}
	sign := 0
	switch {
	case p.accept("+"):
		sign = 1
	case p.accept("-"):
		sign = -1
	default:
		return base
	}
	return base + sign*int(p.number(30, "a priority"))
}
