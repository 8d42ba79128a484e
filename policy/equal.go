// SPDX-License-Identifier: Apache-2.0

package policy

// Equal reports whether two resources are of the same kind and say the same, field by
// field; a list or map without entries equals a nil one. Values are compared as they
// are written: make both Canonical first where that may differ. Two nil resources are equal.
func Equal(a, b Resource) bool {
	if absent(a) || absent(b) {
		return absent(a) && absent(b)
	}
	return a.equal(b)
}

func equalPointers[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
