// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// Errors that callers can tell apart with errors.Is.
var (
	// ErrNotFound says that there is no such object.
	ErrNotFound = errors.New("not found")
	// ErrNotInitialised says that the mark which Store.Init makes is missing.
	ErrNotInitialised = errors.New("the key space is not initialised (or it was lost)")
	// ErrNewer says that something was written by a version of this package that knows more than
	// this one.
	ErrNewer = errors.New("written in a newer form")
	// ErrConflict says that an object is not at the revision that was expected; the error is a
	// *ConflictError.
	ErrConflict = errors.New("changed by somebody else")
	// ErrOwned says that an object belongs to another stream; the error is an *OwnerError.
	ErrOwned = errors.New("belongs to another stream")
	// ErrEmptyStream says that a stream without any object was refused.
	ErrEmptyStream = errors.New("the stream is empty")
	// ErrTooMany says that a transaction has more than MaxWrites writes.
	ErrTooMany = errors.New("too many writes in one transaction")
	// ErrRunning is returned by Run of something that runs already.
	ErrRunning = errors.New("etcd: it runs already")
)

// ConflictError tells of an object that is not at the revision that the writer expected. It is
// ErrConflict.
type ConflictError struct {
	// Key of the object.
	Key policy.Key
	// Expected is what the writer gave, Actual what the object is at; Absent where there is none.
	Expected, Actual Revision
}

// Error names the object and both revisions.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("etcd: write %s: want revision %s, have %s: %v", e.Key, e.Expected, e.Actual, ErrConflict)
}

// Is makes errors.Is find ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// OwnerError tells of an object that a stream holds and that another, or nobody, owns in the store.
// It is ErrOwned.
type OwnerError struct {
	// Key of the object.
	Key policy.Key
	// Owner that the object has; empty where it was written without one.
	Owner string
}

// Error names the object and its owner.
func (e *OwnerError) Error() string {
	return fmt.Sprintf("etcd: write %s: its owner is %q: %v", e.Key, e.Owner, ErrOwned)
}

// Is makes errors.Is find ErrOwned.
func (e *OwnerError) Is(target error) bool { return target == ErrOwned }

// ValueError tells of a stored value that cannot be used. Where a newer version wrote it, it is
// ErrNewer.
type ValueError struct {
	// Key in the store, from the cluster's own part on, as in "state/Policy/shop/web".
	Key string
	// Err says what is wrong.
	Err error
}

// Error names the key and the cause.
func (e *ValueError) Error() string { return fmt.Sprintf("etcd: read %s: %v", e.Key, e.Err) }

// Unwrap returns the cause.
func (e *ValueError) Unwrap() error { return e.Err }

// StreamError holds everything that is wrong in a stream, of which nothing was written.
type StreamError struct {
	// File is the name under which the stream was given.
	File string
	// Problems, at least one.
	Problems []error
}

// Error shows the first few problems.
func (e *StreamError) Error() string {
	const most = 5
	var lines []string
	for i, p := range e.Problems {
		if i == most {
			lines = append(lines, fmt.Sprintf("and %d more", len(e.Problems)-most))
			break
		}
		lines = append(lines, p.Error())
	}
	return fmt.Sprintf("etcd: write stream %s: nothing was written: %s", e.File, strings.Join(lines, "; "))
}

// Unwrap returns the problems.
func (e *StreamError) Unwrap() []error { return e.Problems }
