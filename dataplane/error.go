// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"errors"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// ApplyError reports why an object could not be programmed, or why the state of all objects is
// unknown.
type ApplyError struct {
	// Backend that failed, as in "nft" or "routes".
	Backend string
	// Op is the operation that failed, as in "add route".
	Op string
	// Object is the object that could not be programmed. The zero Key means that the error is not
	// about a single object.
	Object policy.Key
	// Detail is the kernel's explanation (extended ack), if there is one. Error() does not contain
	// it.
	Detail string
	// Err is the cause.
	Err error
	// Down is set if the only fault is that the interface of a workload endpoint does not exist or
	// is down. See EndpointDown. Only a Watcher sets Down, because its Watch reports when the
	// interface is there.
	Down bool
	// Pending is set if nothing has failed, but the dataplane continues to program or remove the
	// object after the call. Only a Watcher sets Pending, for an endpoint, host endpoint, policy or
	// profile. When the object is done or has failed, Watch reports a Drift with OnlyFaults set. If
	// this happened before Watch was called, Watch reports it when it begins.
	Pending bool
}

// Error returns "backend: op object: cause".
func (e *ApplyError) Error() string {
	var b strings.Builder
	b.WriteString(e.Backend)
	b.WriteString(": ")
	b.WriteString(e.Op)
	if e.Object != (policy.Key{}) {
		b.WriteByte(' ')
		b.WriteString(e.Object.String())
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *ApplyError) Unwrap() error { return e.Err }

// ApplyErrors splits an error of Apply or Resync. The first result maps the key of each object to
// the first error about this object. The second result reports whether there was also an error that
// names no object. After such an error, the state of all objects is unknown.
func ApplyErrors(err error) (objects map[policy.Key]*ApplyError, general bool) {
	objects = map[policy.Key]*ApplyError{}
	for _, e := range flatten(err) {
		var a *ApplyError
		if !errors.As(e, &a) || a.Object == (policy.Key{}) {
			general = true
			continue
		}
		if objects[a.Object] == nil {
			objects[a.Object] = a
		}
	}
	return objects, general
}

// splitWaiting separates the errors that are no failures: those of workload endpoints that are
// Down, and those of objects that are Pending. It returns the first such error of each object, and
// a join of all other errors.
func splitWaiting(err error) (waiting map[policy.Key]*ApplyError, others error) {
	waiting = map[policy.Key]*ApplyError{}
	var rest []error
	for _, e := range flatten(err) {
		a, ok := e.(*ApplyError)
		if !ok || !a.waits() {
			rest = append(rest, e)
		} else if waiting[a.Object] == nil {
			waiting[a.Object] = a
		}
	}
	if len(waiting) == 0 {
		return waiting, err
	}
	return waiting, errors.Join(rest...)
}

// waits reports whether the error only says that its object is down or pending. This is no failure.
func (e *ApplyError) waits() bool {
	switch e.Object.Kind {
	case policy.KindWorkloadEndpoint:
		return e.Down || e.Pending
	case policy.KindHostEndpoint, policy.KindPolicy, policy.KindStagedPolicy, policy.KindProfile:
		return e.Pending
	default:
		return false
	}
}

// flatten returns the errors that were joined, at any depth.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if a, ok := err.(*ApplyError); ok { // its cause may be a join, which stays whole
		return []error{a}
	}
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		var all []error
		for _, one := range e.Unwrap() {
			all = append(all, flatten(one)...)
		}
		return all
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return flatten(inner)
		}
	}
	return []error{err}
}
