// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strconv"
)

// DSCP is a differentiated services code point, 0 to 63. It is the upper six bits of the IPv4 type
// of service and of the IPv6 traffic class (RFC 2474). In JSON, it is a number.
type DSCP uint8

// MaxDSCP is the largest code point.
const MaxDSCP DSCP = 63

// String returns the number.
func (d DSCP) String() string { return strconv.Itoa(int(d)) }

// MarshalJSON encodes the code point as a JSON number. It never fails. Without this method,
// encoding/json would encode a list of code points as a base64 string.
func (d DSCP) MarshalJSON() ([]byte, error) { return strconv.AppendUint(nil, uint64(d), 10), nil }

// UnmarshalJSON decodes a JSON number from 0 to 63. Null is an error.
func (d *DSCP) UnmarshalJSON(data []byte) error { return unmarshal(data, d) }

// problem returns why the code point is invalid, or "".
func (d DSCP) problem() string {
	if d > MaxDSCP {
		return fmt.Sprintf("want a code point from 0 to %d, not %d", MaxDSCP, d)
	}
	return ""
}

func (d *DSCP) read(from *decoder, path string, n *jsonNode) {
	if !from.want(path, n, jsonNumber) {
		return
	}
	v, err := strconv.ParseUint(n.text, 10, 8)
	if err != nil || DSCP(v) > MaxDSCP {
		from.add(path, "want a code point from 0 to %d, not %s", MaxDSCP, clip(n.text))
		return
	}
	*d = DSCP(v)
}

// dscps checks a list of code points.
func (v *validator) dscps(field string, list []DSCP) {
	if !v.atMost(field, len(list), int(MaxDSCP)+1) {
		return
	}
	for i, d := range list {
		if why := d.problem(); why != "" {
			v.add(index(field, i), "%s", why)
		}
	}
}
