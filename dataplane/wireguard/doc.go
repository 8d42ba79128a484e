// SPDX-License-Identifier: Apache-2.0

// Package wireguard encrypts traffic between nodes with WireGuard.
//
// Packets between two nodes are encrypted once all of this holds on both nodes:
//
//   - Keys: the node has received both Node resources, its own and the other's, with their public keys.
//   - Device: it is up, and has the private key and the UDP port. Packets from the other node reach the port.
//   - Peer: the device has the other node's key as a peer, with the addresses behind it as allowed IPs.
//   - Route: the routing table of the Dataplane has a route to these addresses by the device, and a rule makes the
//     kernel use the table.
//
// Without keys, packets are sent unencrypted. Without the device, the peer or the route by the device, they are
// dropped. Without the rule, they may be sent unencrypted.
//
//	events ──▶ Dataplane ──▶ remote nodes ──▶ wgctrl ──▶ wg.way, wg2.way
//	              │
//	              └────────▶ routes.Keeper ──▶ devices, a routing table, rules, sysctls
//
// A node has one device or two, each with a key of its own. It announces the public keys in its Node resource
// (policy.Node.WireguardKeys). It encrypts packets to the addresses of nodes that do so too: to their workloads, to
// their WireGuard addresses and, with Config.HostEncryption, to the nodes themselves. Traffic with other nodes stays
// unencrypted. Policy applies to the inner packets, which enter by the device.
//
// # What is programmed
//
// A Dataplane has a routing table of its own. For this node's block 10.65.1.0/26 and the block 10.65.2.0/26 of a node
// n2, it programs
//
//	ip route add blackhole 10.65.1.0/26 table main metric 2147483648
//	ip link add wg.way mtu 1420 type wireguard
//	ip route add 10.65.2.0/26 dev wg.way table 22361 src 10.65.1.0
//	ip route add blackhole 10.65.2.0/26 table 22361 metric 2147483648
//	ip rule add from 192.0.2.1 goto 101 priority 99
//	ip rule add from all lookup 22361 priority 100
//	ip rule add from all nop priority 101
//
// and a peer of the device with n2's key, whose allowed IPs include the block. The blackhole route in table 22361 drops
// packets while the device is missing or down. The one in table main drops decrypted packets to workloads that have no
// route yet, which would otherwise leave unencrypted by the default route. It is installed before the peers.
//
// Rules of the first priority are exceptions: they skip the lookup. Without Config.HostEncryption there is one for
// each address of this node: its answers are unencrypted, as the requests are. With HostEncryption, there is one for
// the UDP port of each device. Config.UnencryptedHosts adds two for each prefix. A prefix inside an encrypted one that
// is not encrypted itself, such as that of a local workload, gets a route of type throw.
//
// With Config.RequireEncryption, an nftables table drops unencrypted packets from nodes that this node encrypts to.
//
// In a Driver, a Dataplane comes before the one that programs unencrypted routes, such as routes.Dataplane. It
// encrypts a prefix before the later dataplane adds the unencrypted route. It ends the encryption of a prefix in
// Finish, after the later dataplane has removed that route.
//
// # When traffic is encrypted
//
// A node encrypts packets to another node once it has received the keys of both. From then on it drops packets that
// cannot be encrypted: if the other node does not answer, or if two nodes announce the same key. If this node's keys
// are later removed from its resource, it still encrypts until Teardown or a restart.
//
// # Rotation of keys
//
// With two devices and Config.KeyLifetime, each key is replaced at that age, without packet loss. First the node
// announces that it rotates the key of one device. The other nodes move their traffic with this node to the other
// device, once that has completed a handshake, and this node does the same. Then the node replaces the key and
// announces the new one. Each device has keys of its own on both sides. So a node can decrypt a packet whichever
// announcement the other node has received.
//
// # Private keys
//
// A private key is generated on the node. It is in the kernel and in a file of mode 0600, and in no event, error, log
// or plan. Teardown keeps the file, so that the node keeps its keys.
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
// The methods of a Dataplane are for one goroutine at a time, except Watch, which may run concurrently with them.
//
// # Errors
//
// Apply and Resync return a join of *dataplane.ApplyError. Object is the remote node or host endpoint at fault, or this
// node if a key file, a device or a route is at fault: packets are then dropped. If packets may pass unencrypted, the
// error has no Object: the Driver then withholds InSync and new or changed routes from later dataplanes. Causes are
// ErrKey, ErrRemoteNode, ErrHostEndpoint, those of package routes, or the kernel's errno.
package wireguard
