// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"net/netip"
	"slices"
)

// AllInterfaces is the InterfaceName of a HostEndpoint for all interfaces of its node
// that no other host endpoint claims.
const AllInterfaces = "*"

// HostEndpoint is an interface of a node whose traffic policy governs: that of the host's own
// processes and, where policies have ApplyOnForward, what the node forwards. Host endpoints
// have no namespace, so only global policies and rules without a namespace find them.
//
// Where several match one interface, the one with the smallest name counts. One with neither
// InterfaceName nor ExpectedIPs is valid and inert: it matches no interface (the Calico v3
// API refuses it). Readers may share a HostEndpoint that nobody changes.
type HostEndpoint struct {
	// Name is unique over all nodes. Required.
	Name string `json:"name"`
	// Node that the interface belongs to. Required. A host endpoint of another node is a peer:
	// its labels, addresses and ports count, its interface does not.
	Node string `json:"node"`
	// InterfaceName is the name of the interface, at most 15 bytes (IFNAMSIZ less the
	// terminating zero) of letters, digits and -_.@+~=, and none of "lo", "all" and "default";
	// or AllInterfaces. Empty means the interfaces that hold one of ExpectedIPs. A host
	// endpoint with a name never matches by address.
	InterfaceName string `json:"interfaceName,omitempty"`
	// ExpectedIPs are the addresses of the interface, both families, each once: under which
	// rules find the host endpoint as a peer, and what finds its interface where InterfaceName
	// is empty. Empty means that it has no address as a peer.
	ExpectedIPs []netip.Addr `json:"expectedIPs,omitempty"`
	// Labels of the host endpoint. Empty means none but those of its profiles. LabelNamespace is
	// not allowed.
	Labels map[string]string `json:"labels,omitempty"`
	// Ports that rules may refer to by name. Empty means none.
	Ports []EndpointPort `json:"ports,omitempty"`
	// Profiles in order of precedence. Empty means none: of the host's own traffic what no policy
	// allows is denied, but for the failsafe ports of HostConfig. One that does not exist
	// denies everything.
	Profiles []string `json:"profiles,omitempty"`
}

// Key returns the host endpoint's identity.
func (h *HostEndpoint) Key() Key { return Key{Kind: KindHostEndpoint, Name: h.Name} }

// Validate reports every problem of the host endpoint as one *ValidationError, or nil. One
// that matches no interface, having neither name nor addresses, is valid.
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

func (h *HostEndpoint) equal(other Resource) bool {
	o, ok := other.(*HostEndpoint)
	return ok && h.Name == o.Name && h.Node == o.Node && h.InterfaceName == o.InterfaceName &&
		slices.Equal(h.ExpectedIPs, o.ExpectedIPs) && maps.Equal(h.Labels, o.Labels) &&
		slices.Equal(h.Ports, o.Ports) && slices.Equal(h.Profiles, o.Profiles)
}
