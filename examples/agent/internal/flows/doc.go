// SPDX-License-Identifier: Apache-2.0

// Package flows converts the arguments of the command "agent explain" into flows. The arguments are
// two parties and a port; a flow is the first packet of a connection between the parties. The
// package also explains the decisions of policy about these flows. The policy and the pods come
// from a verdict.World, which contains all objects of the agent's sources.
//
// # Usage
//
//	list, err := flows.Parse(world, "shop/web", "data/db", "tcp/5432")
//	...
//	explanations, err := flows.Explain(world, list, origins)
//
// The function origins returns the places of rules in manifests, as file and line.
//
// # Concurrency
//
// Parse and Explain do not change the verdict.World, and may be called from several goroutines.
//
// # Errors
//
// Parse returns a *PortError for an invalid port, and a *PartyError for a party that does not
// exist. It returns another error if there is no flow between the parties.
package flows
