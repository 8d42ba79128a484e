// SPDX-License-Identifier: Apache-2.0

// Package rtnl speaks rtnetlink: links, routes and neighbour entries of one network
// namespace, with the fields that say who owns them.
//
// # Usage
//
//	conn, err := rtnl.Dial(rtnl.Config{Namespace: fd})
//	routes, err := conn.Routes(rtnl.RouteFilter{Family: 4, Table: 254, Protocol: 219})
//	err = conn.AddRoute(rtnl.Route{...})
//
// Lists go through one loop that reads again when the kernel says that a dump was
// interrupted by a change, also where it says so only in the last message.
//
// # Concurrency
//
// A Conn is for one goroutine, and so is a LinkMonitor.
//
// # Errors
//
// What the kernel refuses is an *Error with its errno and its own words. It also is ErrExist,
// ErrNotFound or ErrDown, for errors.Is. ErrInterrupted: the kernel's state changed
// too fast to be read.
package rtnl
