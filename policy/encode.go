// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Encode writes a resource as the JSON object, with its "kind", that Decode reads. The
// bytes depend on the content alone. What Decode or Canonical made and Validate accepts
// comes back equal. Encode does not validate; it returns an error for a nil resource, and for
// a number that JSON cannot hold (NaN, infinity).
func Encode(r Resource) ([]byte, error) {
	if absent(r) {
		return nil, errors.New("policy: encode: no resource")
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("policy: encode %s: %w", r.Key(), err)
	}
	// Every kind has a member that is never left out (name, cidr), so a comma is right.
	head := fmt.Appendf(nil, `{"kind":%q,`, string(r.Key().Kind))
	return append(head, body[1:]...), nil
}
