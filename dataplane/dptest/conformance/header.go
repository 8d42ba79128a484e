// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"reflect"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// headersOf returns a header for the first and the last value of each range of a match, and for the value
// after it, or zero. addICMP adds those of ICMP, which are not in a header.
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

// setHeader sets the field of a name, in upper or lower case. It returns false if no packet has the value.
func setHeader(h *policy.Header, name string, value uint64) bool {
	f := reflect.ValueOf(h).Elem().FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
	if !f.IsValid() || f.OverflowUint(value) {
		return false
	}
	f.SetUint(value)
	return h.ValidateHeader() == nil
}
