// SPDX-License-Identifier: Apache-2.0

// Package kubernetes reads desired state from the API of a Kubernetes cluster.
//
//	API server ── lists and watches ──▶ Source ──▶ datastore.Receiver   (on every node)
//	CNI plugin ── Attach, Detach ─────▶
//
// It is a module of its own, so that nobody else gets client-go.
package kubernetes
