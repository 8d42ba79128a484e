// SPDX-License-Identifier: Apache-2.0

// Package rtnl reads and changes the network of one namespace by rtnetlink. It lists links,
// addresses, routes, neighbour and forwarding entries and rules, with the fields that identify
// their owner. It changes batches of routes, entries and rules, and receives notifications. Changes
// of single links and addresses go through a handle of vishvananda/netlink; docs/design.md has the
// reasons.
//
// # Usage
//
//	conn, err := rtnl.Dial(rtnl.Config{NetNS: fd})
//	err = conn.Routes(rtnl.RouteFilter{Family: 4, Table: 254, Protocol: 219}, restart, each)
//	var b rtnl.Batch
//	b.AddRoute(&rtnl.Route{...})
//	b.DeleteNeighbour(&rtnl.Neighbour{...})
//	err = conn.Do(&b, func(i int, err error) { ... }) // for each change that the kernel refused
//
// A batch is sent in few system calls. The kernel answers each message that it refuses, and the last one of each call.
// A call never has more messages than there is room for answers in the socket's buffer.
//
// A list is read again if a change interrupted its dump, also if only the last message of the dump has the flag for it
// (NLM_F_DUMP_INTR).
//
// # Concurrency
//
// A Conn is for one goroutine, and so is a Monitor, except for Wait.
//
// # Errors
//
// If the kernel refuses a request, the error is an *Error with its errno and explanation. The methods
// of a Handle return the errno alone. errors.Is finds ErrExist, ErrNotFound and ErrDown in an *Error.
// ErrInterrupted means that the kernel's state changed too fast to be read.
package rtnl
