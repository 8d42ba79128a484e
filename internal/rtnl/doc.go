// SPDX-License-Identifier: Apache-2.0

// Package rtnl reads and changes the network of one namespace by rtnetlink:
//
//   - A Conn lists links, addresses, routes, rules, neighbours and entries of forwarding databases,
//     with the fields that identify their owner.
//   - A Batch changes routes, rules, neighbours and entries of forwarding databases.
//   - A Monitor receives notifications.
//
// To change links and addresses, use the handle of vishvananda/netlink that Conn.Handle returns.
// docs/design.md has the reasons for two libraries.
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
// If objects change while the kernel dumps a list, the package reads the list again.
//
// # Concurrency
//
// Only one goroutine at a time may use a Conn, or call the methods of a Monitor except Wait.
//
// # Errors
//
// If the kernel refuses a request, the error is an *Error with the kernel's errno and explanation.
// The methods of a Handle return only the errno. errors.Is finds ErrExist, ErrNotFound and ErrDown
// in an *Error. ErrInterrupted means that changes interrupted several dumps in a row.
package rtnl
