// SPDX-License-Identifier: Apache-2.0

// Package parts divides the events of a batch into messages of limited size, and reassembles them.
//
// A large IPSetUpdate becomes one event with the first members, and IPSetDelta events that add the
// other members. A large IPSetDelta becomes several smaller ones. The events of one set may be in
// several messages. The receiver merges them into one event again.
//
// # Usage
//
//	err := parts.Write(batch, func(p parts.Part) error { return send(p.Events, p.More) })
//
//	var assembler parts.Assembler
//	err := assembler.Add(events) // for each message
//	batch := assembler.Batch()   // after the last one
//	size := parts.Size(batch)
//
// # Concurrency
//
// An Assembler is for one goroutine at a time.
//
// # Errors
//
// Write returns the errors of package codec, and of the function that writes. Add returns those of
// package codec.
package parts
