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
// A Source reads the kinds that Kinds lists. It sends the resources to its receiver, usually a
// calcgraph.Runner:
//
//	source, err := kubernetes.New(kubernetes.Config{Client: client, Dynamic: dynamic, Node: "n1"})
//	...
//	err = source.Run(ctx, runner)
//
// A program that already has informers can share them with the Source: set Config.Informers. Use
// Transform to remove the unused fields of their objects. Without informers, the Source stores no
// API objects. It stores less than 200 bytes for each pod, and the converted resources of other
// objects.
//
// In a CNI daemon, make three calls during ADD: Source.Attach, Source.Barrier, and WaitEndpoint of
// the dataplane.Driver. When these calls have returned, the policy of the pod is in the kernel,
// even if the API does not have the pod's address yet.
//
// # Reading
//
// The Source reads each kind separately. It is in sync once it has a complete list of every kind.
// The kinds that Config.Omit names and the kinds that the server does not have do not count.
//
//   - List: the Source requests the list as the first part of a watch (sendInitialEvents). Servers
//     support this by default from Kubernetes 1.34 on. From other servers, the Source reads the
//     list in pages.
//   - Watch: each watch continues where the last one ended. If the server has compacted that part
//     of its history (410 Gone), the Source lists the kind again. Until the new list is complete,
//     the Source sends no changes of the kind, except endpoints of attached pods.
//   - Failure: while a kind cannot be read, its last objects stay, and Status has the reason. If
//     the kind was never read, for example for lack of rights, the Source is not in sync, and the
//     dataplanes program nothing.
//   - Kind not served: if the server does not have a kind, the Source treats the kind as empty. It
//     looks for the kind about once a minute. If the server has the kind only in API versions that
//     the Source does not read, the kind counts as a failure.
//   - Filter: the Source does not read Pods without a node, Pods that have ended, and
//     EndpointSlices without a service.
//
// # Restored servers
//
// The Source makes two checks, which docs/datastore.md describes, to detect that a server was
// restored from a backup. If a check detects a restore, the Source lists the kind again. The Source
// misses a restore if both of these conditions hold:
//
//   - No request fails before the next watch begins.
//   - When the next watch begins, the server's resourceVersion has again reached the last one that
//     the Source received.
//
// Therefore start a new Source after each restore.
//
// If the server serves another cluster, for example because it lost its data, the UID of the
// namespace kube-system changes. The Source then reads nothing from this server: the last objects
// stay, and Status has the reason. To accept the new cluster, start a new Source. Kinds that are
// read through Config.Informers are not protected in this way.
//
// # Unknown fields and duplicate pod CIDRs
//
// A policy may have fields that this version of the package does not know. The effect depends on
// the place of the field:
//
//   - In an Allow or Log rule: the rule matches nothing.
//   - In any other rule: the rule denies every packet that reaches it.
//   - Outside of the rules: the whole policy is left out.
//
// Hooks.Problems receives the reason. The documentation of package manifest has the details. In
// Namespaces, ServiceAccounts, Nodes, Pods and EndpointSlices, the Source ignores unknown fields.
//
// If two Nodes have the same pod CIDR, the block belongs to the Node whose name sorts first.
//
// # RBAC
//
// The Source needs the verbs get, list and watch for the kinds that it reads. It reads Calico's
// kinds in the API group projectcalico.org (v3), not in crd.projectcalico.org.
//
// # Concurrency
//
// A Source is safe for concurrent use. Run can be called once. It calls its receiver from one
// goroutine at a time.
//
// # Errors
//
// Run returns the error of its context or its receiver. Errors of the API server do not end Run:
// they are in Status, and the Source retries. The wait before a retry grows from 0.5 s to 15 s,
// plus up to half of that at random. Errors have the prefix "kubernetes:".
package kubernetes
