// SPDX-License-Identifier: Apache-2.0

package calico

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// HostEndpoint is an interface of a node with policy.
type HostEndpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec of the endpoint.
	Spec HostEndpointSpec `json:"spec"`
}

// HostEndpointSpec is the content of a HostEndpoint.
type HostEndpointSpec struct {
	// Node that the interface belongs to.
	Node string `json:"node,omitempty"`
	// InterfaceName of the host; "*" means all interfaces.
	InterfaceName string `json:"interfaceName,omitempty"`
	// ExpectedIPs are the addresses of the interface.
	ExpectedIPs []string `json:"expectedIPs,omitempty"`
	// Profiles in order of precedence.
	Profiles []string `json:"profiles,omitempty"`
	// Ports that rules may refer to by name.
	Ports []EndpointPort `json:"ports,omitempty"`
}

// EndpointPort is a named port of a HostEndpoint.
type EndpointPort struct {
	// Name of the port.
	Name string `json:"name"`
	// Protocol by name or number.
	Protocol intstr.IntOrString `json:"protocol"`
	// Port number.
	Port int `json:"port"`
}

// WorkloadEndpoint is the network interface of a workload.
type WorkloadEndpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Spec of the endpoint.
	Spec WorkloadEndpointSpec `json:"spec"`
}

// WorkloadEndpointSpec is the content of a WorkloadEndpoint.
type WorkloadEndpointSpec struct {
	// Orchestrator of the workload, such as "k8s".
	Orchestrator string `json:"orchestrator,omitempty"`
	// Workload is the name of the workload.
	Workload Ignored `json:"workload,omitzero"`
	// Node that the workload runs on.
	Node string `json:"node,omitempty"`
	// ContainerID is the ID of the container.
	ContainerID Ignored `json:"containerID,omitzero"`
	// Pod is the name of the pod.
	Pod Ignored `json:"pod,omitzero"`
	// Endpoint is the name of the interface in the workload.
	Endpoint Ignored `json:"endpoint,omitzero"`
	// ServiceAccountName of the workload.
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// IPNetworks are the addresses, with or without their full prefix length.
	IPNetworks []string `json:"ipNetworks,omitempty"`
	// IPNATs are the floating addresses.
	IPNATs []IPNAT `json:"ipNATs,omitempty"`
	// IPv4Gateway is the gateway of the workload.
	IPv4Gateway Ignored `json:"ipv4Gateway,omitzero"`
	// IPv6Gateway is the gateway of the workload.
	IPv6Gateway Ignored `json:"ipv6Gateway,omitzero"`
	// Profiles in order of precedence.
	Profiles []string `json:"profiles,omitempty"`
	// InterfaceName of the host's side of the link.
	InterfaceName string `json:"interfaceName,omitempty"`
	// MAC address of the workload's side of the link.
	MAC string `json:"mac,omitempty"`
	// Ports that rules may refer to by name.
	Ports []WorkloadEndpointPort `json:"ports,omitempty"`
	// AllowSpoofedSourcePrefixes are sources that the workload may send from.
	AllowSpoofedSourcePrefixes []string `json:"allowSpoofedSourcePrefixes,omitempty"`
	// QoSControls limit the rate of traffic.
	QoSControls Ignored `json:"qosControls,omitzero"`
}

// WorkloadEndpointPort is a port of a WorkloadEndpoint.
type WorkloadEndpointPort struct {
	// Name of the port. Empty if the port only has a host port.
	Name string `json:"name,omitempty"`
	// Protocol by name or number.
	Protocol intstr.IntOrString `json:"protocol"`
	// Port number.
	Port int `json:"port"`
	// HostPort is a port of the node. Packets to HostPort are forwarded to Port.
	HostPort Ignored `json:"hostPort,omitzero"`
	// HostIP is the address of the node that has the host port.
	HostIP Ignored `json:"hostIP,omitzero"`
}

// IPNAT translates a floating address.
type IPNAT struct {
	// InternalIP is an address of the workload.
	InternalIP string `json:"internalIP"`
	// ExternalIP is the floating address.
	ExternalIP string `json:"externalIP"`
}
