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
// If Felix does not have a match of a rule, the translated rule must not allow packets that the rule itself does not
// allow. A rule with the action Allow or Log is left out. A rule with the action Deny or Pass becomes a Deny of all
// packets that its other fields match. A rule that matches no packet is left out, too. A workload endpoint with
// policies that the driver cannot find is sent as inactive, and denies all packets.
//
// # Concurrency
//
// A Translator is for one goroutine at a time. It does not change the events.
//
// # Errors
//
// Faults returns a *dataplane.ApplyError for each object that the messages cannot express.
package translate
