// SPDX-License-Identifier: Apache-2.0

// Package routes programs the ways to workloads, here and on other nodes: routes, neighbour and
// proxy entries, VXLAN devices with their forwarding databases, IP-in-IP devices, policy routing rules,
// and the sysctls of interfaces.
//
//	events ──▶ Dataplane ──▶ objects ──▶ Keeper ──▶ desired ┐
//	           (translates)                                 ├▶ changes, batched ──▶ kernel
//	           kernel notifications and dumps ──▶ observed ─┘                       │
//	                    ▲───────────────────────────────────────────────────────────┘
//
// A Keeper keeps objects in the kernel, and can be used alone: it adds the objects that were Set and
// removes all others of ours. A Dataplane translates the events of a graph into objects of a Keeper.
// For an endpoint with interface cali1, MAC 66:3e:ca:a4:db:65 and addresses 10.0.0.1 and 2001:db8::1
// the kernel gets
//
//	sysctl -w net/ipv4/conf/cali1/forwarding=1
//	sysctl -w net/ipv6/conf/cali1/forwarding=1
//	ip neigh replace 10.0.0.1 lladdr 66:3e:ca:a4:db:65 dev cali1 nud permanent protocol 219
//	ip -6 neigh replace 2001:db8::1 lladdr 66:3e:ca:a4:db:65 dev cali1 nud permanent protocol 219
//	ip route add 10.0.0.1/32 dev cali1 scope link proto 219 table 254
//	ip -6 route add 2001:db8::1/128 dev cali1 proto 219 metric 1024 table 254
//
// and for a block of another node, by way of a VXLAN device, of an IP-in-IP device or directly,
//
//	bridge fdb replace 66:03:ca:a4:db:01 dev vxlan.way dst 192.0.2.7 self permanent
//	ip neigh replace 10.65.2.0 lladdr 66:03:ca:a4:db:01 dev vxlan.way nud permanent protocol 219
//	ip route add 10.65.2.0/26 via 10.65.2.0 dev vxlan.way onlink proto 219 table 254
//	ip route add 10.66.2.0/26 via 192.0.2.7 dev ipip.way onlink proto 219 table 254
//	ip route add 10.65.3.0/26 via 192.0.2.8 dev eth0 proto 219 table 254
//
// # Ownership
//
// Ours are the routes in the configured tables, the permanent neighbour entries, the proxy entries
// and the rules that carry the configured protocol number; tunnel devices with an alias that names
// it, and whatever is in their forwarding databases. All of that survives a restart of the program.
// Objects of other processes are never changed and never deleted: if one is in the place of an object of ours,
// ours is at fault, with ErrForeign. A foreign route or neighbour entry that is identical to the desired one is
// accepted. If its owner deletes it, the endpoint is at fault with ErrCeded. Sysctls have no owner: they are
// written where they differ, and stay when an endpoint goes (its interface goes with it).
//
// # Rules
//
// Of several routes to one destination, table and metric the first Class is there; see there for the
// order. Additions come before removals. A route that changes is replaced in one step, so that packets
// always find one. Only a route that cannot be replaced in one step is deleted first. If the kernel refuses
// the replacement, the old route is deleted, because it leads to another place.
//
// If two endpoints have the same address, the one with the smaller key has it. The other is at fault with
// ErrContested until the first is removed. Link-local IPv6 addresses need no route and get none. An
// endpoint that is administratively down keeps its routes: dropping its traffic is policy.
//
// Only endpoints add routes to local workloads. The Driver holds an endpoint back until its policy is in
// the kernel. An endpoint whose interface does not exist or is down is reported as ApplyError.Down until
// the interface is up. The Driver does not count that as a failure. If an interface's sysctls cannot be
// set, no route over it is added: without them traffic could pass that should not.
//
// An endpoint whose interface is a port of one of Config.Bridges gets nothing: the route of the
// bridge's subnet leads to it. Its objects are added when the interface leaves the bridge.
//
// What goes through a tunnel is programmed while the node has a tunnel address of the family and
// encapsulation itself. If the kernel lacks the encapsulation, the node and all nodes behind its
// tunnels are at fault with a *dataplane.FeatureError, until the kernel's module is loaded.
//
// # Repair
//
// The kernel sends notifications about objects that another process removes or changes. The next
// Apply repairs them; Watch does so at once. Watch also configures an interface that appears or
// returns. Of the sysctls, the kernel sends notifications for forwarding, rp_filter, proxy_ndp and few
// others. It sends none for other sysctls and for proxy entries: Resync repairs those.
//
// # Forwarding
//
// IPv4 is forwarded where the interface that a packet comes in on has forwarding set, which is done
// for each endpoint's and for tunnel devices. IPv6 is forwarded where net.ipv6.conf.all.forwarding
// is set, for all interfaces at once; an interface's own setting only stops it from acting on
// router advertisements. net.ipv6.conf.all.forwarding changes how the node's other interfaces treat
// router advertisements, so it is written only if Config.ForwardAllIPv6 is set. The IPv4 setting of the
// interfaces to other nodes is the administrator's: it is written only if Config.ForwardAllIPv4 is set.
//
// # Usage
//
//	d, err := routes.New(routes.Config{Sysctls: []routes.Sysctl{{Family: 4, Name: "rp_filter", Value: "1"}}})
//	...
//	defer d.Close()
//	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{policy, d}})
//	go driver.Run(ctx) // runs d.Watch too
//
// or, without events,
//
//	k, err := routes.NewKeeper(routes.KeeperConfig{Protocol: 230, Tables: []uint32{100}})
//	k.Set(routes.Route{Dst: dst, Interface: "eth1", Gateway: gateway},
//		routes.Rule{Family: 4, Priority: 100, From: dst, Table: 100})
//	err = k.Apply(ctx)
//
// # Concurrency
//
// A Keeper may be used from any goroutine. A Dataplane is for one goroutine, as the Driver has it;
// Watch and Stats alone may run beside it.
//
// # Errors
//
// Apply and Resync of a Keeper return a join of *ObjectError, one for each object at fault; those
// of a Dataplane, and Teardown, a join of *dataplane.ApplyError, one for each endpoint or node at
// fault. Their causes are ErrNoInterface, ErrInterfaceDown, ErrForeign, ErrCeded, ErrContested,
// ErrEndpoint, ErrObject, ErrTunnel, a *dataplane.FeatureError or the kernel's errno. Any other error, and an
// ApplyError without an object: the connection to the kernel failed, or an object that no endpoint or node has any
// more could not be removed. New and NewKeeper return all problems of their config.
package routes
