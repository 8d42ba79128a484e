// SPDX-License-Identifier: Apache-2.0

// Package worlds makes random resources and packets for tests that compare two implementations of
// policy. A world is all resources of a cluster at one moment. The worlds are small. They use few
// labels, addresses, ports and names, so that rules, objects and packets often match.
//
// # Usage
//
// World returns a whole world, Update returns one change, and Packet returns the first packet of a
// connection:
//
//	gen := worlds.New(worlds.Config{Seed: seed})
//	for _, r := range gen.World() {
//		graph.Update(policy.Update{Key: r.Key(), Resource: r})
//	}
//	graph.Update(gen.Update())
//	packet := gen.Packet()
//
// Two Generators with equal configurations return equal sequences. So a failing test need only
// print its seed. Another version of this package may make other worlds from that seed.
//
// # Shapes
//
//   - Tiers are named "sec", "ops" and "nowhere". Their default action is Deny or Pass. Some have
//     an order. Policies are in these tiers, in built-in tiers, and in tiers without a resource.
//   - Policies are global, or in one of two namespaces. Some have an order, and some have types. A
//     policy has up to Config.Rules rules in each direction. One policy in six is staged.
//   - Rules have every action, and use every field except services. Lists of ports have numbers,
//     ranges and names.
//   - Profiles are named "p1", "p2", "kns.a" and "kns.b", and have rules and labels. Each endpoint
//     lists some of them, in this order.
//   - Endpoints are on the node that the constant Node names, or on another node. An endpoint has
//     up to two addresses and up to two named ports. One endpoint in twelve is down.
//   - Network sets have up to four prefixes. The lengths of the prefixes vary from a single address
//     to /0.
//   - Addresses are 10.0.0.1 to 10.0.0.8, 192.0.2.1 to 192.0.2.8 and fd00::1 to fd00::8.
//   - One resource in twenty is invalid, unless Config.OnlyValid is set. An implementation must
//     treat an invalid resource as if it did not exist. The exception is a policy in which only
//     rules are invalid: these rules are closed, as policy.Rule.Close describes.
//
// By default, the default action of the first tier denies most packets. With Config.Open, packets
// reach more rules, because most tiers have the default action Pass.
//
// There are no host endpoints, services, nodes, pools or blocks.
//
// # Concurrency
//
// A Generator is for one goroutine at a time.
//
// # Errors
//
// There are none.
package worlds
