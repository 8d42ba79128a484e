// SPDX-License-Identifier: Apache-2.0

// Package state keeps the desired state of a dataplane. It returns batches with the whole state, or
// with the difference from another state.
//
// The time for an event is proportional to the event's size, even if the event changes a large set.
// A State collects the changes of a set. It merges them into the set's list of members only when
// the list is read, or when there are many changes.
//
// # Usage
//
//	s := state.New()
//	s.Apply(batch)
//	all := s.Snapshot()
//	changes := s.ChangesTo(other)
//
// # Concurrency
//
// Only one goroutine at a time may use a State. The batches that a State returns share its objects,
// so these objects must not be changed.
//
// # Errors
//
// There are no errors. If an event removes an object that does not exist, the State ignores the
// event.
package state
