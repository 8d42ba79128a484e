// SPDX-License-Identifier: Apache-2.0

// Package rtnl reads and changes the network of one namespace by rtnetlink. It lists links,
// addresses, routes, rules, neighbours, and the entries of forwarding databases, with the fields
// that identify their owner. It changes routes, rules, neighbours and these entries in batches, and
// receives notifications. Single links and addresses are changed by a handle of
// vishvananda/netlink; docs/design.md has the reasons.
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
// Do sends a batch in few system calls. The kernel answers each message that it refuses, and the last message of each
// call. Do limits the messages in a call, so that the socket's buffer can hold an answer to each.
//
// If a change interrupts the dump of a list, the list is read again. The kernel marks this with the flag
// NLM_F_DUMP_INTR, sometimes only in the last message of the dump.
//
// # Concurrency
//
// Only one goroutine at a time may use a Conn. The same is true for a Monitor, except for its
// method Wait.
//
// # Errors
//
// If the kernel refuses a request, the error is an *Error with its errno and explanation. The methods
// of a Handle return the errno alone. errors.Is finds ErrExist, ErrNotFound and ErrDown in an *Error.
// ErrInterrupted means that the kernel's state changed too fast to be read.
package rtnl
