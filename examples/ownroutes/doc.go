// SPDX-License-Identifier: Apache-2.0

// Command ownroutes keeps routes in a separate table, and rules that look it up. So packets to a prefix use the given
// gateway, and not the route of the main table. It uses a routes.Keeper, and nothing else of the library.
//
//	arguments ─▶ routes.Route, routes.Rule ─▶ routes.Keeper ─▶ rtnetlink
//	                                            ▲ Watch: deleted objects, new interfaces
//
// # Usage
//
// It needs CAP_NET_ADMIN. An argument is a prefix and its gateway. A link-local gateway is followed by a percent sign
// and its interface:
//
//	ownroutes 10.20.0.0/16=192.0.2.7 2001:db8:20::/48=fe80::7%eth0
//
// A route or rule that another process deletes is added again. If the interface to a gateway does
// not exist yet, its route follows once it does; until then, the main table decides. When the
// program is interrupted, it removes its routes and rules.
//
// # Concurrency
//
// Two processes with the same protocol number and table would remove each other's routes.
//
// # Errors
//
// Invalid arguments end the program with exit code 1, and so does the loss of the kernel's
// notifications. A route or rule at fault is logged and tried again, and all others are in the
// kernel.
package main
