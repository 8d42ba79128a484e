// SPDX-License-Identifier: Apache-2.0

// Command explain shows which connections Kubernetes and Calico manifests allow, and why. It needs
// no cluster and no rights. For example, it can check a pull request.
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
//   - diff: shows which verdicts change between two versions of the manifests, on the ports of its
//     flags, or on all ports that the policies distinguish.
//
// With --json, each command prints JSON. `explain help COMMAND` has the details.
//
// Pods need a node and an address (spec.nodeName, status.podIPs), as in the output of "kubectl get
// pods -o yaml". Manifests in a repository do not have them. With --assume, missing nodes and
// addresses are assumed, and listed on the error output. The command makes no pods from a
// Deployment: the manifests must contain the pods themselves. Two kinds of pods have no flows, and
// are listed: a pod on the host's network, which policy treats as an address of the node, and a pod
// that has ended.
//
// # Concurrency
//
// The command only reads files. Several processes may run at once.
//
// # Errors
//
// The exit status is one of these:
//
//   - 0: the result is positive (allowed; all expectations are met; nothing changes).
//   - 1: the result is negative.
//   - 2: an error, or an invalid command line.
//   - 3: no policy applies to the flow of why.
//
// Objects that are not understood are printed on the error output. Because the result does not
// include them, the exit status is then 2, unless --allow-rejected is set.
package main
