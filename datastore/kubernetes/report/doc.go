// SPDX-License-Identifier: Apache-2.0

// Package report writes what a node agent knows back to the Kubernetes API.
//
//	kubernetes.Source ── Problems, Accepted, Deleted ──▶           ┌─▶ Events: on objects at fault (by the leader),
//	calcgraph.Hooks ──── Rejected, Doubt ──────────────▶ Reporter ─┤          on pods of this node
//	dataplane.Driver ─── Endpoints, Ready ─────────────▶           ├─▶ ClusterNetworkPolicy: condition Accepted
//	Config ───────────── Revisions, Barrier ───────────▶           │                               (by the leader)
//	                                                               ├─▶ Node: NetworkUnavailable=False, annotation
//	                                                               └─▶ NodeReport of the node ──▶ Applied
//
// All nodes know all objects. One of them, the leader, writes for all: the holder of the Lease
// kube-system/wayleave-reporter. If it dies, another one leads after about two minutes. It compares
// the conditions of all policies, and writes those that differ. If the Lease is forbidden, the node
// does not lead, and writes the rest.
//
// # Usage
//
// A Reporter gets its input from the hooks of the others, and runs beside them:
//
//	reporter, err := report.New(report.Config{Client: client, Dynamic: dynamicClient, Node: node, ...})
//	hooks := kubernetes.Hooks{Problems: reporter.Problems, Accepted: reporter.Accepted, Deleted: reporter.Deleted}
//	graph := calcgraph.Config{Node: node, Hooks: calcgraph.Hooks{Rejected: reporter.Rejected, Doubt: reporter.Doubt}}
//	go reporter.Run(ctx)
//	go reporter.Endpoints(driver.EndpointChanges(ctx))
//	reporter.Ready() // once the first complete state is in the kernel
//
// kubernetes.Hooks says when a Source calls its hooks.
//
// CRD is the manifest of the NodeReports, for kubectl apply. Without it, the rest is written. After
// a policy was written, Applied says which nodes have it:
//
//	progress, err := report.Applied(ctx, dynamicClient, "networkpolicies.networking.k8s.io", policy.ResourceVersion)
//	fmt.Println(progress, progress.Complete()) // 2/3 false
//
// # What is written
//
// Events have the type Warning and a reason of this package: ReasonRejected, ReasonRuleClosed,
// ReasonFieldIgnored or ReasonNotProgrammed. Their note names the first fields and causes, in at
// most 1,024 bytes. A problem gets one Event, also if it is reported again or by another leader; a
// problem that comes back counts it up. client-go's correlator combines many Events of one object.
// A node writes 20 Events, then one a second, and 100 conditions, then ten a second. Events of
// objects without namespace are in the namespace "default".
//
// The condition Accepted of a ClusterNetworkPolicy is False if the policy has no effect, or if a
// rule is closed. True means that all its fields are understood. Whether nodes have programmed it
// is in their reports.
//
// The Node's condition and annotation are checked every one or two minutes, and written again if
// they are gone. They stay when the agent ends, because pods keep their network. Another writer may
// give the condition another reason.
//
// The report of a node is written when it changes, at most each Config.Interval, and every four to
// five minutes.
//
// # Rights
//
// The ClusterRole of the agent needs these rights, besides those to read:
//
//	""                             events                         create, patch
//	""                             pods                           get
//	""                             nodes                          get, patch
//	""                             nodes/status                   patch
//	policy.networking.k8s.io       clusternetworkpolicies         get
//	policy.networking.k8s.io       clusternetworkpolicies/status  patch
//	wayleave.dev                   nodereports                    get, create, update
//	coordination.k8s.io            leases                         get, create, update (in kube-system)
//
// The right to get the objects of other kinds gives Events the UID of an object that only the graph
// rejects. For Applied, a caller lists nodes and nodereports.
//
// # Concurrency
//
// The methods of a Reporter are safe for concurrent use. All but Run and Endpoints only record, and
// may be called in hooks. The goroutine of Run sends all requests but those for the Lease, one
// after the other.
//
// # Errors
//
// Run ends with the error of its context, or at once with ErrRunning. Requests that fail are tried
// again, after at most 5 minutes, unless the object is gone or the server does not accept the
// content. Stats has the last errors, and the Logger gets each once. Applied returns
// ErrNotInstalled without the CRD.
package report
