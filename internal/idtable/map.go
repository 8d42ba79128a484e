// SPDX-License-Identifier: Apache-2.0

package idtable

// Keys gives ids to keys. It stores each key once. NewKeys returns an empty one.
type Keys[K comparable] struct {
	// IDs has the ids in use.
	IDs
	hash  func(K) uint64
	table table
	keys  Column[K]
}

// NewKeys returns an empty Keys. It uses the upper 32 bits of the hashes.
func NewKeys[K comparable](hash func(K) uint64) Keys[K] { return Keys[K]{hash: hash} }

// Key returns the key of an id, which must not be changed.
func (k *Keys[K]) Key(id uint32) *K { return k.keys.At(id) }

// Find returns the id of a key, and the hash to pass to Add.
func (k *Keys[K]) Find(key K) (id uint32, hash uint32, ok bool) {
	hash = uint32(k.hash(key) >> 32)
	id, ok = k.table.find(hash, func(id uint32) bool { return *k.keys.At(id) == key })
	return id, hash, ok
}

// Add gives an id to a key that Find did not find.
func (k *Keys[K]) Add(key K, hash uint32) uint32 {
	id := k.Alloc()
	k.keys.Grow(id)
	*k.keys.At(id) = key
	k.table.add(id, hash)
	return id
}

// Remove deletes a key. Its id may be used again.
func (k *Keys[K]) Remove(id uint32) {
	k.table.remove(id, uint32(k.hash(*k.keys.At(id))>>32))
	k.Free(id)
	k.keys.Clear(id, &k.IDs)
}

// Size counts the slots and chunks that are allocated, for tests that look for leftovers.
func (k *Keys[K]) Size() int { return k.table.size() + k.keys.Size() }

// Map gives ids to keys and holds a value for each. NewMap returns an empty one.
type Map[K comparable, V any] struct {
	Keys[K]
	values Column[V]
}

// NewMap returns an empty Map. It uses the upper 32 bits of the hashes.
func NewMap[K comparable, V any](hash func(K) uint64) Map[K, V] {
	return Map[K, V]{Keys: NewKeys(hash)}
}

// At returns the value of an id, which may be changed.
func (m *Map[K, V]) At(id uint32) *V { return m.values.At(id) }

// Add gives an id and a zero value to a key that Find did not find.
func (m *Map[K, V]) Add(key K, hash uint32) uint32 {
	id := m.Keys.Add(key, hash)
	m.values.Grow(id)
	return id
}

// Remove deletes a key and its value. The id may be used again.
func (m *Map[K, V]) Remove(id uint32) {
	m.Keys.Remove(id)
	m.values.Clear(id, &m.IDs)
}

// Size counts the slots and chunks that are allocated, for tests that look for leftovers.
func (m *Map[K, V]) Size() int { return m.Keys.Size() + m.values.Size() }
