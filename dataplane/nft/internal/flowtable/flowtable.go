// SPDX-License-Identifier: Apache-2.0

package flowtable

import "net/netip"

// Config configures a Table.
type Config struct {
	// NetNS is a file descriptor of the network namespace, needed only during New. Zero means the
	// namespace of the calling thread.
	NetNS int
	// PolicyTable is the name of the table with the policy. The flowtable is in the table
	// PolicyTable + "-flowtable".
	PolicyTable string
	// Uplinks are the names of the node's interfaces to other hosts. Connections between a workload
	// and an uplink may use the fast path.
	Uplinks []string
}

// Address is an own address of a workload, with the workload's interface.
type Address struct {
	Interface string
	Addr      netip.Addr
}
