// SPDX-License-Identifier: Apache-2.0

package reuse

// Map returns an empty map of the type: the same one, or a new one if it may have grown, because clear takes
// time in proportion to the largest size that a map had.
func Map[K comparable, V any](m map[K]V) map[K]V {
	const small = 64
	if len(m) > small {
		return map[K]V{}
	}
	clear(m)
	return m
}
