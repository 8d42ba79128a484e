// SPDX-License-Identifier: Apache-2.0

// Command agent is a complete node agent that is built from the library. It reads Kubernetes and
// Calico objects, and programs the policy and routes of one node. docs/agent.md is the
// documentation for users. If you write an agent of your own, you can copy from this one: New and
// Run of internal/pipeline connect all parts.
//
// # Usage
//
//	agent run --manifests DIR      program this node, and react to changes
//	agent run --etcd ENDPOINTS     the same, with objects in an etcd that all nodes share
//	agent apply --etcd ENDPOINTS -f FILE   write manifests to that etcd
//	agent demo                     build a small node in a namespace and measure it with real packets
//	agent status                   show the state of the running agent, over its socket
//	agent explain shop/web data/db tcp/5432   show whether policy allows a flow, and why
//	agent plan DIR                 show the changes that other manifests would cause
//	agent verify                   prove that the kernel enforces the policy of this node
//	agent ruleset --manifests DIR  show the nftables rules for a node, program nothing
//
// `agent help` lists all commands, and `agent help COMMAND` has the details of one.
//
// # Concurrency
//
// Two agents that run at the same time must use different sockets. In the same network namespace,
// they must also use different nftables tables. docs/agent.md names other settings that must differ
// on one node.
//
// # Errors
//
// The exit code is 0 after a success, 1 after a failure, and 2 for an invalid command line. The
// command demo also ends with 1 if a packet's result is not the one that policy requires. The
// command verify is different: it ends with 1 if the kernel does not enforce the policy, and with 2
// after a failure.
package main
