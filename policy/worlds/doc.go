// SPDX-License-Identifier: Apache-2.0

// Package worlds makes random resources and packets for tests that compare two implementations of
// policy. A world is all resources of a cluster at one moment. The worlds are small. They use few labels,
// addresses, ports and names, so that rules, objects and packets often match.
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
// Equal configurations give equal sequences, so a failing test need only print its seed. Another
// version of this package may make other worlds from that seed.
//
// # Shapes
//
//   - Tiers: "sec", "ops" and "nowhere", with either default action, with or without an order. Policies
//     are in these tiers, in built-in tiers, and in tiers without a resource.
//   - Policies: global and in two namespaces; one in six is staged; with and without order and types;
//     up to Config.Rules rules in a direction.
//   - Rules: every action and every field but services. Lists of ports have numbers, ranges and names.
//   - Profiles: "p1", "p2", "kns.a" and "kns.b", with rules and labels. Each endpoint lists some of them, in
//     this order.
//   - Endpoints: on Node and on another node, with up to two addresses and two named ports; one in
//     twelve is down.
//   - Network sets: up to four prefixes, of all lengths from a single address to /0.
//   - Addresses: 10.0.0.1 to .8, 192.0.2.1 to .8 and fd00::1 to fd00::8.
//   - Invalid resources: one in twenty, unless Config.OnlyValid is set. An implementation must treat an
//     invalid resource as if it did not exist. The exception is a policy in which only rules are
//     invalid: these rules are closed, see policy.Rule.Close.
//
// With Config.Open, resources have the same shapes, but more of the rules are reached by packets: fewer
// packets are denied by the end of a tier before.
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
