// SPDX-License-Identifier: Apache-2.0

// Package wireguard encrypts what nodes send to each other, in WireGuard devices.
//
//	events ──▶ Dataplane ──▶ peers, by node ──▶ wgctrl ──▶ wg.way, wg2.way
//	              │
//	              └────────▶ routes.Keeper ──▶ devices, a routing table, rules, sysctls
//
// A node has one device or two, each with a key of its own. It announces the public keys in its Node
// resource (policy.Node.WireguardKeys), and encrypts what goes to the addresses of nodes that do so too: to
// their workloads, to their WireGuard addresses and, with Config.HostEncryption, to the nodes themselves.
// Traffic with other nodes stays as it is. Policy sees the packets inside, which enter by the device.
//
// # What is programmed
//
// A Dataplane has a routing table of its own. For a node n2 with a block of addresses it gets
//
//	ip link add wg.way mtu 1420 type wireguard
//	ip route add 10.65.2.0/26 dev wg.way table 22361 src 10.65.1.0
//	ip route add blackhole 10.65.2.0/26 table 22361 metric 2147483648
//	ip rule add from 192.0.2.1 goto 101 priority 99
//	ip rule add from all lookup 22361 priority 100
//	ip rule add from all nop priority 101
//
// and the device gets n2 as a peer, with the block among its allowed addresses. The blackhole drops packets
// while the device is missing or down. The first rule is for each address of this node, without
// Config.HostEncryption: its answers are unencrypted, as the requests are. An address inside an encrypted
// prefix that belongs to another node or to a local workload gets a route of type throw.
//
// The third rule is where the first one goes on. With Config.RequireEncryption, an nftables table drops unencrypted
// packets from nodes that this node encrypts to.
//
// In a Driver, a Dataplane comes before the one that programs unencrypted routes, such as routes.Dataplane. It
// encrypts a prefix before the later dataplane adds the unencrypted route. It stops in Finish, after that route is
// removed.
//
// # When traffic is encrypted
//
// Between two nodes, traffic is encrypted from when a node sees both its own announcement and that of
// the other, and dropped if it cannot be: if the other does not answer, or if two nodes announce one key. If
// this node's keys are removed later, it encrypts until Teardown or a restart.
//
// # Rotation of keys
//
// With two devices and Config.KeyLifetime, each key is replaced at that age, without loss. The node announces
// that it rotates the key of one device. All nodes, itself included, move their traffic to the other device once
// that has completed a handshake. Then the node replaces the key and announces it. Each device has
// keys of its own on both sides, so receiving never depends on which announcement the other node has read.
//
// # Private keys
//
// A private key is made on the node and is in the kernel and in a file of mode 0600. It is in no event,
// error, log or plan. Teardown keeps the file, so that the node keeps its identity.
//
// # Usage
//
//	d, err := wireguard.New(wireguard.Config{
//		Node: "n1", Devices: []wireguard.Device{{KeyFile: "/var/lib/wayleave/wireguard.key"}}, Announce: announce,
//	})
//	...
//	defer d.Close()
//	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{policy, d, routing}})
//	go driver.Run(ctx) // runs d.Watch too
//
// # Concurrency
//
// A Dataplane is for one goroutine, as the Driver has it; Watch alone may run beside it.
//
// # Errors
//
// Apply and Resync return a join of *dataplane.ApplyError. The object is the peer node or host endpoint at
// fault, or this node if a key file, a device or a route is at fault: packets are dropped. There is none if
// packets may pass unencrypted; the Driver then withholds InSync and new or changed routes from later dataplanes.
// Causes are ErrKey, ErrPeer, ErrHostEndpoint, those of package routes, or the kernel's errno.
package wireguard
