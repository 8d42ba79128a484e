// SPDX-License-Identifier: Apache-2.0

package nfnl

import (
	"fmt"
	"strings"
)

// Failure is one message that the kernel refused.
type Failure struct {
	// Object is the object of the message. The zero Object means the transaction as a whole.
	Object Object
	// Detail is the kernel's message (extended ack), if there is one.
	Detail string
	// Err is the error number.
	Err error
}

// CommitError reports that the kernel refused a transaction, so that nothing has changed.
type CommitError struct {
	// Failures are in the order of the messages. There is at least one. Later ones are often
	// consequences of the first.
	Failures []Failure
}

// Error returns a text with the first object at fault and the number of failures.
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

// Detail returns the kernel's messages about the objects at fault, one a line and at most ten.
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
