// SPDX-License-Identifier: Apache-2.0

// Command ownroutes keeps routes in a separate routing table, and rules that make the kernel use
// this table. Packets to a prefix then go to the given gateway, whatever the main table says. Of
// the library, the program uses only the package routes: a Keeper and its objects.
//
//	arguments ─▶ routes.Route, routes.Rule ─▶ routes.Keeper ─▶ rtnetlink
//	                                            ▲ Watch: deleted objects, new interfaces
//
// # Usage
//
// The program needs CAP_NET_ADMIN. Each argument is a prefix, an equals sign, and the gateway for
// the prefix. If the gateway is a link-local address, a percent sign and the interface to the
// gateway follow:
//
//	ownroutes 10.20.0.0/16=192.0.2.7 2001:db8:20::/48=fe80::7%eth0
//
// If another process deletes a route or rule, the program adds it again. If the interface to a
// gateway does not exist yet, the program adds the route once the interface exists; until then, the
// main table decides. When the program is interrupted, it removes its routes and rules.
//
// # Concurrency
//
// Two processes must not use the same protocol number and table: each of them would remove the
// routes of the other.
//
// # Errors
//
// The program ends with exit code 1 if the arguments are invalid, or if it cannot receive the
// kernel's notifications any more. If a route or rule cannot be added, the program logs that and
// tries again. All other routes and rules are in the kernel.
package main
