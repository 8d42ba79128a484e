// SPDX-License-Identifier: Apache-2.0

package nfnl

import (
	"fmt"
	"strings"
)

// Failure is one message that the kernel refused.
type Failure struct {
	// Object of the message. The zero Object means the transaction as a whole.
	Object Object
	// Detail is the kernel's extended ack: its message, if it gave one.
	Detail string
	// Err is the error number.
	Err error
}

// CommitError reports that the kernel refused a transaction, which then has no effect. It is
// immutable.
type CommitError struct {
	// Failures in the order of the messages; at least one. The later ones are often consequences of the first.
	Failures []Failure
}

// Error names the first object at fault, and how many there are.
func (e *CommitError) Error() string {
	first := e.Failures[0]
	text := first.Err.Error()
	if first.Object != (Object{}) {
		text = first.Object.String() + ": " + text
	}
	if n := len(e.Failures) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return "nfnl: transaction refused: " + text
}

// Unwrap returns the error number of the first failure.
func (e *CommitError) Unwrap() error { return e.Failures[0].Err }

// Detail returns the kernel's messages about the objects at fault, one a line, at most ten.
func (e *CommitError) Detail() string {
	var lines []string
	for _, f := range e.Failures[:min(len(e.Failures), 10)] {
		line := f.Err.Error()
		if f.Detail != "" {
			line += ": " + f.Detail
		}
		if f.Object != (Object{}) {
			line = f.Object.String() + ": " + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
