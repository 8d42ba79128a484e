// SPDX-License-Identifier: Apache-2.0

// Package felix runs an external dataplane driver that was written for Felix, the agent of Calico.
// It starts the driver as Felix does, and sends it the same messages, so that the driver works
// without a change.
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
// Apply starts the external driver once the Dataplane has received the first complete state. The
// driver gets ConfigUpdate, then all objects, then InSync. After that, it gets only changes. The
// Dataplane kills the driver in these cases:
//
//   - The driver sends a message that is invalid or too long.
//   - The driver does not read for Config.Timeout.
//   - The driver closes its output, and does not exit within Config.Grace.
//   - The driver closes its input, and does not exit within 200 ms after Apply has detected this,
//     or within Config.Grace if that is shorter.
//   - The context of Apply is done while Apply writes.
//   - The driver does not exit within Config.Grace after Close or Teardown has closed its input.
//
// Watch reports the end of a driver, and the next Apply returns an error. After a back-off, Apply
// starts the driver again with the whole state.
//
// # When an endpoint counts as programmed
//
// The protocol has no acknowledgements. Drivers may report the status of endpoints. The status
// "error" means that the endpoint could not be programmed. The status "down" means that the
// interface of the endpoint does not exist or is down. Apply returns an error for "error", and for
// "down" unless the endpoint must be down.
//
// By default, an endpoint without a status counts as programmed once it is sent. With
// Config.WaitForStatus, Apply returns an error with Pending set for the endpoint until the driver
// reports "up". For an endpoint that must be down, Apply returns this error until the driver
// reports "down".
//
// # Rules that Felix does not have
//
// Felix's messages cannot express some matches, for example on a DSCP. A rule with such a match
// must not become a rule that allows more packets. If its action is Allow or Log, the Dataplane
// leaves the rule out. If its action is Deny or Pass, the Dataplane sends a Deny of all packets
// that the other fields of the rule match. Apply returns an error for the policy or profile.
//
// # Concurrency
//
// Any goroutine may call Watch, Stats and Close of a Dataplane at any time. Only one goroutine at a
// time may call the other methods.
//
// # Errors
//
// Apply returns a join of *dataplane.ApplyError. An error about an object has the key of this
// object in its field Object. An error about the driver itself has no Object, and wraps
// ErrNotRunning or ErrClosed.
package felix
