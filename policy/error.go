// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Problem is one thing that is wrong with a resource. Problem is a plain value; it is safe for
// concurrent use.
type Problem struct {
	// Field is the path of the field in the JSON form, as in
	// "egress[2].destination.ports[0]"; empty where the whole object is meant.
	Field string `json:"field,omitempty"`
	// Msg says what is wrong.
	Msg string `json:"msg"`
}

// String returns "field: message", in one line. Characters that are not printable are escaped as in
// a Go string.
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

// isPrintable reports whether a text has printable characters only, in valid UTF-8.
func isPrintable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool { return !strconv.IsPrint(c) })
}

// ValidationError says why a resource cannot be used. It is safe for concurrent use as long
// as nobody changes it.
type ValidationError struct {
	// Key of the resource.
	Key Key
	// Problems, by and large in the order of the fields; at least one, at most 100 (the last
	// then says that there are more).
	Problems []Problem
}

// Error names the object and its first problems with their fields.
func (e *ValidationError) Error() string {
	return "policy: invalid " + e.Key.String() + ": " + sumUp(e.Problems)
}

// DecodeError says why a JSON text is no resource. It is safe for concurrent use as long as
// nobody changes it.
type DecodeError struct {
	// Key of the resource as far as it could be read; any part may be empty, and the kind one that
	// does not exist. A member that is given twice leaves its part empty, as does one that is not
	// written as Decode wants it. All is empty for a text that is not JSON.
	Key Key
	// Problems in the order of the text; at least one, at most 100 (the last then says that there
	// are more).
	Problems []Problem
}

// Error names the object, as far as it could be read, and its first problems with their fields.
func (e *DecodeError) Error() string {
	name := ""
	if e.Key != (Key{}) {
		name = " " + clip(e.Key.String())
	}
	return "policy: decode" + name + ": " + sumUp(e.Problems)
}

// sumUp writes problems in one line, which stays readable however many there are.
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
