// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Encode writes a resource as the JSON object, with its "kind", that Decode reads. The
// bytes depend on the content alone. What Decode or Canonical made and Validate accepts
// comes back equal. Encode does not validate; it returns an error for a nil resource, and for a number that JSON cannot
// hold (NaN, infinity).
func Encode(r Resource) ([]byte, error) {
	if absent(r) {
		return nil, errors.New("policy: encode: no resource")
	}
	var v any
	kind := r.Key().Kind
	switch r := r.(type) {
	case *Policy:
		v = struct {
			Kind Kind `json:"kind"`
			*Policy
		}{kind, r}
	case *Tier:
		v = struct {
			Kind Kind `json:"kind"`
			*Tier
		}{kind, r}
	case *Profile:
		v = struct {
			Kind Kind `json:"kind"`
			*Profile
		}{kind, r}
	case *NetworkSet:
		v = struct {
			Kind Kind `json:"kind"`
			*NetworkSet
		}{kind, r}
	case *WorkloadEndpoint:
		v = struct {
			Kind Kind `json:"kind"`
			*WorkloadEndpoint
		}{kind, r}
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("policy: encode %s: %w", r.Key(), err)
	}
	return data, nil
}

// absent reports whether r is nil, or a nil pointer of one of the kinds.
func absent(r Resource) bool {
	switch r := r.(type) {
	case *Policy:
		return r == nil
	case *Tier:
		return r == nil
	case *Profile:
		return r == nil
	case *NetworkSet:
		return r == nil
	case *WorkloadEndpoint:
		return r == nil
	}
	return true
}
