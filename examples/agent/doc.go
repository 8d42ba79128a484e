// SPDX-License-Identifier: Apache-2.0

// Command agent is a node agent built from Wayleave: it reads Kubernetes and Calico manifests and
// programs the policy and routes of one node. It is small on purpose: copy from it what you need.
// The wiring is all in internal/pipeline, in one function.
//
// # Usage
//
//	agent run --manifests DIR      program this node, and keep it right
//	agent ruleset --manifests DIR  show the nftables rules for a node, program nothing
//	agent explain --manifests DIR shop/web data/db tcp/5432
//	agent demo                     build a small node in a namespace and measure it with real packets
//
// `agent help COMMAND` tells more of each.
//
// # Concurrency
//
// One process may run at a time for a network namespace and table.
//
// # Errors
//
// The exit code is 0 if all is well, 1 if something failed (or, in the demo, if packets and policy disagree)
// and 2 if the command line makes no sense.
package main
