// SPDX-License-Identifier: Apache-2.0

// Package kubernetes reads desired state from the API of a Kubernetes cluster.
//
//	API server ── lists and watches ──▶ Source ──▶ datastore.Receiver   (on every node)
//	CNI plugin ── Attach, Detach ─────▶
//
// It is a module of its own, so that nobody else gets client-go. Package convert says what becomes of each
// object.
//
// # Usage
//
// A Source reads the kinds that Kinds lists, each if the server has it, and sends the resources to its receiver,
// usually a calcgraph.Runner:
//
//	source, err := kubernetes.New(kubernetes.Config{Client: client, Dynamic: dynamic, Node: "n1"})
//	...
//	err = source.Run(ctx, runner)
//
// A program that has informers shares them in Config.Informers. Transform is for such informers: it removes what
// is not used. Without them, the Source keeps no objects, only 150 bytes for each.
//
// A CNI daemon calls Attach in ADD, then Barrier, and then WaitEndpoint of its dataplane.Driver. So a pod has its
// policy before its first packet, although its status has no address yet.
//
// # Reading
//
// The Source is in sync once it has a complete list of every kind that the server has and Config.Omit does not
// name. Each kind is read by itself:
//
//   - A list arrives as the beginning of a watch (sendInitialEvents, from Kubernetes 1.34 on by default), and
//     otherwise in pages.
//   - If a watch ends, the next one continues where it ended. If the server no longer can, because it compacted its
//     history (410 Gone), everything is read again. The changes take effect at once, when the list is complete.
//   - Before it continues a watch, the Source asks for the server's revision. If that is smaller than the one it
//     has, the server was restored from a backup, and everything is read again. It does not notice a restored
//     server that has as many changes again as it lost before the Source is connected.
//   - If the namespace kube-system has another UID than at first, the server has another cluster, for example because
//     it lost its data. Nothing is read from it: the last objects stay, and Status has the reason. To accept it,
//     start a new Source. The kinds of Config.Informers have no such guard.
//   - While a kind cannot be read, its last objects stay, and Status has the reason. A kind that could never be
//     read, for example for want of rights, keeps the Source from being in sync, so nothing is programmed.
//   - A kind that the server does not have has no objects. The Source asks for it about once a minute. If the
//     server has it only in other versions, it counts as one that cannot be read.
//   - Of Pods, only those are read that have a node and have not ended; of EndpointSlices, those of a service.
//
// # Objects that are not understood
//
// Policies are read with all fields that the server has. A field that this version does not know closes its rule
// or leaves out its object, as package manifest describes, and Hooks.Problems receives the reason. It is never
// ignored: an unknown field may narrow what a rule allows. For the kinds of Config.Client unknown fields have no
// effect on policy.
//
// If two Nodes have one pod CIDR, the first by name has the block.
//
// # Rights
//
// The Source needs the verbs get, list and watch for the kinds that it reads. The resources of Calico are those
// of the group projectcalico.org in version v3.
//
// # Concurrency
//
// A Source is safe for concurrent use, and runs once. It calls its receiver from one goroutine at a time.
//
// # Errors
//
// Run returns the error of its context or its receiver. Nothing that goes wrong between the Source and the server
// ends it: that is in Status, and the Source tries again after half a second to 15 seconds. Errors have the prefix
// "kubernetes:".
package kubernetes
