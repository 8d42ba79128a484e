// SPDX-License-Identifier: Apache-2.0

// Package routes programs the routes to workloads on this node and on other nodes. For these, it
// also programs neighbour and proxy entries, VXLAN devices with their forwarding databases,
// IP-in-IP devices, policy routing rules, and the sysctls of interfaces.
//
//	events ──▶ Dataplane ──▶ objects ──▶ Keeper ──▶ desired ┐
//	           (translates)                                 ├▶ changes, batched ──▶ kernel
//	           kernel notifications and dumps ──▶ observed ─┘                       │
//	                    ▲───────────────────────────────────────────────────────────┘
//
// A Keeper keeps objects in the kernel. It adds the objects that were passed to Set, and removes
// all other objects that are ours (see Ownership). You can use a Keeper without a Dataplane. A
// Dataplane translates the events of the calculation graph into objects of a Keeper. For example,
// if an endpoint has the interface cali1, the MAC address 66:3e:ca:a4:db:65 and the addresses
// 10.0.0.1 and 2001:db8::1, the kernel gets these objects:
//
//	sysctl -w net/ipv4/conf/cali1/forwarding=1
//	sysctl -w net/ipv6/conf/cali1/forwarding=1
//	ip neigh replace 10.0.0.1 lladdr 66:3e:ca:a4:db:65 dev cali1 nud permanent protocol 219
//	ip -6 neigh replace 2001:db8::1 lladdr 66:3e:ca:a4:db:65 dev cali1 nud permanent protocol 219
//	ip route add 10.0.0.1/32 dev cali1 scope link proto 219 table 254
//	ip -6 route add 2001:db8::1/128 dev cali1 proto 219 metric 1024 table 254
//
// A block is a prefix of addresses that one node gives to its workloads. The next example has three
// blocks of other nodes: 10.65.2.0/26 is reached through a VXLAN device, 10.66.2.0/26 through an
// IP-in-IP device, and 10.65.3.0/26 directly. For them, the kernel gets these objects:
//
//	bridge fdb replace 66:03:ca:a4:db:01 dev vxlan.way dst 192.0.2.7 self permanent
//	ip neigh replace 10.65.2.0 lladdr 66:03:ca:a4:db:01 dev vxlan.way nud permanent protocol 219
//	ip route add 10.65.2.0/26 via 10.65.2.0 dev vxlan.way onlink proto 219 table 254
//	ip route add 10.66.2.0/26 via 192.0.2.7 dev ipip.way onlink proto 219 table 254
//	ip route add 10.65.3.0/26 via 192.0.2.8 dev eth0 proto 219 table 254
//
// # Ownership
//
// The objects that a Keeper may change or remove are called ours. A Keeper recognises them by what
// the kernel stores with them, so it also recognises them after a restart of the program:
//
//   - routes in the configured tables, permanent neighbour entries, proxy entries and rules: by the
//     configured protocol number;
//   - tunnel devices: by an alias that contains the protocol number;
//   - entries of forwarding databases: by their device, which is ours.
//
// All other objects belong to other processes and are called foreign. A Keeper never changes or
// deletes foreign objects. If a foreign object is in the place of a desired object, the desired
// object is not added, and Apply returns ErrForeign for it. There is one exception: the foreign
// object may be a route or neighbour entry that is identical to the desired one. Then nothing is
// added, and Apply returns no error. If the other process later deletes this object, Apply returns
// ErrCeded.
//
// Sysctls have no owner. They are written where they differ from the desired value. When an
// endpoint is removed, its sysctls keep their values. They disappear with the endpoint's interface.
//
// # Rules
//
// Several routes may be desired for one destination, table and metric. Then the kernel gets only
// one of them. The field Class of Route gives each route a precedence, and the route with the
// highest precedence is programmed. When that route is deleted, the next one takes its place.
//
// Objects are added before others are removed. A route that changes is replaced in one step, so
// that packets always find a route. Only a route that cannot be replaced in one step is deleted
// first. If the kernel refuses the replacement, the old route is deleted, because packets must not
// go to its next hop any more.
//
// If two endpoints have the same address, the kernel gets the route to the endpoint with the
// smaller key. Apply returns ErrContested for the other endpoint until the first is removed.
// Link-local IPv6 addresses need no route and get none. If the field Down of an endpoint is set,
// the endpoint keeps its routes; package nft drops all of its packets.
//
// The calculation graph sends an EndpointUpdate for each workload of this node, and a RouteUpdate
// for each address of the workload. A Dataplane makes the routes to the workload from the
// EndpointUpdate and ignores this RouteUpdate. The reason is that the Driver sends an
// EndpointUpdate to this package only when the policy of the endpoint is in the kernel. So no
// workload gets a route before its policy.
//
// An endpoint whose interface does not exist or is down is reported as ApplyError.Down until the
// interface is up. The Driver does not count that as a failure. A route over an interface is only
// added once the interface's sysctls are set. Otherwise, if a sysctl such as rp_filter were
// missing, the kernel could accept packets that it must drop.
//
// If an endpoint's interface is a port of one of Config.Bridges, packets already reach the workload
// over the route to the bridge's subnet. Such an endpoint gets no objects until the interface
// leaves the bridge.
//
// A route through a tunnel is programmed only while this node has an address for this kind of
// tunnel, in the family of the route. If the kernel lacks the encapsulation of a tunnel, there are
// no routes through the tunnel. Apply then returns a *dataplane.FeatureError for this node, and one
// for each node that would be reached through the tunnel. It returns these errors until the
// kernel's module is loaded.
//
// # Repair
//
// The kernel sends notifications about objects that another process removes or changes. While Watch
// runs, it repairs these objects at once. Otherwise the next Apply repairs them. Watch also adds
// the objects of an interface that appears or returns. For a few sysctls, among them forwarding,
// rp_filter and proxy_ndp, the kernel sends notifications as well. For other sysctls and for proxy
// entries it sends none: only Resync repairs these.
//
// # Forwarding
//
// The kernel forwards an IPv4 packet if the sysctl forwarding of its incoming interface is set.
// This package sets it for the interfaces of endpoints and for tunnel devices. The interfaces by
// which packets come from other nodes, such as eth0, need this sysctl as well. Either the
// administrator sets it, or Config.ForwardAllIPv4 makes this package set
// net.ipv4.conf.all.forwarding.
//
// The kernel forwards IPv6 packets only if the sysctl net.ipv6.conf.all.forwarding is set. It
// concerns all interfaces at once, and it also changes how they treat router advertisements.
// Therefore this package sets it only if Config.ForwardAllIPv6 is set. (The IPv6 sysctl of a single
// interface does not affect forwarding: it only makes the interface ignore router advertisements.)
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
// A Keeper may be used from any goroutine. Call the methods of a Dataplane from one goroutine, as
// the Driver does. The exceptions are Watch and Stats, which may be called from other goroutines at
// the same time.
//
// # Errors
//
// Apply and Resync of a Keeper return a join of *ObjectError, one for each object at fault. Apply,
// Resync and Teardown of a Dataplane return a join of *dataplane.ApplyError, one for each endpoint
// or node at fault. The causes are ErrNoInterface, ErrInterfaceDown, ErrForeign, ErrCeded,
// ErrContested, ErrEndpoint, ErrObject, ErrTunnel, a *dataplane.FeatureError or the kernel's errno.
//
// Any other error, or an ApplyError whose field Object is empty, has one of these causes:
//
//   - The connection to the kernel failed.
//   - The endpoint or node of an object no longer exists, but the object could not be removed.
//
// New and NewKeeper return all problems of their config.
package routes
