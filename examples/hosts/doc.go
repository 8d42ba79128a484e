// SPDX-License-Identifier: Apache-2.0

// Package hosts is a dataplane in 80 lines, to start one of your own from: it keeps a file in the
// format of /etc/hosts, with a line for each address of each local workload.
//
// What every dataplane needs is in it: the desired state, which batches change and which cannot
// fail; nothing done before InSync; one function that brings the outside world to the desired
// state, whatever was there, so that retry, resync and restart come of themselves; and
// conformance.Run as its test. One that can also say what it would change is a dataplane.Planner, and one that sees
// when others change its work a dataplane.Watcher.
//
// # Usage
//
//	driver, err := dataplane.NewDriver(dataplane.DriverConfig{
//		Dataplanes: []dataplane.Dataplane{rules, ways, hosts.New("/run/wayleave/hosts")},
//	})
//
// # Concurrency
//
// A Dataplane is for one goroutine, as the Driver has it.
//
// # Errors
//
// Apply, Resync and Teardown return a *dataplane.ApplyError without an object: the file is written
// whole or not at all.
package hosts
