// SPDX-License-Identifier: Apache-2.0

package labelindex

import "hash/maphash"

// keyed numbers keys: a hash map from keys to dense ids which holds every key once and
// gives memory back when keys go.
//
// slots is open addressing with linear probing. A slot is the upper half of the key's hash and,
// below it, the id plus one; zero is an empty slot. So growing does not look at the keys again.
type keyed[K comparable] struct {
	hash  func(K) uint64
	slots []uint64 // none or a power of two
	ids   idPool
	keys  column[K]
}

const minSlots = 8

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
	if len(k.slots) == 0 {
		return 0, hash, false
	}
	mask := uint32(len(k.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		slot := k.slots[i]
		if slot == 0 {
			return 0, hash, false
		}
		if uint32(slot>>32) == hash && *k.keys.at(uint32(slot) - 1) == key {
			return uint32(slot) - 1, hash, true
		}
	}
}

// add numbers a key that find did not find.
func (k *keyed[K]) add(key K, hash uint32) uint32 {
	id := k.ids.alloc()
	k.keys.grow(id)
	*k.keys.at(id) = key
	if k.ids.n*4 > len(k.slots)*3 {
		k.resize(max(minSlots, 2*len(k.slots)))
	}
	k.fill(uint64(hash)<<32 | uint64(id+1))
	return id
}

// remove forgets a key. Its id may be handed out again.
func (k *keyed[K]) remove(id uint32) {
	hash := uint32(k.hash(*k.keys.at(id)) >> 32)
	mask := uint32(len(k.slots) - 1)
	hole := hash & mask
	for uint32(k.slots[hole]) != id+1 {
		hole = (hole + 1) & mask
	}
	// Move up what was pushed past the hole, so that no search ends there too early.
	for i := (hole + 1) & mask; k.slots[i] != 0; i = (i + 1) & mask {
		if home := uint32(k.slots[i]>>32) & mask; (i-home)&mask >= (i-hole)&mask {
			k.slots[hole] = k.slots[i]
			hole = i
		}
	}
	k.slots[hole] = 0
	k.ids.free(id)
	k.keys.clear(id, &k.ids)
	if k.ids.n*8 < len(k.slots) {
		k.resize(len(k.slots) / 4)
	}
}

func (k *keyed[K]) resize(size int) {
	old := k.slots
	if k.ids.n == 0 {
		k.slots = nil
		return
	}
	k.slots = make([]uint64, max(minSlots, size))
	for _, slot := range old {
		if slot != 0 {
			k.fill(slot)
		}
	}
}

// fill puts a slot into the first free place for it.
func (k *keyed[K]) fill(slot uint64) {
	mask := uint32(len(k.slots) - 1)
	i := uint32(slot>>32) & mask
	for k.slots[i] != 0 {
		i = (i + 1) & mask
	}
	k.slots[i] = slot
}
