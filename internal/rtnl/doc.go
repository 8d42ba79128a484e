// SPDX-License-Identifier: Apache-2.0

// Package rtnl reads and changes the network of one namespace by rtnetlink. It lists links, addresses, routes, rules,
// neighbours and entries of forwarding databases, with the fields that identify their owner. In batches, it changes
// routes, rules, neighbours and entries of forwarding databases. It also receives notifications. To change single links
// and addresses, use the handle of vishvananda/netlink that Conn.Handle returns; docs/design.md has the reasons for two
// libraries.
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
// If objects change while the kernel dumps a list, the list may be inconsistent. The kernel then sets the flag
// NLM_F_DUMP_INTR, sometimes only in the last message of the dump, and the package reads the list again.
//
// # Concurrency
//
// Only one goroutine at a time may use a Conn. The same is true for a Monitor, except for its
// method Wait.
//
// # Errors
//
// If the kernel refuses a request, the error is an *Error with the kernel's errno and explanation. The methods of a
// Handle return only the errno. errors.Is finds ErrExist, ErrNotFound and ErrDown in an *Error. ErrInterrupted means
// that changes interrupted several dumps in a row.
package rtnl
