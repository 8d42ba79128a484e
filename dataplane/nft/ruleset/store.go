// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"bytes"
	"hash/maphash"
	"iter"
	"math/bits"
	"slices"
	"sort"
)

// store keeps the elements of one set as records of equal length, without pointers:
//
//	key . key . key │ end . end . end │ data . data │ verdict
//	└──────────── id ───────────────┘
//
// Only sets of ranges have the end. The verdict is a number. An IPv4 address takes 5 to 12 bytes in
// total.
//
// In sets of ranges with one field, records are sorted, so that overlaps can be found. In all other
// sets, records are in a hash table with open addressing, linear probing and backward shift
// deletion. The table has a byte for each slot: zero if the slot is free, otherwise a part of the
// hash.
type store struct {
	key, data []int // sizes of the parts
	keyLen    int
	id        int // leading bytes that identify a record
	stride    int
	ordered   bool
	verdicts  bool

	seed  maphash.Seed
	tags  []byte // of the hash table: zero for a free slot
	slots []byte
	n     int
}

// verdictLen is the length of a verdict's number in a record.
const verdictLen = 4

// newStore returns an empty store for elements of the set.
func newStore(s *Set) *store {
	st := &store{verdicts: s.Verdicts, seed: maphash.MakeSeed()}
	for _, t := range s.Key {
		st.key = append(st.key, t.Size())
		st.keyLen += t.Size()
	}
	st.id = st.keyLen
	if s.Interval {
		st.id *= 2
		st.ordered = len(s.Key) == 1
	}
	st.stride = st.id
	for _, t := range s.Data {
		st.data = append(st.data, t.Size())
		st.stride += t.Size()
	}
	if st.verdicts {
		st.stride += verdictLen
	}
	return st
}

// newIndex returns an empty store that finds elements of the set by their id. It is a hash table
// for every set.
func newIndex(s *Set) *store {
	st := newStore(s)
	st.ordered = false
	return st
}

// ranges reports whether records have ends.
func (s *store) ranges() bool { return s.id > s.keyLen }

// append appends the record of a valid element. The number of its verdict is zero.
func (s *store) append(b []byte, e *Element) []byte {
	b = e.appendID(b, s.ranges())
	for _, v := range e.Data {
		b = append(b, v...)
	}
	if s.verdicts {
		b = append(b, make([]byte, verdictLen)...)
	}
	return b
}

// ID returns the values of an element's key, one after the other. In an interval set, each value of
// the key is a range: ID returns first the starts of all ranges, then their inclusive ends. See
// Packed.
func (s *Set) ID(e *Element) []byte { return e.appendID(nil, s.Interval) }

func (e *Element) appendID(b []byte, ranges bool) []byte {
	for _, v := range e.Key {
		b = append(b, v...)
	}
	if !ranges {
		return b
	}
	for i := range e.Key {
		b = append(b, e.End(i)...)
	}
	return b
}

// element returns the element of a record, without its verdict.
func (s *store) element(rec []byte) Element {
	own := bytes.Clone(rec[:s.stride])
	read := func(sizes []int) []Value {
		var values []Value
		for _, n := range sizes {
			values = append(values, Value(own[:n:n]))
			own = own[n:]
		}
		return values
	}
	e := Element{Key: read(s.key)}
	if s.ranges() {
		ends := read(s.key)
		switch {
		case bytes.Equal(rec[:s.keyLen], rec[s.keyLen:s.id]):
		case len(s.key) == 1:
			e.Last = ends[0]
		default:
			e.Ends = ends
		}
	}
	e.Data = read(s.data)
	return e
}

// count returns the number of slots.
func (s *store) count() int {
	if s.ordered {
		return s.n
	}
	return len(s.tags)
}

// slot returns the record in a slot.
func (s *store) slot(i int) []byte { return s.slots[i*s.stride : (i+1)*s.stride] }

// hasRecord reports whether the slot has a record.
func (s *store) hasRecord(i int) bool { return s.ordered || s.tags[i] != 0 }

// records yields all records.
func (s *store) records() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := range s.count() {
			if s.hasRecord(i) && !yield(s.slot(i)) {
				return
			}
		}
	}
}

// sorted returns all records in order. If the store is ordered, the result is its own memory.
func (s *store) sorted() []byte {
	if s.ordered {
		return s.slots
	}
	recs := make([]byte, 0, s.n*s.stride)
	for rec := range s.records() {
		recs = append(recs, rec...)
	}
	sortRecords(recs, s.stride)
	return recs
}

// find returns the record with the id, or nil.
func (s *store) find(id []byte) []byte {
	if i := s.index(id); i >= 0 {
		return s.slot(i)
	}
	return nil
}

func (s *store) index(id []byte) int {
	if s.ordered {
		i := s.search(id[:s.keyLen])
		if i < s.n && bytes.Equal(s.slot(i)[:s.id], id[:s.id]) {
			return i
		}
		return -1
	}
	if s.n == 0 {
		return -1
	}
	home, tag := s.home(id)
	for i := home; s.tags[i] != 0; i = s.next(i) {
		if s.tags[i] == tag && bytes.Equal(s.slot(i)[:s.id], id[:s.id]) {
			return i
		}
	}
	return -1
}

// lookup returns the record that has the key, or whose ranges contain it. It returns nil if there
// is none.
func (s *store) lookup(key []byte) []byte {
	if !s.ranges() {
		return s.find(key)
	}
	if s.ordered {
		if i := s.search(key); i < s.n && bytes.Compare(s.slot(i)[:s.keyLen], key) <= 0 {
			return s.slot(i)
		}
		return nil
	}
	var both [2 * MaxKey]byte // the key as a range from itself to itself
	point := append(append(both[:0], key...), key...)
	for rec := range s.records() {
		if s.overlap(rec, point) {
			return rec
		}
	}
	return nil
}

// search returns the index of the first record whose end is not before the key.
func (s *store) search(key []byte) int {
	return sort.Search(s.n, func(i int) bool { return bytes.Compare(s.slot(i)[s.keyLen:s.id], key) >= 0 })
}

// home returns the slot at which the search for an id begins, and the tag of the id.
func (s *store) home(id []byte) (int, byte) {
	h := maphash.Bytes(s.seed, id[:s.id])
	high, _ := bits.Mul64(h, uint64(len(s.tags)))
	return int(high), byte(h) | 0x80
}

func (s *store) next(i int) int {
	if i++; i == len(s.tags) {
		return 0
	}
	return i
}

// grow ensures space for more records. Hash tables grow by half, and are at most three quarters
// full.
func (s *store) grow(more int) {
	if s.ordered {
		s.slots = slices.Grow(s.slots, more*s.stride)
		return
	}
	need := s.n + more
	if need*4 <= len(s.tags)*3 {
		return
	}
	size := max(8, need*4/3+1, len(s.tags)*3/2)
	if s.n == 0 {
		size = max(8, need*4/3+1) // a set that is filled at once may never grow again
	}
	s.resize(size)
}

// resize moves the records to a hash table of the given size.
func (s *store) resize(size int) {
	old := *s
	s.tags, s.slots, s.n = make([]byte, size), make([]byte, size*s.stride), 0
	for i, tag := range old.tags {
		if tag != 0 {
			s.put(old.slot(i))
		}
	}
}

// shrink frees memory once there is space for eight times as many records as there are.
func (s *store) shrink() {
	const little = 64
	switch {
	case s.ordered && cap(s.slots) > 8*max(len(s.slots), little*s.stride):
		s.slots = bytes.Clone(s.slots)
	case !s.ordered && len(s.tags) > 8*max(s.n, little):
		s.resize(max(8, s.n*4/3+1))
	}
}

// put adds a record. The store must not have its id yet.
func (s *store) put(rec []byte) {
	s.grow(1)
	if s.ordered {
		at := s.search(rec[:s.keyLen]) * s.stride
		s.slots = append(s.slots, rec...)
		copy(s.slots[at+s.stride:], s.slots[at:len(s.slots)-s.stride])
		copy(s.slots[at:], rec)
		s.n++
		return
	}
	i, tag := s.home(rec)
	for s.tags[i] != 0 {
		i = s.next(i)
	}
	s.tags[i] = tag
	copy(s.slot(i), rec)
	s.n++
}

// remove removes the record with the id, if there is one.
func (s *store) remove(id []byte) {
	i := s.index(id)
	if i < 0 {
		return
	}
	s.n--
	if s.ordered {
		s.slots = slices.Delete(s.slots, i*s.stride, (i+1)*s.stride)
		return
	}
	// Move back the records that this one displaced, so that no search stops at the gap.
	for j := s.next(i); s.tags[j] != 0; j = s.next(j) {
		home, _ := s.home(s.slot(j))
		stays := i < home && home <= j
		if j < i { // the search went past the end
			stays = i < home || home <= j
		}
		if stays {
			continue
		}
		s.tags[i] = s.tags[j]
		copy(s.slot(i), s.slot(j))
		i = j
	}
	s.tags[i] = 0
}

// merge inserts sorted records into an ordered store, in one pass.
func (s *store) merge(recs []byte) {
	out := make([]byte, 0, len(s.slots)+len(recs))
	old := s.slots
	for len(old) > 0 && len(recs) > 0 {
		from := &old
		if bytes.Compare(recs[:s.keyLen], old[:s.keyLen]) < 0 {
			from = &recs
		}
		out = append(out, (*from)[:s.stride]...)
		*from = (*from)[s.stride:]
	}
	s.slots = append(append(out, old...), recs...)
	s.n = len(s.slots) / s.stride
}

// removeAll removes the records with the given ids from an ordered store, in one pass. The ids
// exist and are sorted.
func (s *store) removeAll(ids []byte) {
	out := s.slots[:0]
	for i := range s.n {
		rec := s.slot(i)
		if len(ids) > 0 && bytes.Equal(rec[:s.id], ids[:s.id]) {
			ids = ids[s.stride:]
			continue
		}
		out = append(out, rec...)
	}
	s.slots = out
	s.n = len(out) / s.stride
}

// clone returns a copy.
func (s *store) clone() *store {
	c := *s
	c.tags, c.slots = slices.Clone(s.tags), slices.Clone(s.slots)
	return &c
}

// sortRecords sorts records in place.
func sortRecords(recs []byte, stride int) {
	s := recordSort{recs: recs, stride: stride, spare: make([]byte, stride)}
	if !sort.IsSorted(&s) {
		sort.Sort(&s)
	}
}

// recordSort implements sort.Interface for records.
type recordSort struct {
	recs, spare []byte
	stride      int
}

func (r *recordSort) at(i int) []byte    { return r.recs[i*r.stride : (i+1)*r.stride] }
func (r *recordSort) Len() int           { return len(r.recs) / r.stride }
func (r *recordSort) Less(i, j int) bool { return bytes.Compare(r.at(i), r.at(j)) < 0 }
func (r *recordSort) Swap(i, j int) {
	copy(r.spare, r.at(i))
	copy(r.at(i), r.at(j))
	copy(r.at(j), r.spare)
}
