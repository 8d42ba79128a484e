// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"hash/maphash"

	"github.com/wayleave/wayleave/policy"
)

// objectKey is a policy.Key in less memory.
type objectKey struct {
	name      string
	namespace uint32 // its number
	kind      byte
}

func newObjectKey(key policy.Key, namespace uint32) objectKey {
	k := objectKey{name: key.Name, namespace: namespace}
	switch key.Kind {
	case policy.KindWorkloadEndpoint:
		k.kind = 'w'
	case policy.KindHostEndpoint:
		k.kind = 'h'
	case policy.KindNetworkSet:
		k.kind = 'n'
	}
	return k
}

// objectTable numbers objects and finds them by their keys. It is a hash table of numbers with
// linear probing: a slot is the upper half of the key's hash and, below it, the number plus one;
// zero is an empty slot. So it holds no key twice, and growing does not look at them.
type objectTable struct {
	seed   maphash.Seed
	slots  []uint64 // none or a power of two
	chunks []*objectBlock
	next   uint32   // number that was never given
	free   []uint32 // numbers that may be given again
	n      int
}

// objectBlock is some objects side by side. A block without any is given back.
type objectBlock struct {
	objects [objectChunk]object
	n       int
}

const objectChunk = 256

func newObjectTable() objectTable { return objectTable{seed: maphash.MakeSeed()} }

func (t *objectTable) hash(k objectKey) uint32 {
	const odd1, odd2 = 0x9e3779b97f4a7c15, 0xff51afd7ed558ccd // so that near numbers come far apart
	h := maphash.String(t.seed, k.name) ^ (uint64(k.namespace)<<8|uint64(k.kind))*odd1
	return uint32(h * odd2 >> 32)
}

// find returns the number of an object. The hash is for add.
func (t *objectTable) find(k objectKey) (number, hash uint32, ok bool) {
	hash = t.hash(k)
	if len(t.slots) == 0 {
		return 0, hash, false
	}
	mask := uint32(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		slot := t.slots[i]
		if slot == 0 {
			return 0, hash, false
		}
		if uint32(slot>>32) == hash && t.at(uint32(slot)-1).objectKey == k {
			return uint32(slot) - 1, hash, true
		}
	}
}

func (t *objectTable) at(number uint32) *object {
	return &t.chunks[number/objectChunk].objects[number%objectChunk]
}

// add numbers an object that find did not find.
func (t *objectTable) add(k objectKey, hash uint32) uint32 {
	number := t.next
	if last := len(t.free) - 1; last >= 0 {
		number, t.free = t.free[last], t.free[:last]
	} else {
		t.next++
		if int(number/objectChunk) == len(t.chunks) {
			t.chunks = append(t.chunks, nil)
		}
	}
	block := &t.chunks[number/objectChunk]
	if *block == nil {
		*block = &objectBlock{}
	}
	(*block).n++
	t.at(number).objectKey = k
	t.n++
	if t.n*4 > len(t.slots)*3 {
		t.resize(max(16, 2*len(t.slots)))
	}
	t.fill(uint64(hash)<<32 | uint64(number+1))
	return number
}

// remove forgets an object.
func (t *objectTable) remove(number uint32) {
	mask := uint32(len(t.slots) - 1)
	hole := t.hash(t.at(number).objectKey) & mask
	for uint32(t.slots[hole]) != number+1 {
		hole = (hole + 1) & mask
	}
	// Move up what was pushed past the hole, so that no search ends there too early.
	for i := (hole + 1) & mask; t.slots[i] != 0; i = (i + 1) & mask {
		if home := uint32(t.slots[i]>>32) & mask; (i-home)&mask >= (i-hole)&mask {
			t.slots[hole] = t.slots[i]
			hole = i
		}
	}
	t.slots[hole] = 0
	*t.at(number) = object{}
	if block := &t.chunks[number/objectChunk]; (*block).n == 1 {
		*block = nil
	} else {
		(*block).n--
	}
	t.free = append(t.free, number)
	t.n--
	switch {
	case t.n == 0:
		*t = objectTable{seed: t.seed}
	case t.n*8 < len(t.slots) && len(t.slots) > 16:
		t.resize(len(t.slots) / 4)
	}
}

func (t *objectTable) resize(size int) {
	old := t.slots
	t.slots = make([]uint64, max(16, size))
	for _, slot := range old {
		if slot != 0 {
			t.fill(slot)
		}
	}
}

// fill puts a slot into the first free place for it.
func (t *objectTable) fill(slot uint64) {
	mask := uint32(len(t.slots) - 1)
	i := uint32(slot>>32) & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = slot
}
