// SPDX-License-Identifier: Apache-2.0

// Command agent is a node agent that uses Wayleave. It reads Kubernetes and Calico manifests, and programs the policy
// and routes of one node. You can copy from it: New and Run of internal/pipeline connect all parts. docs/agent.md is
// its documentation.
//
// # Usage
//
//	agent run --manifests DIR      program this node, and react to changes
//	agent run --etcd ENDPOINTS     the same with objects in an etcd that nodes share, and reports to it
//	agent apply --etcd ENDPOINTS -f FILE   write manifests to that etcd
//	agent demo                     build a small node in a namespace and measure it with real packets
//	agent status                   and other requests to the running agent, over its socket
//	agent explain shop/web data/db tcp/5432
//	agent plan DIR                 what other manifests would change
//	agent verify                   prove that the kernel enforces the policy of this node
//	agent ruleset --manifests DIR  show the nftables rules for a node, program nothing
//
// `agent help COMMAND` has the details of each.
//
// # Concurrency
//
// One agent at a time may use a network namespace and table, and a socket.
//
// # Errors
//
// The exit code is 0 after a success. It is 1 after a failure (and in the demo, if packets and policy disagree), and 2
// for an invalid command line. That of verify is 1 if the kernel differs, and 2 after a failure.
package main
