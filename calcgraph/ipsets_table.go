// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"hash/maphash"

	"github.com/wayleave/wayleave/internal/idtable"
)

// objectKey is a policy.Key in less memory.
type objectKey struct {
	name      string
	namespace uint32 // its number
	kind      byte
}

// objectTable numbers objects and finds them by their keys. It holds no key twice.
type objectTable struct {
	seed   maphash.Seed
	byHash idtable.Table
	chunks []*objectBlock
	next   uint32   // number that was never given
	free   []uint32 // numbers that may be given again
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
	number, ok = t.byHash.Find(hash, func(number uint32) bool { return t.at(number).objectKey == k })
	return number, hash, ok
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
	t.byHash.Add(number, hash)
	return number
}

// remove forgets an object.
func (t *objectTable) remove(number uint32) {
	t.byHash.Remove(number, t.hash(t.at(number).objectKey))
	if t.byHash.Len() == 0 {
		*t = objectTable{seed: t.seed}
		return
	}
	*t.at(number) = object{}
	if block := &t.chunks[number/objectChunk]; (*block).n == 1 {
		*block = nil
	} else {
		(*block).n--
	}
	t.free = append(t.free, number)
}
