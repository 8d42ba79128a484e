// SPDX-License-Identifier: Apache-2.0

// Package wireguard encrypts traffic between nodes with WireGuard.
//
// Packets between two nodes are encrypted once all of the following holds on both nodes:
//
//   - Keys: the node has received its own Node resource and that of the other node, both with
//     public keys.
//   - Device: the WireGuard device is up, and has the private key and the UDP port. Packets from
//     the other node reach the port.
//   - Peer: the device has a peer with the other node's key. The allowed IPs of the peer are the
//     addresses behind the other node.
//   - Route: the routing table of the Dataplane has a route to these addresses over the device, and
//     a policy routing rule makes the kernel use the table.
//
// What happens to packets depends on what is missing:
//
//   - keys: packets are sent unencrypted;
//   - the device, the peer or the route over the device: packets are dropped;
//   - the rule: packets may be sent unencrypted.
//
// A Dataplane makes the devices, the routing table and the rules with a routes.Keeper. It
// configures keys and peers with the Go package wgctrl:
//
//	events ──▶ Dataplane ──▶ remote nodes ──▶ wgctrl ──▶ wg.way, wg2.way
//	              │
//	              └────────▶ routes.Keeper ──▶ devices, a routing table, rules, sysctls
//
// A node has one or two WireGuard devices, each with a key of its own. It announces its public keys
// in its Node resource (policy.Node.WireguardKeys). It encrypts packets to all other nodes that
// announce keys: to their workloads, to their WireGuard addresses and, with Config.HostEncryption,
// to the nodes themselves. Traffic with nodes without keys stays unencrypted. Policy applies to the
// inner packets. Packets of other nodes arrive, decrypted, by the WireGuard device.
//
// # What is programmed
//
// A Dataplane has a routing table of its own. A block is a prefix of addresses that one node gives
// to its workloads. For this node's block 10.65.1.0/26 and the block 10.65.2.0/26 of a node n2, it
// programs
//
//	ip route add blackhole 10.65.1.0/26 table main metric 2147483648
//	ip link add wg.way mtu 1420 type wireguard
//	ip route add 10.65.2.0/26 dev wg.way table 22361 src 10.65.1.0
//	ip route add blackhole 10.65.2.0/26 table 22361 metric 2147483648
//	ip rule add from 192.0.2.1 goto 101 priority 99
//	ip rule add from all lookup 22361 priority 100
//	ip rule add from all nop priority 101
//
// and a peer of the device with n2's key, whose allowed IPs include n2's block.
//
// The blackhole route in table 22361 drops packets while the device is missing or down. The
// blackhole route in table main drops decrypted packets to workloads that have no route yet:
// without it, such packets would leave unencrypted by the default route. Therefore it is installed
// before the peers.
//
// Rules of the first priority (99 above) are exceptions: a packet that matches such a rule skips
// the lookup in table 22361, and is sent unencrypted. There are these exceptions:
//
//   - without Config.HostEncryption, one for packets from each address of this node: requests to
//     the address are unencrypted, so the answers must be unencrypted, too;
//   - with HostEncryption, one for packets from the UDP port of each device, because these packets
//     are encrypted already;
//   - two for each prefix of Config.UnencryptedHosts: for packets from it and for packets to it.
//
// Inside a prefix to which packets are encrypted, there may be addresses to which they must not be
// encrypted. An example is a local workload with an address from the block of another node. For
// such addresses, table 22361 has a route of type throw. This route ends the lookup in this table,
// and the kernel goes on at the next rule.
//
// With Config.RequireEncryption, this node also has an nftables table. If this node encrypts
// packets to another node, the table drops unencrypted packets from that node.
//
// In DriverConfig.Dataplanes, list this Dataplane before the one that programs unencrypted routes,
// such as routes.Dataplane. Then no packet to an encrypted prefix uses an unencrypted route:
//
//   - When another node gets a prefix, this Dataplane first begins to encrypt packets to it. After
//     that, the other dataplane adds an unencrypted route.
//   - When the node loses the prefix, the other dataplane first removes the unencrypted route.
//     After that, this Dataplane ends the encryption, in Finish.
//
// # When traffic is encrypted
//
// A node encrypts packets to another node once it has received the public keys of both nodes. From
// then on it drops packets that cannot be encrypted, for example because the other node does not
// answer, or because two nodes announce the same key. If this node's keys are later removed from
// its Node resource, it goes on encrypting until Teardown or a restart.
//
// # Rotation of keys
//
// If a node has two devices and Config.KeyLifetime is set, it replaces each key at that age. No
// packets are lost:
//
//  1. The node announces in its Node resource that it rotates the key of one device.
//  2. Each remote node moves its traffic with this node to the other device, once the other device
//     has completed a handshake. This node does the same.
//  3. The node replaces the key of the first device, which is now unused, and announces the new
//     key.
//
// A remote node may receive these announcements late:
//
//   - Before the remote node has received the first announcement, it may still send to the first
//     device. This device keeps its old key until no remote node uses the device.
//   - Before the remote node has received the new key, it sends to the other device, whose key does
//     not change during the rotation.
//
// So the node that rotates can decrypt the packets in both cases.
//
// # Private keys
//
// A private key is generated on the node. It is stored in the kernel and in a file of mode 0600.
// Events, errors, logs and plans never contain it. Teardown keeps the file, so that the node has
// the same keys afterwards.
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
// Only one goroutine at a time may call the methods of a Dataplane. The exception is Watch, which
// may run concurrently with the other methods.
//
// # Errors
//
// Apply and Resync return a join of *dataplane.ApplyError. Its Object says what is at fault:
//
//   - A remote node: packets to it are dropped.
//   - This node: a key file, a device or a route is at fault, and packets are dropped.
//   - A host endpoint: its policy does not apply to encrypted packets (ErrHostEndpoint).
//   - No object: packets may pass unencrypted. The Driver then does not send InSync and new or
//     changed routes to later dataplanes.
//
// The cause of an error is ErrKey, ErrRemoteNode, ErrHostEndpoint, an error of package routes, or
// the kernel's errno.
package wireguard
