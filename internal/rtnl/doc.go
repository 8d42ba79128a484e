// SPDX-License-Identifier: Apache-2.0

// Package rtnl speaks rtnetlink: links, addresses, routes, neighbour and forwarding entries and
// rules of one network namespace, with the fields that say who owns them.
//
// # Usage
//
//	conn, err := rtnl.Dial(rtnl.Config{Namespace: fd})
//	err = conn.Routes(rtnl.RouteFilter{Family: 4, Table: 254, Protocol: 219}, restart, each)
//	var b rtnl.Batch
//	b.AddRoute(&rtnl.Route{...})
//	b.DeleteNeighbour(&rtnl.Neighbour{...})
//	err = conn.Do(&b, func(i int, err error) { ... }) // for each change that the kernel refused
//
// A batch goes out in as few system calls as the answers allow: the kernel answers a message that
// it refused, and the last one of each call. Never are there more messages in a call than answers
// fit into the socket's buffer.
//
// Lists go through one loop that reads again when the kernel says that a dump was
// interrupted by a change, also where it says so only in the last message.
//
// # Concurrency
//
// A Conn is for one goroutine, and so is a Monitor, but for Wait.
//
// # Errors
//
// What the kernel refuses is an *Error with its errno and its own words. It also is ErrExist,
// ErrNotFound or ErrDown, for errors.Is. ErrInterrupted: the kernel's state changed
// too fast to be read.
package rtnl
