// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/rtnl"
	"github.com/wayleave/wayleave/policy"
)

// backend is the name in errors.
const backend = "routes"

// failure is all that went wrong with one endpoint. The first operation that failed stands for it.
type failure struct {
	op     string
	detail string
	errs   []error
}

// report collects what went wrong in one pass.
type report struct {
	failures map[policy.Key]*failure
	// prefixes that are not as they should be.
	prefixes map[netip.Prefix]struct{}
	// foreign are those of them that somebody else's route or entry is in the way of.
	foreign map[netip.Prefix]struct{}
	// blocked endpoints get no new routes: their interface is not as it should be.
	blocked map[policy.Key]struct{}
	// broken means that it was not the kernel that refused: the connection cannot be relied on.
	broken bool
}

func newReport() *report {
	return &report{
		failures: map[policy.Key]*failure{},
		prefixes: map[netip.Prefix]struct{}{},
		foreign:  map[netip.Prefix]struct{}{},
		blocked:  map[policy.Key]struct{}{},
	}
}

// fail blames an endpoint, or nobody in particular if the key is zero. The first failure gives the operation.
func (r *report) fail(key policy.Key, op string, err error, prefixes ...netip.Prefix) {
	for _, prefix := range prefixes {
		r.prefixes[prefix] = struct{}{}
	}
	f := r.failures[key]
	if f == nil {
		f = &failure{op: op}
		r.failures[key] = f
		var refused *rtnl.Error
		if errors.As(err, &refused) {
			f.detail = refused.Detail
		}
	}
	if !slices.ContainsFunc(f.errs, func(e error) bool { return e.Error() == err.Error() }) { // the same for each address
		f.errs = append(f.errs, err)
	}
}

// block fails and keeps routes from being added.
func (r *report) block(key policy.Key, op string, err error) {
	r.fail(key, op, err)
	r.blocked[key] = struct{}{}
}

// withholds reports whether a change must not be made.
func (r *report) withholds(c change) bool {
	_, blocked := r.blocked[c.key]
	return blocked && c.op == addRoute
}

// err returns a join of all failures in order of their keys, or nil.
func (r *report) err() error {
	var errs []error
	for _, key := range slices.SortedFunc(maps.Keys(r.failures), policy.Key.Compare) {
		f := r.failures[key]
		errs = append(errs, &dataplane.ApplyError{
			Backend: backend, Op: f.op, Object: key, Detail: f.detail, Err: errors.Join(f.errs...),
		})
	}
	return errors.Join(errs...)
}
