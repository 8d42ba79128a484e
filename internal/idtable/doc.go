// SPDX-License-Identifier: Apache-2.0

// Package idtable is a hash index from keys to object numbers. The keys stay in the caller's store, so
// each is in memory once. It gives memory back when objects go.
//
// # Usage
//
//	id, ok := table.Find(hash, func(id uint32) bool { return keys[id] == key })
//	if !ok {
//		id = uint32(len(keys))
//		keys = append(keys, key)
//		table.Add(id, hash)
//	}
//
// # Concurrency
//
// A Table is not safe for concurrent use.
//
// # Errors
//
// There are none. Remove must be called with an id that is in the table, and Add with one that is not.
package idtable
