// SPDX-License-Identifier: Apache-2.0

// Command explain shows which connections the policies in manifests of Kubernetes and Calico allow,
// and why. It needs no cluster and no rights. For example, it can check a pull request.
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
//     that the flag --port gives, or else all ports that the policies distinguish.
//
// With --json, each command prints JSON. `explain help COMMAND` has the details.
//
// Each pod needs a node and an address (spec.nodeName, status.podIPs), as in the output of "kubectl
// get pods -o yaml". Manifests in a repository usually do not have them. With --assume, the command
// makes up missing nodes and addresses, and lists them on the error output. The command makes no
// pods from a Deployment: the manifests must contain the pods themselves.
//
// The command does not evaluate flows of two kinds of pods, but lists these pods: pods on the
// host's network, because policy sees only an address of the node, and pods that have ended.
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
//   - 3: the command is why, and no policy applies to the flow.
//
// The command prints the objects that it does not understand on the error output. The result does
// not include them. Therefore the exit status is then 2, unless --allow-rejected is set.
package main
