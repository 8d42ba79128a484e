// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// Sentinel errors, for errors.Is.
var (
	// ErrNotFound means that the object does not exist.
	ErrNotFound = errors.New("not found")
	// ErrNotInitialised means that the mark (the key that Store.Init creates) is missing.
	ErrNotInitialised = errors.New("the key space is not initialised (or it was lost)")
	// ErrNewer means that a newer version of this package wrote a value, and this version cannot
	// read all of it.
	ErrNewer = errors.New("written by a newer version")
	// ErrConflict means that an object does not have the expected revision. Functions return it as
	// a *ConflictError.
	ErrConflict = errors.New("changed by another writer")
	// ErrOwned means that an object in the store has another owner than WriterConfig.Owner, or no
	// owner. Functions return it as an *OwnerError.
	ErrOwned = errors.New("does not belong to this stream")
	// ErrEmptyStream means that a stream has no object; see WriterConfig.AllowEmpty.
	ErrEmptyStream = errors.New("the stream is empty")
	// ErrTooMany means that a transaction has more than MaxWrites writes.
	ErrTooMany = errors.New("too many writes in one transaction")
	// ErrRunning is returned by a second call of Run during the first.
	ErrRunning = errors.New("etcd: already running")
)

// ConflictError reports an object that does not have the expected revision. errors.Is finds
// ErrConflict in it.
type ConflictError struct {
	// Key of the object.
	Key policy.Key
	// Expected is the revision that the writer expected. Actual is the revision of the object, or
	// Absent.
	Expected, Actual Revision
}

// Error names the object and both revisions.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("etcd: write %s: want revision %s, have %s: %v", e.Key, e.Expected, e.Actual, ErrConflict)
}

// Is makes errors.Is find ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// OwnerError reports an object of the stream that the Writer may not write. In the store, the
// object has another owner than WriterConfig.Owner, or no owner. errors.Is finds ErrOwned in it.
type OwnerError struct {
	// Key of the object.
	Key policy.Key
	// Owner of the object in the store; empty if it has none.
	Owner string
}

// Error names the object and its owner.
func (e *OwnerError) Error() string {
	return fmt.Sprintf("etcd: write %s: its owner is %q: %v", e.Key, e.Owner, ErrOwned)
}

// Is makes errors.Is find ErrOwned.
func (e *OwnerError) Is(target error) bool { return target == ErrOwned }

// ValueError reports a stored value that cannot be used. If a newer version wrote the value,
// errors.Is finds ErrNewer in the error.
type ValueError struct {
	// Key is the key in the store, without the cluster's prefix, such as "state/Policy/shop/web".
	Key string
	// Err is the cause.
	Err error
}

// Error names the key and the cause.
func (e *ValueError) Error() string { return fmt.Sprintf("etcd: read %s: %v", e.Key, e.Err) }

// Unwrap returns the cause.
func (e *ValueError) Unwrap() error { return e.Err }

// StreamError has all problems of a stream. Nothing of the stream was written.
type StreamError struct {
	// File is the name of the stream, as passed to Writer.Write.
	File string
	// Problems has at least one error.
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
