// SPDX-License-Identifier: Apache-2.0

// Package parts divides the events of a batch into messages of limited size, and puts them together again.
//
// A set with many members comes as one event with the first members, and deltas that add the others. They may be in
// several messages. The receiver makes one event of them.
//
// # Usage
//
//	err := parts.Write(batch, func(p parts.Part) error { return send(p.Events, p.More) })
//
//	var assembler parts.Assembler
//	err := assembler.Add(events) // for each message
//	batch := assembler.Batch()   // after the last one
//
// # Concurrency
//
// An Assembler is for one goroutine at a time.
//
// # Errors
//
// Those of package codec, and of the function that writes.
package parts
