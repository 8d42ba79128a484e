// SPDX-License-Identifier: Apache-2.0

// Package worlds makes random resources and packets for tests that compare two implementations of
// policy. The worlds are small, and the same few labels, addresses, ports and names meet often.
//
// # Usage
//
// World returns a whole world, Update one change at a time, and Packet the first packet of a
// connection:
//
//	gen := worlds.New(worlds.Config{Seed: seed})
//	for _, r := range gen.World() {
//		graph.Update(policy.Update{Key: r.Key(), Resource: r})
//	}
//	graph.Update(gen.Update())
//	packet := gen.Packet()
//
// Equal configurations give equal sequences, so a test that fails has to print its seed alone. A later
// version of this package may make other worlds of the same seed.
//
// # Shapes
//
//   - Tiers: "sec", "ops" and "nowhere", of either default action, with or without an order; policies
//     are also in built-in tiers, and in tiers that have no resource.
//   - Policies: global and in two namespaces; one in six is staged; with and without order and types;
//     up to Config.Rules rules in a direction.
//   - Rules: every action and every field but services. Lists of ports have numbers, ranges and names.
//   - Profiles: "p1", "p2", "kns.a" and "kns.b", with rules and labels. Endpoints list some, in order.
//   - Endpoints: on Node and on another node, with up to two addresses and two named ports; one in
//     twelve is down.
//   - Network sets: up to four prefixes, from a host's to the catch-all.
//   - Addresses: 10.0.0.1 to .8, 192.0.2.1 to .8 and fd00::1 to fd00::8.
//   - One resource in twenty is invalid, unless Config.OnlyValid is set. It counts as absent, except
//     for policies with invalid rules.
//
// With Config.Open the same occurs, and more rules decide about some packet.
//
// Host endpoints, services, nodes, pools and blocks do not occur.
//
// # Concurrency
//
// A Generator is for one goroutine.
//
// # Errors
//
// There are none.
package worlds
