// SPDX-License-Identifier: Apache-2.0

package labelindex

import (
	"hash/maphash"

	"github.com/wayleave/wayleave/internal/idtable"
)

func newMap[K comparable, V any](seed maphash.Seed) idtable.Map[K, V] {
	return idtable.NewMap[K, V](hasher[K](seed))
}

// hasher returns a hash function for keys. For common types of keys, it is faster than
// maphash.Comparable.
func hasher[K comparable](seed maphash.Seed) func(K) uint64 {
	const odd1, odd2 = 0x9e3779b97f4a7c15, 0xff51afd7ed558ccd
	salt := maphash.String(seed, "")
	number := func(n uint32) uint64 {
		h := (uint64(n) ^ salt) * odd1
		return (h ^ h>>29) * odd2
	}
	var quick any
	switch any(*new(K)).(type) {
	case uint32:
		quick = number
	case string:
		quick = func(s string) uint64 { return maphash.String(seed, s) }
	case pairKey:
		quick = func(p pairKey) uint64 { return maphash.String(seed, p.value) ^ number(p.name) }
	}
	if hash, ok := quick.(func(K) uint64); ok {
		return hash
	}
	return func(k K) uint64 { return maphash.Comparable(seed, k) }
}
