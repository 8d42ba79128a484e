// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"net"
	"net/netip"
)

// End describes one end of a veth pair.
type End struct {
	NS   *NS
	Name string
}

// Link is a network interface.
type Link struct {
	Name  string
	Index int
	MAC   net.HardwareAddr
}

// Workload is a namespace that represents a container, linked to a node.
type Workload struct {
	// NS is the workload's namespace. The caller closes it.
	NS *NS
	// Addresses of the workload's only interface eth0.
	Addresses []netip.Addr
	// Host is the node's side of the link, Link the workload's.
	Host, Link Link
}
