// SPDX-License-Identifier: Apache-2.0

// Package translate translates the events of a dataplane into the messages with which Felix,
// Calico's agent, programs its dataplane driver. The package does no input or output.
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
// A rule may have a match for which Felix's messages have no field. It must not become a rule that
// allows more packets. So the Translator leaves out the rule if its action is Allow or Log. If the
// action is Deny or Pass, the Translator sends a Deny of all packets that the other fields of the
// rule match. It also leaves out a rule that matches no packet.
//
// A workload endpoint may refer to a policy that the driver does not have. The Translator then
// sends the endpoint in Felix's state "inactive", in which it denies all packets.
//
// # Concurrency
//
// A Translator is for one goroutine at a time. It does not change the events.
//
// # Errors
//
// Faults returns a *dataplane.ApplyError for each object that the messages cannot express.
package translate
