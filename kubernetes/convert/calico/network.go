// SPDX-License-Identifier: Apache-2.0

package calico

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// IPPool is a range of addresses for workloads.
type IPPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec of the pool.
	Spec IPPoolSpec `json:"spec"`
}

// IPPoolSpec is the content of an IPPool.
type IPPoolSpec struct {
	// CIDR of the pool.
	CIDR string `json:"cidr"`
	// VXLANMode: "Never", "Always" or "CrossSubnet". Empty means Never.
	VXLANMode string `json:"vxlanMode,omitempty"`
	// IPIPMode: "Never", "Always" or "CrossSubnet". Empty means Never.
	IPIPMode string `json:"ipipMode,omitempty"`
	// NATOutgoing turns source NAT on for packets from an address of the pool to an address outside
	// of all pools.
	NATOutgoing bool `json:"natOutgoing,omitempty"`
	// Disabled means that no new addresses are assigned from the pool.
	Disabled bool `json:"disabled,omitempty"`
	// IPIP of an older API is not supported: use ipipMode.
	IPIP Unsupported `json:"ipip,omitempty"`
	// OldNATOutgoing of an older API is not supported: use natOutgoing.
	OldNATOutgoing Unsupported `json:"nat-outgoing,omitempty"`
	// DisableBGPExport is about BGP.
	DisableBGPExport Ignored `json:"disableBGPExport,omitzero"`
	// BlockSize is for the assignment of addresses.
	BlockSize Ignored `json:"blockSize,omitzero"`
	// NodeSelector is for the assignment of addresses.
	NodeSelector Ignored `json:"nodeSelector,omitzero"`
	// NamespaceSelector is for the assignment of addresses.
	NamespaceSelector Ignored `json:"namespaceSelector,omitzero"`
	// AllowedUses is for the assignment of addresses.
	AllowedUses Ignored `json:"allowedUses,omitzero"`
	// AssignmentMode is for the assignment of addresses.
	AssignmentMode Ignored `json:"assignmentMode,omitzero"`
}

// Node is a machine of the cluster.
type Node struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec of the node.
	Spec NodeSpec `json:"spec"`
	// Status of the node.
	Status NodeStatus `json:"status,omitzero"`
}

// NodeStatus has what Calico reports about a node.
type NodeStatus struct {
	// WireguardPublicKey is the public key of Calico's WireGuard device for IPv4.
	WireguardPublicKey string `json:"wireguardPublicKey,omitempty"`
	// WireguardPublicKeyV6 is the public key of Calico's second WireGuard device, for IPv6. In
	// Wayleave, one device serves both families.
	WireguardPublicKeyV6 Ignored `json:"wireguardPublicKeyV6,omitzero"`
	// PodCIDRs are for the assignment of addresses.
	PodCIDRs Ignored `json:"podCIDRs,omitzero"`
}

// NodeWireguardSpec has the addresses of the WireGuard device of a node.
type NodeWireguardSpec struct {
	// InterfaceIPv4Address of the device.
	InterfaceIPv4Address string `json:"interfaceIPv4Address,omitempty"`
	// InterfaceIPv6Address of the device.
	InterfaceIPv6Address string `json:"interfaceIPv6Address,omitempty"`
}

// NodeSpec is the content of a Node.
type NodeSpec struct {
	// BGP has the addresses with the length of their subnet.
	BGP *NodeBGPSpec `json:"bgp,omitempty"`
	// OrchRefs are the names of the node in orchestrators.
	OrchRefs Ignored `json:"orchRefs,omitzero"`
	// IPv4VXLANTunnelAddr is the address of the IPv4 VXLAN device.
	IPv4VXLANTunnelAddr string `json:"ipv4VXLANTunnelAddr,omitempty"`
	// IPv6VXLANTunnelAddr is the address of the IPv6 VXLAN device.
	IPv6VXLANTunnelAddr string `json:"ipv6VXLANTunnelAddr,omitempty"`
	// VXLANTunnelMACAddr of the IPv4 VXLAN device.
	VXLANTunnelMACAddr string `json:"vxlanTunnelMACAddr,omitempty"`
	// VXLANTunnelMACAddrV6 of the IPv6 VXLAN device.
	VXLANTunnelMACAddrV6 string `json:"vxlanTunnelMACAddrV6,omitempty"`
	// Wireguard has the addresses of the WireGuard device.
	Wireguard NodeWireguardSpec `json:"wireguard,omitzero"`
	// Addresses of the node in the cluster.
	Addresses []NodeAddress `json:"addresses,omitempty"`
}

// NodeBGPSpec has the BGP settings of a node.
type NodeBGPSpec struct {
	// IPv4Address of the node with the length of its subnet.
	IPv4Address string `json:"ipv4Address,omitempty"`
	// IPv6Address of the node with the length of its subnet.
	IPv6Address string `json:"ipv6Address,omitempty"`
	// ASNumber is about BGP.
	ASNumber Ignored `json:"asNumber,omitzero"`
	// IPv4IPIPTunnelAddr is the address of the IP-in-IP device.
	IPv4IPIPTunnelAddr string `json:"ipv4IPIPTunnelAddr,omitempty"`
	// RouteReflectorClusterID is about BGP.
	RouteReflectorClusterID Ignored `json:"routeReflectorClusterID,omitzero"`
}

// NodeAddress is an address of a node.
type NodeAddress struct {
	// Address, bare or with the length of its subnet.
	Address string `json:"address"`
	// Type: "InternalIP", "ExternalIP", "CalicoNodeIP" or empty. An address of any other type is
	// ignored.
	Type string `json:"type,omitempty"`
}
