// SPDX-License-Identifier: Apache-2.0

// Package flows converts two parties and a port, as users write them, to flows, and explains these.
//
// # Usage
//
//	list, err := flows.Parse(world, "shop/web", "data/db", "tcp/5432")
//	...
//	explanations, err := flows.Explain(world, list, origins)
//
// # Concurrency
//
// Parse and Explain do not change the world, and may be called from several goroutines.
//
// # Errors
//
// A *PortError for an invalid port, a *PartyError for a party that does not exist, and any other error if the two have
// no flow.
package flows
