// SPDX-License-Identifier: Apache-2.0

// Package kubernetes reads desired state from the API of a Kubernetes cluster.
//
//	API server ── lists and watches ──▶ Source ──▶ datastore.Receiver   (on every node)
//	CNI plugin ── Attach, Detach ─────▶
//
// It is a separate module, so that programs without it do not depend on client-go. The documentation
// of package convert lists the resources that each object is converted to.
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
// A program that has informers shares them in Config.Informers. Transform removes the unused fields
// of their objects. Without informers, the Source keeps no API objects. It keeps less than 200 bytes
// for each pod, and the converted resources of other objects.
//
// In a CNI daemon, call Attach in ADD, then Barrier, and then WaitEndpoint of the dataplane.Driver. So
// the policy of a pod is in force before the pod's first packet, even if the API does not have the
// pod's address yet.
//
// # Reading
//
// The Source is in sync once it has a complete list of every kind, except those that Config.Omit
// names and those that the server does not have. Each kind is read separately:
//
//   - List: it arrives at the beginning of a watch (sendInitialEvents, the default from Kubernetes
//     1.34 on), and otherwise in pages.
//   - Watch: the next one continues where the last one ended. If the server has compacted its
//     history (410 Gone), the kind is listed again. The Source sends the changes at the end of the
//     list, and endpoints of attached pods at once.
//   - Backup: when a watch has begun, the Source queries the server's resourceVersion. If that is
//     smaller than the Source's last one, the server was restored from a backup, and the kind is
//     listed again. Some time after a restore, the server reaches the Source's last resourceVersion
//     again, with other objects. After a failed request, the Source therefore checks its last changes
//     at the server: one object that changed, and the objects that were deleted later. If the server
//     has these changes, too, the watch continues. If not, or if nothing has changed since the last
//     list, the kind is listed again. The Source misses a restore if no request failed and the server
//     has reached the Source's last resourceVersion before the next watch.
//   - Another cluster: if the UID of the namespace kube-system changes, the server serves another
//     cluster, for example because it lost its data. Nothing is read from it: the last objects
//     stay, and Status has the reason. To accept the new cluster, start a new Source. Kinds that
//     Config.Informers reads are not protected in this way.
//   - Failure: while a kind cannot be read, its last objects stay, and Status has the reason. If it
//     was never read, for example for lack of rights, the Source is not in sync, and nothing is
//     programmed.
//   - Kind not served: it has no objects, and the Source looks for it about once a minute. If the
//     server has a kind only in API versions that the Source does not read, that is a failure.
//   - Filter: Pods without a node, Pods that have ended, and EndpointSlices without a service are
//     not read.
//
// # Unknown fields and duplicate pod CIDRs
//
// Policies are read with all fields that the server has. If this version of the package does not know
// a field of a rule, an Allow or Log rule matches nothing, and any other rule denies everything from
// its place on. If it does not know a field outside of the rules, the object is left out. Package
// manifest has the details. Hooks.Problems receives the reason. The field is never ignored, because
// it may narrow what a rule allows. Unknown fields of the kinds that Config.Client reads, such as
// Pods, are ignored: they have no effect on policy.
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
// Run returns the error of its context or its receiver. Errors of the API server do not end it:
// they are in Status, and the Source retries with exponential backoff, from 0.5 s up to 15 s, plus
// up to half at random. Errors have the prefix "kubernetes:".
package kubernetes
