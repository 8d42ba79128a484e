// SPDX-License-Identifier: Apache-2.0

// Package state keeps the desired state of a dataplane. It returns batches with the whole state, or
// with the difference from another state.
//
// The cost of an event is proportional to its size, even if it changes a large set. A State
// collects the changes of a set, and merges them into the set's list of members only when the list
// is read, or when there are many changes.
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
// A State is for one goroutine at a time. The batches that it returns share its objects. Nobody may
// change these objects.
//
// # Errors
//
// There are no errors. The removal of an object that does not exist is ignored.
package state
