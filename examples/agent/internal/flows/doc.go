// SPDX-License-Identifier: Apache-2.0

// Package flows turns what people ask about, two parties and a port, into flows, and explains these.
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
// A *PortError for a port that makes no sense, a *PartyError for a party that is not there, and any other if the two
// have no flow.
package flows
