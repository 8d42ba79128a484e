// SPDX-License-Identifier: Apache-2.0

package policy

import "net/netip"

// AllInterfaces is the InterfaceName of a HostEndpoint for all interfaces of its node that have no
// other host endpoint.
const AllInterfaces = "*"

// HostEndpoint is an interface of a node to which policy applies. The policy applies to traffic of
// the host's own processes. If ApplyOnForward of the policy is set, it also applies to forwarded
// traffic. Host endpoints have no namespace: only global policies select them, and rules that are
// limited to a namespace do not match them as peers.
//
// If several host endpoints match an interface, the one with the smallest name governs it. A
// HostEndpoint without InterfaceName and ExpectedIPs is valid, but matches no interface (the Calico
// v3 API refuses it).
type HostEndpoint struct {
	// Name is unique on all nodes. Required.
	Name string `json:"name"`
	// Node to which the interface belongs. Required. On any other node, the host endpoint is only a
	// peer in rules, by its labels, addresses and ports.
	Node string `json:"node"`
	// InterfaceName is the name of the interface, or AllInterfaces. It has at most 15 bytes
	// (IFNAMSIZ without the terminating zero) of letters, digits and -_.@+~=, and is not "lo",
	// "all" or "default". If it is empty, the host endpoint matches each interface that has an
	// address in ExpectedIPs. Otherwise it does not match by address.
	InterfaceName string `json:"interfaceName,omitempty"`
	// ExpectedIPs are the addresses of the interface, of both families, without duplicates. Rules
	// match the host endpoint as a peer by these addresses. If there are none, rules do not match
	// the host endpoint as a peer.
	ExpectedIPs []netip.Addr `json:"expectedIPs,omitempty"`
	// Labels of the host endpoint. If there are none, the host endpoint has only the labels of its
	// profiles. LabelNamespace is not allowed.
	Labels map[string]string `json:"labels,omitempty"`
	// Ports are named ports for rules. Empty means none.
	Ports []EndpointPort `json:"ports,omitempty"`
	// Profiles in order of precedence. Empty means none: traffic of the host's own processes that
	// no policy allows is denied, except for the failsafe ports of HostConfig. A profile that does
	// not exist denies everything.
	Profiles []string `json:"profiles,omitempty"`
}

// Key returns the host endpoint's key.
func (h *HostEndpoint) Key() Key { return Key{Kind: KindHostEndpoint, Name: h.Name} }

func (*HostEndpoint) resource() {}

// Validate reports all problems of the host endpoint as one *ValidationError, or nil.
func (h *HostEndpoint) Validate() error {
	v := &validator{}
	v.name("name", h.Name)
	v.name("node", h.Node)
	if h.InterfaceName != "" && h.InterfaceName != AllInterfaces {
		if why := interfaceProblem(h.InterfaceName); why != "" {
			v.add("interfaceName", "%s", why)
		}
	}
	v.addresses("expectedIPs", h.ExpectedIPs, maxAddresses)
	v.labels("labels", h.Labels)
	v.namespaceLabel(h.Labels, "")
	v.endpointPorts(h.Ports)
	v.profiles(h.Profiles)
	return v.err(h.Key())
}
