// SPDX-License-Identifier: Apache-2.0

package policy

// Clone returns a deep copy of r, to edit while others read r. Nil stays nil.
func Clone(r Resource) Resource {
	if absent(r) {
		return nil
	}
	return r.clone()
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
