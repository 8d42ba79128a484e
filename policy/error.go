// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Problem is one problem of a resource.
type Problem struct {
	// Field is the path of the field in JSON, as in "egress[2].destination.ports[0]". It is empty
	// if the problem concerns the whole object.
	Field string `json:"field,omitempty"`
	// Msg describes the problem.
	Msg string `json:"msg"`
}

// String returns "field: message" in one line. Unprintable characters are escaped as in a Go
// string.
func (p Problem) String() string {
	text := p.Msg
	if p.Field != "" {
		text = p.Field + ": " + p.Msg
	}
	if isPrintable(text) {
		return text
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}

// isPrintable reports whether a text is valid UTF-8 of printable characters.
func isPrintable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool { return !strconv.IsPrint(c) })
}

// ValidationError is the error for an invalid resource.
type ValidationError struct {
	// Key of the resource.
	Key Key
	// Problems has 1 to 100 entries, roughly in the order of the fields. If there are more
	// problems, the last entry reports this.
	Problems []Problem
}

// Error returns the key of the object and its first problems.
func (e *ValidationError) Error() string {
	return "policy: invalid " + e.Key.String() + ": " + sumUp(e.Problems)
}

// DecodeError is the error for a JSON text that is not a resource.
type DecodeError struct {
	// Key of the resource, as far as it could be decoded. Any part may be empty, and the kind may
	// be one that does not exist. A part is empty if its JSON member occurs twice or is not a
	// string. The whole key is empty if the text is not JSON.
	Key Key
	// Problems has 1 to 100 entries, in the order of the text. If there are more problems, the last
	// entry reports this.
	Problems []Problem
}

// Error returns the key of the object and its first problems.
func (e *DecodeError) Error() string {
	name := ""
	if e.Key != (Key{}) {
		name = " " + clip(e.Key.String())
	}
	return "policy: decode" + name + ": " + sumUp(e.Problems)
}

// sumUp returns the first problems in one line of limited length.
func sumUp(problems []Problem) string {
	const most = 5
	var b strings.Builder
	for i, p := range problems {
		if i == most {
			fmt.Fprintf(&b, "; and %d more", len(problems)-most)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// report collects problems, up to a limit.
type report struct{ problems []Problem }

const maxProblems = 100

func (r *report) add(field, format string, args ...any) {
	switch n := len(r.problems); {
	case n < maxProblems-1:
		r.problems = append(r.problems, Problem{Field: field, Msg: fmt.Sprintf(format, args...)})
	case n == maxProblems-1:
		r.problems = append(r.problems, Problem{Msg: "there are more problems, which are not listed"})
	}
}
