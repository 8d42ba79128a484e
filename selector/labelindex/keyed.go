// SPDX-License-Identifier: Apache-2.0

package labelindex

import (
	"hash/maphash"

	"github.com/wayleave/wayleave/internal/idtable"
)

// keyed numbers keys: a hash map from keys to dense ids which holds every key once and
// gives memory back when keys go.
type keyed[K comparable] struct {
	hash  func(K) uint64
	table idtable.Table
	ids   idPool
	keys  column[K]
}

func newKeyed[K comparable](seed maphash.Seed) keyed[K] { return keyed[K]{hash: hasher[K](seed)} }

// hasher returns a hash for keys. maphash.Comparable is for any; what there is most of has a
// quicker one.
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

func (k *keyed[K]) len() int { return k.ids.n }

// key returns the key of an id.
func (k *keyed[K]) key(id uint32) K { return *k.keys.at(id) }

// find returns the id of a key. The hash is for add.
func (k *keyed[K]) find(key K) (id uint32, hash uint32, ok bool) {
	hash = uint32(k.hash(key) >> 32)
	id, ok = k.table.Find(hash, func(id uint32) bool { return *k.keys.at(id) == key })
	return id, hash, ok
}

// add numbers a key that find did not find.
func (k *keyed[K]) add(key K, hash uint32) uint32 {
	id := k.ids.alloc()
	k.keys.grow(id)
	*k.keys.at(id) = key
	k.table.Add(id, hash)
	return id
}

// remove forgets a key. Its id may be handed out again.
func (k *keyed[K]) remove(id uint32) {
	k.table.Remove(id, uint32(k.hash(*k.keys.at(id))>>32))
	k.ids.free(id)
	k.keys.clear(id, &k.ids)
}
