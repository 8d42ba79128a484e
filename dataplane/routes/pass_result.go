// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"time"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// result is the result of a pass.
type result struct {
	failures []*ObjectError
	// wakeAt is when Watch makes a pass without a notification; zero for never.
	wakeAt time.Time
	// conflict means that the ownership or existence of some object is unknown.
	conflict bool
	// lines has the changes of a dry pass.
	lines []string
}

// err returns a join of the failures.
func (r *result) err() error {
	errs := make([]error, len(r.failures))
	for i, f := range r.failures {
		errs[i] = f
	}
	return errors.Join(errs...)
}

// fail records the fault of an object.
func (r *result) fail(op string, o Object, err error) {
	e := &ObjectError{Op: op, Object: o, Err: err}
	var refused *rtnl.Error
	if errors.As(err, &refused) {
		e.Detail = refused.Detail
	}
	r.failures = append(r.failures, e)
}

// wait makes Watch start a pass no later than then.
func (r *result) wait(then time.Time) {
	if r.wakeAt.IsZero() || then.Before(r.wakeAt) {
		r.wakeAt = then
	}
}

// print adds a change to the lines of a dry pass.
func (r *result) print(line string) { r.lines = append(r.lines, line+"\n") }
