// SPDX-License-Identifier: Apache-2.0

// Package observed caches the interfaces of the host: their masters, and their addresses where a
// host endpoint is found by address.
//
// # Usage
//
//	i, err := observed.New(observed.Config{NetNS: netns})
//	err = i.Update(renderer, resync)  // before renderer.Flush
//	defer i.Close()
//
// # Concurrency
//
// The methods of Interfaces are for one goroutine at a time, except Watch, which may run beside the
// others.
//
// # Errors
//
// An interface that does not exist is no error. One that cannot be looked up has an unknown master.
package observed
