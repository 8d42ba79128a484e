// SPDX-License-Identifier: Apache-2.0

// Package routes programs the way to local workloads: host routes, neighbour entries
// and the sysctls of their interfaces.
//
//	EndpointUpdate ──▶ desired ──▶ addresses to look at ──▶ changes ──▶ kernel
//	                                        ▲                              │
//	                   Resync: all of them ─┴──── routes and entries of ours ◀┘
//
// For an endpoint with interface cali1, MAC 66:3e:ca:a4:db:65 and addresses 10.0.0.1 and 2001:db8::1 the kernel gets
//
//	sysctl -w net/ipv4/conf/cali1/forwarding=1
//	sysctl -w net/ipv6/conf/cali1/forwarding=1
//	ip neigh replace 10.0.0.1 lladdr 66:3e:ca:a4:db:65 dev cali1 nud permanent protocol 219
//	ip -6 neigh replace 2001:db8::1 lladdr 66:3e:ca:a4:db:65 dev cali1 nud permanent protocol 219
//	ip route add 10.0.0.1/32 dev cali1 scope link proto 219 table 254
//	ip -6 route add 2001:db8::1/128 dev cali1 proto 219 metric 1024 table 254
//
// # Ownership
//
// Ours are the routes in Config.Table and the permanent neighbour entries that carry
// Config.Protocol; both survive a restart of the program. What another made is never changed and never
// deleted: where it stands in the way of an endpoint's route, that endpoint is at fault, with
// ErrForeign. Sysctls have no owner: they are written where they differ, and stay when an endpoint goes (its
// interface goes with it).
//
// # Rules
//
// Removals come before additions. If two endpoints have the same address, the one with the smaller key has
// it, and the other is at fault, with ErrContested, until that one goes. Link-local IPv6 addresses need no
// route and get none. An endpoint that is down keeps its routes: dropping its
// traffic is policy. An endpoint whose interface does not exist or is down is at fault until
// a later Apply or Resync finds it there; Watch says when to Resync. Every Apply knows which interfaces have been down
// since, if only for a moment, and gives them back what the kernel then took. If an interface's sysctls
// cannot be set, no route over it is added: without them traffic could pass that should not.
//
// # Forwarding
//
// IPv4 is forwarded where the interface that a packet comes in on has forwarding set, which is done
// for each endpoint's. IPv6 is forwarded where net.ipv6.conf.all.forwarding is set, for all interfaces
// at once; an interface's own setting only stops it from acting on router advertisements.
// As the former changes how the node's other interfaces treat router advertisements, it is only written
// where Config.ForwardAllIPv6 asks for it.
//
// # Usage
//
//	d, err := routes.New(routes.Config{Sysctls: []routes.Sysctl{{Family: 4, Name: "rp_filter", Value: "1"}}})
//	...
//	defer d.Close()
//	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{policy, d}})
//	go d.Watch(ctx, func() { _ = driver.Resync(ctx) }) // errors are in the driver's status
//
// # Concurrency
//
// A Dataplane is for one goroutine, as the Driver has it. Watch alone may run beside it.
//
// # Errors
//
// Apply, Resync and Teardown return a join of *dataplane.ApplyError, one for each endpoint at fault. Their causes
// are ErrNoInterface, ErrInterfaceDown, ErrForeign, ErrContested, ErrEndpoint or the kernel's errno. An ApplyError without an object: the
// kernel could not be talked to, or a route that belongs to no endpoint any more could not be removed.
// New returns all problems of its Config.
package routes
