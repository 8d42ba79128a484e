// SPDX-License-Identifier: Apache-2.0

// Package report writes the findings and the progress of a node agent to the Kubernetes API.
//
//	kubernetes.Source ── Problems, Converted, Deleted ─▶           ┌─▶ Events: on objects at fault (by the leader),
//	calcgraph.Hooks ──── Rejected, Doubt ──────────────▶ Reporter ─┤          on pods of this node
//	dataplane.Driver ─── Endpoints, Ready ─────────────▶           ├─▶ ClusterNetworkPolicy: condition Accepted
//	Config ───────────── Revisions, Barrier ───────────▶           │                               (by the leader)
//	                                                               ├─▶ Node: NetworkUnavailable=False, annotation
//	                                                               └─▶ NodeReport of the node ──▶ Applied
//
// All nodes read all objects. One node, the leader, writes for all nodes: it holds the Lease
// kube-system/wayleave-reporter. If the leader fails, another node becomes the leader after about
// two minutes. The new leader compares the conditions of all policies with those that they must
// have, and writes those that differ. A node without rights to the Lease never becomes the leader.
// It writes only its Node, its NodeReport, and Events on its pods.
//
// # Usage
//
// A Reporter receives its input from a kubernetes.Source, a calcgraph.Graph (below: the graph) and
// a dataplane.Driver:
//
//	reporter, err := report.New(report.Config{Client: client, Dynamic: dynamicClient, Node: node, ...})
//	hooks := kubernetes.Hooks{Problems: reporter.Problems, Converted: reporter.Converted, Deleted: reporter.Deleted}
//	graph := calcgraph.Config{Node: node, Hooks: calcgraph.Hooks{Rejected: reporter.Rejected, Doubt: reporter.Doubt}}
//	go reporter.Run(ctx)
//	go reporter.Endpoints(driver.EndpointChanges(ctx))
//	reporter.Ready() // once the first complete state is in the kernel
//
// The documentation of kubernetes.Hooks describes when a Source calls the hooks.
//
// CRD returns the CustomResourceDefinition of NodeReports. Install it with kubectl apply. Without
// the CRD, a Reporter writes everything else, but no NodeReports. After you have written a policy,
// Applied returns which nodes have applied the policy:
//
//	progress, err := report.Applied(ctx, dynamicClient, "networkpolicies.networking.k8s.io", policy.ResourceVersion)
//	fmt.Println(progress, progress.Complete()) // 2/3 false
//
// # What is written
//
// Events have the type Warning and one of the reasons ReasonRejected, ReasonRuleClosed,
// ReasonFieldIgnored and ReasonNotProgrammed. The message names the first fields that are at fault,
// with the reasons, in at most 1,024 bytes. There is one Event for a problem, even if the problem
// is reported again or by another leader. If the problem is solved and occurs again, the count of
// the Event increases. If one object has many Events, client-go's correlator combines them. Events
// of objects without a namespace are in the namespace "default".
//
// These limits apply to the writes of one node:
//
//   - Events on pods of the node: one a second, after a burst of 20.
//   - Events on objects at fault, which only the leader writes: also one a second, after a burst of
//     20.
//   - Conditions of policies, which only the leader writes: ten a second, after a burst of 100.
//
// The condition Accepted of a ClusterNetworkPolicy is False if the policy has no effect, or if a
// rule is not understood. True means that all its fields are understood. The NodeReports show which
// nodes have programmed the policy.
//
// Once Ready has been called, a Reporter writes the condition NetworkUnavailable=False and the
// annotation wayleave.dev/ready=true to its Node. It checks both every one to two minutes, and
// writes them again if they are missing or have another value. Both stay when the agent ends,
// because pods keep their network. If another program changes the reason of the condition
// NetworkUnavailable, the Reporter does not change the reason back.
//
// A Reporter writes the NodeReport of its node when the report changes, but at most once per
// Config.Interval, and at least every five minutes. For each kind of object, the NodeReport has the
// resourceVersion up to which all changes are in the kernel. To find this version, the Reporter
// calls two functions. Config.Revisions returns the versions up to which the Source has received
// all changes. Config.Barrier then returns once these changes are in the kernel.
//
// # Rights
//
// The ClusterRole of the agent needs these rights, besides those of the Source:
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
// In the rule for leases, limit get and update to the resourceName wayleave-reporter. Otherwise the
// agent could change the other Leases in kube-system, which belong to the control plane.
//
// If the Source accepts an object but the graph rejects it, the Reporter must read the object's UID
// for the Event. For that, it needs the right to get objects of the kind. A caller of Applied needs
// the right to list nodes and nodereports.
//
// # Concurrency
//
// The methods of a Reporter are safe for concurrent use. Only Run and Endpoints block. All other
// methods return without sending a request, so they may be called in hooks. Run sends all requests
// from one goroutine, except those for the Lease.
//
// # Errors
//
// Run returns the error of its context, or ErrRunning if another call of Run has not returned. If a
// request fails, the Reporter repeats it after at most 5 minutes. It does not repeat a request if
// the object is gone or the server does not accept the content. Stats has the last errors. The
// Reporter logs each error once. Without the CRD, Applied returns ErrNotInstalled.
package report
