// SPDX-License-Identifier: Apache-2.0

// Command explain shows which connections the policies in manifests of Kubernetes and Calico allow,
// and why. It needs no cluster and no privileges. For example, it can check the policies in a pull
// request.
//
// # Usage
//
// The folder testdata has the manifests of a small shop, and a file of expectations:
//
//	explain why testdata/shop --from shop/api-0 --to shop/db-0 --port tcp/5432
//	explain matrix testdata/shop --port http --external 198.51.100.7
//	explain selects testdata/shop
//	explain check testdata/shop --expect testdata/expect.yaml
//	explain diff testdata/shop proposed
//
// The commands are:
//
//   - why: shows every tier, policy and rule that applies to a flow.
//   - matrix: shows which pods can reach which other pods.
//   - selects: lists the endpoints that each policy selects. It fails if a policy selects none.
//   - check: compares manifests with a file of expectations.
//   - diff: shows which verdicts change between two versions of the manifests. It tries the ports
//     of the flag --port or, without the flag, all ports that the policies distinguish.
//
// With --json, each command prints JSON. `explain help COMMAND` has the details.
//
// Each pod needs a node and an address (spec.nodeName, status.podIPs), as in the output of "kubectl
// get pods -o yaml". Manifests in a repository usually do not have them. With --assume, the command
// invents missing nodes and addresses, and lists them on the error output. It makes no pods from a
// Deployment: the manifests must contain the pods themselves.
//
// The command leaves out two kinds of pods, and lists them: pods that have ended, and pods with
// host networking. For a pod with host networking, policy sees only the address of the node.
//
// # Concurrency
//
// The command only reads files. Several processes may run at once.
//
// # Errors
//
// The exit status is one of these:
//
//   - 0: the result is positive. For example, the flow is allowed, all expectations are met, or
//     nothing changes.
//   - 1: the result is negative.
//   - 2: an error, or an invalid command line.
//   - 3: no policy applies to the flow. Only "explain why" has this exit status.
//
// If the command does not understand an object, it prints the object's name and the reason on the
// error output. It computes the result without the object. Because such a result may be wrong, the
// exit status is then 2, unless --allow-rejected is set.
package main
