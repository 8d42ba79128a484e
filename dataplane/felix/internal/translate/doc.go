// SPDX-License-Identifier: Apache-2.0

// Package translate translates the events of a dataplane into the messages with which Felix, Calico's agent, programs
// its dataplane driver. The package does no input or output.
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
// A rule may have a match for which Felix's messages have no field. Such a rule must not allow more packets than
// before. So an Allow or Log rule is left out, and a Deny or Pass rule becomes a Deny of all packets that its other
// fields match. A rule that matches no packet is left out, too. A workload endpoint whose policies the driver cannot
// find is sent as inactive, and denies all packets.
//
// # Concurrency
//
// A Translator is for one goroutine at a time. It does not change the events.
//
// # Errors
//
// Faults returns a *dataplane.ApplyError for each object that the messages cannot express.
package translate
