// SPDX-License-Identifier: Apache-2.0

package ruleset

import "strings"

// tokenKind is the kind of a token.
type tokenKind uint8

const (
	tokenEnd    tokenKind = iota // the end of the text
	tokenBreak                   // the end of a line, or a semicolon
	tokenWord                    // letters, digits and other characters of names and values
	tokenString                  // a text in quotation marks, without these
	tokenMark                    // an operator, a bracket, or any other character
)

// token is a piece of a text, with its position.
type token struct {
	kind         tokenKind
	text         string
	line, column int
}

// shown returns the token as messages show it.
func (t token) shown() string {
	switch {
	case t.kind == tokenEnd:
		return "end of text"
	case t.kind == tokenBreak && t.text != ";":
		return "end of line"
	default:
		return t.text
	}
}

// maxWord is the length of the longest word in bytes. No name or value is longer.
const maxWord = 255

// lexer divides text into tokens, one at a time.
type lexer struct {
	text      string
	at        int // the offset of the text that is not read yet
	line      int // counted from zero
	lineStart int // the offset of the beginning of the line
}

// scan returns the next token. It skips comments, and line breaks after a backslash.
func (l *lexer) scan() token {
	for l.at < len(l.text) {
		rest := l.text[l.at:]
		switch {
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r':
			l.at++
		case rest[0] == '#':
			if n := strings.IndexByte(rest, '\n'); n >= 0 {
				l.at += n
			} else {
				l.at = len(l.text)
			}
		case strings.HasPrefix(rest, "\\\n"):
			l.at++
			l.newLine()
		default:
			return l.token(rest)
		}
	}
	return l.cut(tokenEnd, 0)
}

// token returns the token at the beginning of the rest.
func (l *lexer) token(rest string) token {
	switch {
	case rest[0] == '\n':
		t := l.cut(tokenBreak, 0)
		t.text = "\n"
		l.newLine()
		return t
	case rest[0] == ';':
		return l.cut(tokenBreak, 1)
	case rest[0] == '"':
		n := strings.IndexAny(rest[1:], "\"\n")
		if n < 0 || rest[1+n] == '\n' {
			return l.cut(tokenMark, 1) // an opening quotation mark alone
		}
		t := l.cut(tokenString, n+2)
		t.text = t.text[1 : n+1]
		return t
	}
	n := 0
	for n < len(rest) && isWordByte(rest[n]) {
		n++
	}
	switch {
	case n > 1 && rest[n-1] == ':' && rest[n-2] != ':': // "22: accept" is the element 22; an address may end in "::".
		return l.cut(tokenWord, n-1)
	case n > 0:
		return l.cut(tokenWord, n)
	case strings.HasPrefix(rest, "==") || strings.HasPrefix(rest, "!="):
		return l.cut(tokenMark, 2)
	default:
		return l.cut(tokenMark, 1)
	}
}

// cut returns the next n bytes as a token.
func (l *lexer) cut(kind tokenKind, n int) token {
	t := token{kind, l.text[l.at : l.at+n], l.line + 1, l.at - l.lineStart + 1}
	l.at += n
	return t
}

func (l *lexer) newLine() {
	l.at++
	l.line++
	l.lineStart = l.at
}

func isWordByte(c byte) bool {
	return isLetter(c) || c >= '0' && c <= '9' || strings.IndexByte(`_.:/-*\[]`, c) >= 0
}
