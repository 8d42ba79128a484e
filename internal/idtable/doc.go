// SPDX-License-Identifier: Apache-2.0

// Package idtable gives small integers (ids) to keys, and stores values by id. It stores each key
// once. After a key is removed, its id is used again for another key. Unused memory is released.
//
//	IDs     ids without keys
//	Keys    key ──▶ id ──▶ key
//	Map     Keys with a value for each id
//	Column  one more value for each id of an IDs, Keys or Map
//
// # Usage
//
//	id, hash, ok := m.Find(key)
//	if !ok {
//		id = m.Add(key, hash)
//	}
//	m.At(id).count++
//
// # Concurrency
//
// No type of this package is safe for concurrent use.
//
// # Errors
//
// There are none. Free and Remove must be called with an id that is in use, and Add with a key that
// has no id.
package idtable
