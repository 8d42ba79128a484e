// SPDX-License-Identifier: Apache-2.0

// Package flows converts the arguments of agent explain, two parties and a port, to flows: the
// first packets of connections between the parties. It also explains the decisions of policy about
// these flows. The policy and the pods come from a verdict.World: all objects of the agent's
// sources.
//
// # Usage
//
//	list, err := flows.Parse(world, "shop/web", "data/db", "tcp/5432")
//	...
//	explanations, err := flows.Explain(world, list, origins)
//
// # Concurrency
//
// Parse and Explain do not change the verdict.World, and may be called from several goroutines.
//
// # Errors
//
// Parse returns a *PortError for an invalid port, a *PartyError for a party that does not exist,
// and another error if there is no flow between the parties.
package flows
