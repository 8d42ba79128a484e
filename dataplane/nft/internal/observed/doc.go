// SPDX-License-Identifier: Apache-2.0

// Package observed caches what the kernel reports about the interfaces of the host. The cache has
// the master of each endpoint's interface, such as a bridge. Some host endpoints name no interface:
// their interface is the one that has their addresses. If there is such a host endpoint, the cache
// also has all interfaces with their addresses.
//
// # Usage
//
//	i, err := observed.New(observed.Config{NetNS: netns})
//	err = i.Update(renderer, resync)  // before renderer.Flush
//	defer i.Close()
//
// # Concurrency
//
// Only one goroutine at a time may call the methods of Interfaces, except for Watch, which may run
// at the same time.
//
// # Errors
//
// An interface that does not exist is no error. An interface that cannot be read has an unknown
// master.
package observed
