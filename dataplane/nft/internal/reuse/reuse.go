// SPDX-License-Identifier: Apache-2.0

package reuse

// Map returns an empty map of the same type. If m is small, it clears and returns m. Otherwise it
// returns a new map: to clear a map takes time in proportion to the largest size that the map ever
// had.
func Map[K comparable, V any](m map[K]V) map[K]V {
	const small = 64
	if len(m) > small {
		return map[K]V{}
	}
	clear(m)
	return m
}
