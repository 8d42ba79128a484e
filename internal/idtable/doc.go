// SPDX-License-Identifier: Apache-2.0

// Package idtable numbers keys and keeps values by number. Each key is in memory once. Numbers are
// small and are used again, and memory is given back when keys go.
//
//	Keys    key ──▶ number ──▶ key
//	Map     the same, with a value for each number
//	Column  values by the numbers of somebody else
//	IDs     numbers without keys
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
// Nothing here is safe for concurrent use.
//
// # Errors
//
// There are none. Free and Remove must be called with a number that is in use, and Add with a key
// that is not there.
package idtable
