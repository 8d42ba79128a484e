// SPDX-License-Identifier: Apache-2.0

// Package badday judges what the probers of the bad days measured: it reads their lines from the
// log folders of nodes, attributes losses to what Kubernetes itself loses, and writes a table.
package badday
