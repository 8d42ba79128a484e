// SPDX-License-Identifier: Apache-2.0

// Command explain shows which connections Kubernetes and Calico manifests allow, and why. It needs no cluster and no
// rights, so it can check a pull request.
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
// why shows every tier, policy and rule that applies to a flow. matrix shows which pods reach which others. selects
// lists the endpoints that each policy selects, and fails if one selects none. check compares manifests with a file of
// expectations. diff shows which verdicts change between two versions of the manifests, on the ports of its flags or on
// all ports that the policies distinguish. With --json, each prints JSON. `explain help COMMAND` has the details.
//
// Pods need a node and an address (spec.nodeName, status.podIPs), as in the output of "kubectl get pods -o yaml". With
// --assume, missing ones are assumed, and listed on the error output, to check manifests of a repository. The pods of a
// Deployment are not made. For policy, a pod on the host's network is not a pod, but an address of its node. A pod that
// has ended has no flows. Such pods are listed.
//
// # Concurrency
//
// The command only reads files. Several may run at once.
//
// # Errors
//
// The exit status is 0 if the result is positive (allowed; all expectations are met; nothing changes), 1 if it is
// negative, 2 for an error or an invalid command line, and 3 if no policy applies to the flow of why. Objects that are
// not understood are printed on the error output. The result does not include them, so the exit status is 2, unless
// --allow-rejected is set.
package main
