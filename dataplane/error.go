// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"errors"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// ApplyError is the fault of one object, or of all: why it could not be programmed.
type ApplyError struct {
	// Backend that failed, as in "nft" or "routes".
	Backend string
	// Op is what was being done, as in "add route".
	Op string
	// Object at fault. The zero Key means that the failure is not of one object.
	Object policy.Key
	// Detail is the kernel's own words (extended ack), if there were any. It is not part of
	// Error().
	Detail string
	// Err is the cause.
	Err error
	// Down is set if the fault is that the interface of a workload endpoint does not exist or is down,
	// and nothing else. Only a Watcher sets it, which reports when the interface is there: see
	// EndpointDown.
	Down bool
	// Pending is set if the object has no fault, but is programmed or removed after the call. Only a
	// Watcher sets it, for an endpoint, host endpoint, policy or profile. It reports a Drift with
	// OnlyFaults when that is done or has failed, also if Watch begins later.
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

// ApplyErrors takes apart what Apply or Resync returned: the errors of single objects by their
// key (the first of each), and whether there was any other error, after which nothing is known
// of any object.
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

// splitWaiting separates the errors that are no failures: of workload endpoints that are Down, and of
// objects that are Pending. It returns the first such error of each object, and a join of all others.
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

// waits reports whether the error says that its object is down or pending, which is no failure.
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
	if a, ok := err.(*ApplyError); ok { // whose cause may be a join of its own
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
