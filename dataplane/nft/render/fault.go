// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// faults has the errors of the objects that cannot be rendered.
type faults map[policy.Key]error

// set replaces the error of an object; nil if there is none.
func (f faults) set(key policy.Key, err error) {
	if err == nil {
		delete(f, key)
		return
	}
	f[key] = err
}

// errors returns a *dataplane.ApplyError for each object, in the order of their keys.
func (f faults) errors() (out []error) {
	for _, key := range slices.SortedFunc(maps.Keys(f), policy.Key.Compare) {
		out = append(out, &dataplane.ApplyError{Backend: backend, Op: "render", Object: key, Err: f[key]})
	}
	return out
}
