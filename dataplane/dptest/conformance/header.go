// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"reflect"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// headersOf returns headers with the values of a match: for each range, the first value, the last
// value and the value after the range. A value that no packet has is left out of its header.
// addICMP adds the values of ICMP, which are not in a policy.Header.
func headersOf(m *policy.HeaderMatch) (out []policy.Header) {
	m.HeaderValues(func(field string, first, last uint64) {
		if _, ok := reflect.TypeFor[policy.Header]().FieldByName(field); !ok {
			return
		}
		for _, n := range slices.Compact([]uint64{first, last, last + 1}) {
			h := policy.Header{}
			if !setHeader(&h, field, n) {
				h = policy.Header{}
			}
			out = append(out, h)
		}
	})
	return out
}

// setHeader sets the field with a name. Upper and lower case of the name are the same. It returns
// false if no packet has the value.
func setHeader(h *policy.Header, name string, value uint64) bool {
	f := reflect.ValueOf(h).Elem().FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
	if !f.IsValid() || f.OverflowUint(value) {
		return false
	}
	f.SetUint(value)
	return h.ValidateHeader() == nil
}
