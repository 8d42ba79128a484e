// SPDX-License-Identifier: Apache-2.0

// Package wireguard encrypts traffic between nodes with WireGuard. docs/wireguard.md says which
// packets are encrypted, and what is in the kernel.
//
// A node has one or two WireGuard devices, each with a key of its own. It announces its public keys
// in its Node resource (policy.Node.WireguardKeys). If another node announces keys, too, the node
// encrypts packets to these addresses:
//
//   - the workloads of the other node;
//   - the WireGuard addresses of the other node;
//   - with Config.HostEncryption, the other node itself.
//
// Packets to nodes without keys stay unencrypted. Packets to the workloads of a node whose Node
// resource is missing are dropped, because the node may have keys. Policy applies to the inner
// packets, which enter and leave through the WireGuard devices.
//
// A Dataplane makes the devices, a routing table and policy routing rules with a routes.Keeper. It
// configures keys and peers with the Go package wgctrl:
//
//	events ──▶ Dataplane ──▶ remote nodes ──▶ wgctrl ──▶ wg.way, wg2.way
//	              │
//	              └────────▶ routes.Keeper ──▶ devices, a routing table, rules, sysctls
//
// # When packets are encrypted
//
// A node encrypts packets to another node once it has received the public keys of both nodes. From
// then on, the node drops packets that it cannot encrypt, for example while the device is down. If
// a policy routing rule, a blackhole route or the nftables table cannot be installed, packets may
// leave unencrypted, and Apply returns an error.
//
// If the node's keys are later removed from its Node resource, the node still encrypts until
// Teardown or until a new Dataplane is used, as after a restart.
//
// # What is programmed
//
// A Dataplane has a routing table of its own. In this example, this node has the address 192.0.2.1
// and gives its workloads addresses from the block (a prefix) 10.65.1.0/26. The node n2 has the
// block 10.65.2.0/26. The Dataplane programs
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
// Because of the rule with priority 100, packets to n2's workloads leave by the device wg.way. The
// two blackhole routes keep packets from leaving unencrypted:
//
//   - The route in table 22361 drops packets to n2 while the device is missing or down.
//   - The route in table main drops decrypted packets to a workload of this node that has no route
//     yet. It is installed before the peers.
//
// Rules of the first priority (99 above) are exceptions. A packet that matches an exception skips
// table 22361, so no device encrypts the packet. There are these exceptions:
//
//   - Without Config.HostEncryption: packets from each address in this node's Node resource.
//   - With HostEncryption: packets from the UDP port of each device, which are encrypted already.
//   - For each prefix of Config.UnencryptedHosts: packets from the prefix, and packets to it.
//
// docs/wireguard.md explains the other objects: routes of type throw, for unencrypted addresses in
// encrypted prefixes, and the nftables table of Config.RequireEncryption and HostEncryption.
//
// # Order of dataplanes
//
// In DriverConfig.Dataplanes, list this Dataplane before the one that programs unencrypted routes,
// such as routes.Dataplane. Then no packet to an encrypted prefix uses an unencrypted route:
//
//   - When another node gets a prefix, this Dataplane begins to encrypt before the other dataplane
//     adds its route.
//   - When the node loses the prefix, this Dataplane ends the encryption in Finish, after the other
//     dataplane has removed its route.
//
// # Rotation of keys
//
// If a node has two devices and Config.KeyLifetime is set, it replaces each key at that age:
//
//  1. The node announces in its Node resource that it rotates the key of one device.
//  2. Each remote node moves its traffic with this node to the other device, once the other device
//     has completed a handshake. This node does the same.
//  3. The node replaces the key of the first device, which is now unused, and announces the new
//     key.
//
// Steps 2 and 3 come only after the announcement is in the resource. Without Config.Announce, the
// caller must therefore write the result of Keys whenever it changes.
//
// No packets are lost, even if a remote node receives an announcement late. The first device keeps
// its old key until no remote node uses the device. The key of the other device does not change.
// There is one exception. Packets from a remote node may be lost if both of these conditions hold:
//
//   - The remote node had no connection with this node.
//   - The remote node receives the first announcement later than Config.RotationDelay.
//
// # Private keys
//
// A private key is generated on the node. It is stored in the kernel and in a file of mode 0600.
// Events, errors, logs and plans never contain it. Teardown keeps the file.
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
// Only one goroutine at a time may call the methods of a Dataplane. Watch is the exception: it may
// run concurrently with the other methods.
//
// # Errors
//
// Apply and Resync return a join of *dataplane.ApplyError. Its Object identifies what is at fault:
//
//   - A remote node: packets to it are dropped.
//   - This node: a key file, a device or a route is at fault, and packets are dropped.
//   - A host endpoint: its policy does not apply to encrypted packets (ErrHostEndpoint).
//   - No object: packets may pass unencrypted. The Driver then sends neither InSync nor any new or
//     changed route to later dataplanes.
//
// The cause of an error is ErrKey, ErrRemoteNode, ErrHostEndpoint, an error of package routes, or
// the kernel's errno.
package wireguard
