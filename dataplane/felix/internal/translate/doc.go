// SPDX-License-Identifier: Apache-2.0

// Package translate translates events of a dataplane into messages of Felix. It does no input or output.
//
// # Usage
//
//	t := translate.New(translate.Kinds)
//	t.Apply(batch, nil)          // no driver runs: record the events
//	t.Snapshot(send)             // a new driver: all objects, then InSync
//	t.Apply(next, send)          // the changes
//	faults := t.Faults()         // objects that the messages cannot express
//
// # What the messages cannot express
//
// A rule with a match that Felix does not have must not let through more than it says. An Allow or Log is left out. A
// Deny or Pass becomes a Deny of all packets that its other fields match. A rule that matches no packet is
// left out, too. A workload endpoint with policies that the driver cannot find is sent as inactive, and denies all
// packets.
//
// # Concurrency
//
// A Translator is for one goroutine at a time. It does not change the events.
//
// # Errors
//
// Faults returns a *dataplane.ApplyError for each object that the messages cannot express.
package translate
