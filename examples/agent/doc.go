// SPDX-License-Identifier: Apache-2.0

// Command agent is a node agent built from Wayleave: it reads Kubernetes and Calico manifests and
// programs the policy and routes of one node. Copy from it what you need: the wiring is all in
// internal/pipeline, in New and Run; docs/agent.md has the rest.
//
// # Usage
//
//	agent run --manifests DIR      program this node, and keep it right
//	agent run --etcd ENDPOINTS     program this node by what many nodes share in an etcd, and report there
//	agent apply --etcd ENDPOINTS -f FILE   write manifests to that etcd
//	agent demo                     build a small node in a namespace and measure it with real packets
//	agent status                   and other questions to the agent that is running, over its socket
//	agent explain shop/web data/db tcp/5432
//	agent plan DIR                 what other manifests would change
//	agent verify                   prove that the kernel enforces the policy of this node
//	agent ruleset --manifests DIR  show the nftables rules for a node, program nothing
//
// `agent help COMMAND` tells more of each.
//
// # Concurrency
//
// One process may run at a time for a network namespace and table, and for a socket.
//
// # Errors
//
// The exit code is 0 if all is well, 1 if something failed (or, in the demo, if packets and policy
// disagree) and 2 if the command line makes no sense. That of verify is 1 if something differs, and 2
// if it failed.
package main
