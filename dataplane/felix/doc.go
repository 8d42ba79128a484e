// SPDX-License-Identifier: Apache-2.0

// Package felix runs an external dataplane driver that was written for Felix, the agent of Calico. It starts the driver
// as Felix does, and sends it the same messages, so that the driver works without a change.
//
//	Driver ──▶ Dataplane ── ToDataplane, fd 3 ──▶ the driver's process ──▶ VPP, hardware, …
//	        ◀── faults ── FromDataplane, fd 4 ◀──
//
// docs/felix.md lists the messages that a driver gets, in their order.
//
// # Usage
//
//	dp, err := felix.New(felix.Config{
//		Command:  []string{"/usr/local/bin/driver"},
//		Stderr:   os.Stderr,
//		Settings: map[string]string{"InterfacePrefix": "cali"},
//	})
//	defer dp.Close()
//	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{dp}})
//	go driver.Run(ctx)
//
// # When the driver is started
//
// The driver is started with the first complete state. It gets ConfigUpdate, then all objects, then InSync, and from
// then on changes. It is killed if it sends a message that is invalid or too long, if it does not read for
// Config.Timeout, or if it closes its input or output and does not exit within Config.Grace. Watch reports the end of a
// driver, and the next Apply returns an error. After a back-off, Apply starts the driver again with the whole state.
//
// # When an endpoint counts as programmed
//
// The protocol has no acknowledgements. Drivers may report the status of endpoints: an endpoint with the status "error"
// is at fault, and one with "down" has no interface. By default, an endpoint without a status counts as programmed once
// it is sent. With Config.WaitForStatus, it is pending until the driver reports "up", or "down" if it must be down.
//
// # Rules that Felix does not have
//
// Felix's messages cannot express some matches, for example of a DSCP. A rule with such a match never allows a packet:
// a rule with the action Allow or Log is left out. A rule with the action Deny or Pass becomes a Deny of all packets
// that its other fields match. Apply reports the policy or profile as at fault.
//
// # Concurrency
//
// Watch, Stats and Close of a Dataplane may be called from any goroutine, the other methods from one at a time.
//
// # Errors
//
// Apply returns a join of *dataplane.ApplyError. An error without an object wraps ErrNotRunning or ErrClosed.
package felix
