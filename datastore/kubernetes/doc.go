// SPDX-License-Identifier: Apache-2.0

// Package kubernetes reads desired state from the API of a Kubernetes cluster.
//
//	API server ── lists and watches ──▶ Source ──▶ datastore.Receiver   (on every node)
//	CNI plugin ── Attach, Detach ─────▶
//
// The package is a separate module, so that programs without it do not depend on client-go. The
// documentation of package convert lists the resources that a Source makes from each object.
//
// # Usage
//
// A Source reads the kinds that Kinds lists, if the server has them. It sends the resources to its
// receiver, usually a calcgraph.Runner:
//
//	source, err := kubernetes.New(kubernetes.Config{Client: client, Dynamic: dynamic, Node: "n1"})
//	...
//	err = source.Run(ctx, runner)
//
// A program that already has informers can share them with the Source: set Config.Informers. Use
// Transform to remove the unused fields of their objects. Without informers, the Source stores no API
// objects. It stores less than 200 bytes for each pod, and the converted resources of other objects.
//
// In a CNI daemon, make three calls during ADD: Source.Attach, Source.Barrier, and WaitEndpoint of
// the dataplane.Driver. When these have returned, the policy of the pod is in the kernel, even if
// the API does not have the pod's address yet.
//
// # Reading
//
// The Source is in sync once it has a complete list of every kind, except those that Config.Omit
// names and those that the server does not have. Each kind is read separately:
//
//   - List: the Source requests the list as the first part of a watch (sendInitialEvents). Servers
//     support this by default from Kubernetes 1.34 on. From other servers, it reads the list in pages.
//   - Watch: each watch continues where the last one ended. If the server cannot continue there
//     because it has compacted its history (410 Gone), the Source lists the kind again. Until that
//     list is complete, the Source sends no changes of the kind, with one exception: it sends the
//     endpoints of attached pods at once.
//   - Backup: if the server was restored from a backup, the Source lists the kind again. The
//     section "Restored servers" below describes how the Source detects a restore.
//   - Another cluster: if the UID of the namespace kube-system changes, the server serves another
//     cluster, for example because it lost its data. The Source then reads nothing from this server:
//     the last objects stay, and Status has the reason. To accept the new cluster, start a new Source.
//     Kinds that are read through Config.Informers are not protected in this way.
//   - Failure: while a kind cannot be read, its last objects stay, and Status has the reason. If the
//     kind was never read, for example for lack of rights, the Source does not get in sync, and the
//     dataplanes program nothing.
//   - Kind not served: if the server does not have a kind, the Source treats it as a kind without
//     objects, and looks for it about once a minute. If the server has a kind only in API versions
//     that the Source does not read, the Source treats that as a failure (see Failure).
//   - Filter: the Source does not read Pods without a node, Pods that have ended, and EndpointSlices
//     without a service.
//
// # Restored servers
//
// When a server is restored from a backup, its resourceVersion goes back. Some time later, the
// server reaches the Source's last resourceVersion again, with other objects. So the Source makes
// two checks for each kind. If one of them fails, the Source lists the kind again.
//
// The first check comes at the beginning of each watch. It fails if the server's resourceVersion is
// smaller than the Source's last one.
//
// The second check comes after each failed request. For this check, the Source remembers the 16
// objects that changed last since the last list, each with its last event: an addition, an update or
// a deletion. It compares some of these events with the objects that the server has now. The check
// fails in each of these cases:
//
//   - All of these events are deletions, or there are none.
//   - The object of the latest addition or update no longer has the resourceVersion of that event.
//   - An object exists that was deleted later than the latest addition or update.
//
// Both checks miss a restore if no request failed meanwhile, and the server had already reached the
// Source's last resourceVersion when the next watch began.
//
// # Unknown fields and duplicate pod CIDRs
//
// A policy may have fields that this version of the package does not know. Such a field is never
// ignored, because it may narrow what a rule allows. If the field is in an Allow or Log rule, the rule
// matches nothing. If it is in any other rule, the rule denies every packet that reaches it. If the
// field is outside of the rules, the whole policy is left out. Hooks.Problems receives the reason. The
// documentation of package manifest has the details.
//
// Namespaces, ServiceAccounts, Nodes, Pods and EndpointSlices are no policies. The Source ignores their
// unknown fields, because these have no effect on policy.
//
// If two Nodes have the same pod CIDR, the block belongs to the Node whose name sorts first.
//
// # RBAC
//
// The Source needs the verbs get, list and watch for the kinds that it reads. It reads Calico's kinds
// in the API group projectcalico.org (v3), not in crd.projectcalico.org.
//
// # Concurrency
//
// A Source is safe for concurrent use. Run can be called once. It calls its receiver from one
// goroutine at a time.
//
// # Errors
//
// Run returns the error of its context or its receiver. Errors of the API server do not end Run: they
// are in Status, and the Source retries. The wait before a retry grows from 0.5 s to 15 s. A random
// time of up to half of the wait is added. Errors have the prefix "kubernetes:".
package kubernetes
