// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Encode encodes a resource as a JSON object that Decode accepts, with its "kind". For equal
// resources, the text is the same. If the resource is canonical and valid, Decode returns an equal
// resource. Encode does not validate. It returns an error for a nil resource, and for a number that
// JSON does not have (NaN, infinity).
func Encode(r Resource) ([]byte, error) {
	if absent(r) {
		return nil, errors.New("policy: encode: no resource")
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("policy: encode %s: %w", r.Key(), err)
	}
	// Every kind has a member that is always encoded (name, cidr), so a comma is correct.
	head := fmt.Appendf(nil, `{"kind":%q,`, string(r.Key().Kind))
	return append(head, body[1:]...), nil
}
