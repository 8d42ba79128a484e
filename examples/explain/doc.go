// SPDX-License-Identifier: Apache-2.0

// Command explain answers from Kubernetes and Calico manifests alone who may talk to whom, and why.
// It needs no cluster and no rights, so it runs as a check of a pull request.
//
// # Usage
//
// The folder testdata has a small shop to try it on, and a file of expectations:
//
//	explain why testdata/shop --from shop/api-0 --to shop/db-0 --port tcp/5432
//	explain matrix testdata/shop --port http --external 198.51.100.7
//	explain selects testdata/shop
//	explain check testdata/shop --expect testdata/expect.yaml
//	explain diff testdata/shop proposed
//
// why walks through every tier, policy and rule that has a say. matrix draws who reaches whom.
// selects lists the endpoints that each policy selects, and fails if one selects none. check holds
// manifests against a file of expectations. diff shows which verdicts a change of the manifests
// changes, on every port that matters unless it is told which. Each writes JSON with --json, and
// `explain help COMMAND` tells more.
//
// Pods need a node and an address (spec.nodeName, status.podIPs), as they have in what "kubectl get
// pods -o yaml" prints. With --assume those that are missing are invented, and listed on the error
// output, so that pods of a repository can be checked. The pods of a Deployment are not made up. A
// pod with the network of its node is no pod to policy and is judged by the node's address, and one
// that is not running cannot be asked about; both are said.
//
// # Concurrency
//
// The command touches nothing but its output. Any number may run at a time.
//
// # Errors
//
// The exit status is 0 if the answer is yes (allowed; all expectations hold; nothing changes), 1 if
// it is no, 2 for an error or a command line that makes no sense, and 3 if why finds that no policy
// has a say. Objects that cannot be understood are printed on the error output and make the status
// 2, since the answer is about a world without them; --allow-rejected says that this is fine.
package main
