// SPDX-License-Identifier: Apache-2.0

// Package hosts is an example of a dataplane, in 80 lines. It keeps a file in the format of /etc/hosts, with a line for
// each address of each local workload.
//
// It has the parts that every dataplane needs. Batches change the desired state in memory; this
// step cannot fail. Nothing is written before InSync. One function makes the file equal to the
// desired state, whatever the file contains. Retry, resync and restart call this function, and need
// no further code. conformance.Run tests the dataplane.
//
// If your dataplane can plan its changes, implement dataplane.Planner as well. If it can detect
// changes by other processes, implement dataplane.Watcher.
//
// # Usage
//
//	driver, err := dataplane.NewDriver(dataplane.DriverConfig{
//		Dataplanes: []dataplane.Dataplane{rules, ways, hosts.New("/run/wayleave/hosts")},
//	})
//
// # Concurrency
//
// A Dataplane is for one goroutine at a time, the Driver's.
//
// # Errors
//
// Apply, Resync and Teardown return a *dataplane.ApplyError without an object: the file is written
// whole or not at all.
package hosts
