// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"slices"
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
	// stale means that another pass may succeed. Either the kernel refused a change because an
	// interface is gone or down, or this pass has deleted an unwanted device. The notification
	// about that interface may be waiting.
	stale bool
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

// noInterface records the fault of an object whose interface cannot be used. If the error is
// ErrNoInterface or ErrInterfaceDown, the interface called absent is the only reason. A
// notification of the kernel then ends the fault, and no retry is needed. If the interface is a
// device that could not be made, the error of the device is the cause.
func (p *pass) noInterface(absent string, o Object, err error) {
	missing := errors.Is(err, ErrNoInterface)
	if cause := p.failed[absent]; cause != nil && missing {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	p.result.fail("find interface", o, err)
	if missing || errors.Is(err, ErrInterfaceDown) {
		p.result.failures[len(p.result.failures)-1].absent = absent
	}
}

// retries reports whether a retry could end one of the faults.
func (r *result) retries() bool {
	return slices.ContainsFunc(r.failures, func(e *ObjectError) bool { return e.absent == "" })
}

// wait makes Watch start a pass no later than then.
func (r *result) wait(then time.Time) {
	if r.wakeAt.IsZero() || then.Before(r.wakeAt) {
		r.wakeAt = then
	}
}

// print adds a change to the lines of a dry pass.
func (r *result) print(line string) { r.lines = append(r.lines, line+"\n") }
