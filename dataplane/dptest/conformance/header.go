// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"reflect"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// The fields of a policy.HeaderMatch are lists of numbers. One and its negation have the name of a field
// of policy.Header, so a new field needs no change here.

// headersOf returns a header for each value of a match, and for the value after it, or zero.
func headersOf(m *policy.HeaderMatch) (out []policy.Header) {
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		name := strings.TrimPrefix(v.Type().Field(i).Name, "Not")
		for j := range v.Field(i).Len() {
			value := v.Field(i).Index(j).Uint()
			for _, n := range []uint64{value, value + 1} {
				h := policy.Header{}
				if !setHeader(&h, name, n) {
					h = policy.Header{}
				}
				out = append(out, h)
			}
		}
	}
	return out
}

// setHeader sets the field of a name, in upper or lower case. It returns false if no packet has the value.
func setHeader(h *policy.Header, name string, value uint64) bool {
	f := reflect.ValueOf(h).Elem().FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
	if !f.IsValid() || f.OverflowUint(value) {
		return false
	}
	f.SetUint(value)
	return h.ValidateHeader() == nil
}
