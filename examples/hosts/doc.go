// SPDX-License-Identifier: Apache-2.0

// Package hosts is an example of a dataplane, in 80 lines. It keeps a file in the format of
// /etc/hosts, with a line for each address of each local workload.
//
// It shows the parts that every dataplane needs. A batch first changes the desired state in memory;
// this step cannot fail. Before InSync, the dataplane writes nothing. One function makes the file
// equal to the desired state, whatever the file contains. This function is enough for retries,
// resyncs and restarts. conformance.Run tests the dataplane.
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
// Only one goroutine at a time may use a Dataplane. This is the goroutine of the Driver.
//
// # Errors
//
// Apply, Resync and Teardown return a *dataplane.ApplyError that names no object, because the file
// is either written completely or not at all.
package hosts
