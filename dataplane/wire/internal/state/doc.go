// SPDX-License-Identifier: Apache-2.0

// Package state keeps the desired state of a dataplane, from which a batch with all of it, or with the difference from
// another state, can be made at any time.
//
// A State takes each event in time in proportion to the event: changes of a set are collected, and put into its list of
// members only when that is read, or when they are many.
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
// A State is for one goroutine at a time. The batches that it returns share its objects, which nobody changes.
//
// # Errors
//
// There are none: what a batch removes and is not there is ignored.
package state
