// SPDX-License-Identifier: Apache-2.0

package idtable

// minSize is the minimum number of slots, except that an empty table has none.
const minSize = 8

// table is a set of ids, each stored with its hash: an index from keys, which it does not hold, to
// their ids. The zero table is empty.
//
// It is a hash table with open addressing and linear probing. A slot is the hash and, below it, the
// id plus one; zero is an empty slot. So growing does not look at keys again.
type table struct {
	slots []uint64 // none or a power of two, at most three quarters taken
	n     int
}

// size returns the number of slots, 8 bytes each.
func (t *table) size() int { return len(t.slots) }

// find returns the id with a hash for which match returns true. It calls match for each id with
// that hash, until it returns true.
func (t *table) find(hash uint32, match func(id uint32) bool) (id uint32, ok bool) {
	if len(t.slots) == 0 {
		return 0, false
	}
	mask := uint32(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		slot := t.slots[i]
		if slot == 0 {
			return 0, false
		}
		if uint32(slot>>32) == hash && match(uint32(slot)-1) {
			return uint32(slot) - 1, true
		}
	}
}

// add stores an id with its hash. The id must be below 1<<32 - 1 and not be in the table.
func (t *table) add(id, hash uint32) {
	if t.n++; t.n*4 > len(t.slots)*3 {
		t.resize(max(minSize, 2*len(t.slots)))
	}
	t.fill(uint64(hash)<<32 | uint64(id+1))
}

// remove removes an id that was added with the hash.
func (t *table) remove(id, hash uint32) {
	mask := uint32(len(t.slots) - 1)
	hole := hash & mask
	for uint32(t.slots[hole]) != id+1 {
		hole = (hole + 1) & mask
	}
	// Move slots back that were placed behind the hole because of a collision, so that searches
	// still find them.
	for i := (hole + 1) & mask; t.slots[i] != 0; i = (i + 1) & mask {
		if home := uint32(t.slots[i]>>32) & mask; (i-home)&mask >= (i-hole)&mask {
			t.slots[hole] = t.slots[i]
			hole = i
		}
	}
	t.slots[hole] = 0
	switch t.n--; {
	case t.n == 0:
		t.slots = nil
	case t.n*8 < len(t.slots) && len(t.slots) > minSize:
		t.resize(max(minSize, len(t.slots)/4))
	}
}

func (t *table) resize(size int) {
	old := t.slots
	t.slots = make([]uint64, size)
	for _, slot := range old {
		if slot != 0 {
			t.fill(slot)
		}
	}
}

// fill stores a slot in the first free place for it.
func (t *table) fill(slot uint64) {
	mask := uint32(len(t.slots) - 1)
	i := uint32(slot>>32) & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = slot
}
