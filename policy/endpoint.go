// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"slices"
	"strings"
)

// WorkloadEndpoint is the network interface of a workload: a container, a pod or a virtual machine.
// The field Interface names the host's side of it: the host's end of a veth pair, a tap device or
// the like.
type WorkloadEndpoint struct {
	// Namespace of the workload. Empty means none.
	Namespace string `json:"namespace,omitempty"`
	// Name is unique within the namespace on all nodes. Required.
	Name string `json:"name"`
	// Node on which the workload runs. Required. On any other node, the endpoint is only a peer in
	// rules, by its labels, addresses and ports.
	Node string `json:"node"`
	// Interface is the name of the host's side of the interface. It has at most 15 bytes (IFNAMSIZ
	// without the terminating zero) of letters, digits and -_.@+~=, and is not "lo", "all" or
	// "default". Required.
	Interface string `json:"interface"`
	// Addresses of the workload, of both families, without duplicates. If there are none, all
	// packets from the workload are dropped, and rules do not match the workload as a peer.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// MAC address of the workload's interface, as in "66:3e:ca:a4:db:65". Empty means unknown:
	// there is then no static neighbour entry.
	MAC string `json:"mac,omitempty"`
	// Labels of the workload. If there are none, the workload has only the labels of its profiles.
	Labels map[string]string `json:"labels,omitempty"`
	// Ports are named ports for rules. Empty means none.
	Ports []EndpointPort `json:"ports,omitempty"`
	// Profiles in order of precedence. Empty means none: traffic that no policy allows is denied. A
	// profile that does not exist denies everything.
	Profiles []string `json:"profiles,omitempty"`
	// AdminState Down drops all traffic, also of established connections. Empty means Up.
	AdminState AdminState `json:"adminState,omitempty"`
	// IPNATs are the floating addresses of the workload, without duplicates. Each of them is
	// translated to an address in Addresses. Empty means none. Policy sees packets after the
	// translation. So a rule that selects the workload as a peer matches Addresses, not IPNATs.
	IPNATs []IPNAT `json:"ipNATs,omitempty"`
	// AllowSpoofedSourcePrefixes are further addresses from which the workload may send, of both
	// families. Empty means none. A rule that selects the workload as a peer does not match these
	// prefixes.
	AllowSpoofedSourcePrefixes Nets `json:"allowSpoofedSourcePrefixes,omitempty"`
}

// IPNAT translates a floating address to an address of a workload (destination NAT), and back in
// replies.
type IPNAT struct {
	// InternalIP is one of the endpoint's addresses. Required.
	InternalIP netip.Addr `json:"internalIP"`
	// ExternalIP is the floating address. It has the family of InternalIP, and is not one of the
	// endpoint's addresses. Required.
	ExternalIP netip.Addr `json:"externalIP"`
}

// EndpointPort is a named port of an endpoint. Several ports can have the same name.
type EndpointPort struct {
	// Name of the port: 1 to 128 of [A-Za-z0-9_.-], at least one letter. Required.
	Name string `json:"name"`
	// Protocol: TCP, UDP or SCTP. Required.
	Protocol Protocol `json:"protocol"`
	// Port number, 1 to 65535. Required.
	Port uint16 `json:"port"`
}

// AdminState is the administrative state of an endpoint.
type AdminState string

// States of an endpoint.
const (
	AdminUp   AdminState = "Up"
	AdminDown AdminState = "Down"
)

// Key returns the endpoint's key. It does not include the node: an endpoint that moves to another
// node keeps its key.
func (w *WorkloadEndpoint) Key() Key {
	return Key{Kind: KindWorkloadEndpoint, Namespace: w.Namespace, Name: w.Name}
}

func (*WorkloadEndpoint) resource() {}

// Validate reports all problems of the endpoint as one *ValidationError, or nil.
func (w *WorkloadEndpoint) Validate() error {
	v := &validator{}
	v.namespace(w.Namespace)
	v.name("name", w.Name)
	v.name("node", w.Node)
	if why := interfaceProblem(w.Interface); why != "" {
		v.add("interface", "%s", why)
	}
	v.addresses("addresses", w.Addresses, maxAddresses)
	if w.MAC != "" {
		if why := macProblem(w.MAC); why != "" {
			v.add("mac", "%s", why)
		}
	}
	v.labels("labels", w.Labels)
	v.namespaceLabel(w.Labels, w.Namespace)
	v.endpointPorts(w.Ports)
	v.profiles(w.Profiles)
	switch w.AdminState {
	case "", AdminUp, AdminDown:
	default:
		v.add("adminState", "want Up or Down, not %q", clip(string(w.AdminState)))
	}
	v.ipNATs(w)
	if v.atMost("allowSpoofedSourcePrefixes", len(w.AllowSpoofedSourcePrefixes), maxAddresses) {
		v.nets("allowSpoofedSourcePrefixes", w.AllowSpoofedSourcePrefixes)
	}
	return v.err(w.Key())
}

func (w *WorkloadEndpoint) canonicalize() { w.MAC = strings.ToLower(w.MAC) }

// ipNATs checks the floating addresses. Each must be translated to one address of the workload.
func (v *validator) ipNATs(w *WorkloadEndpoint) {
	if !v.atMost("ipNATs", len(w.IPNATs), maxAddresses) {
		return
	}
	seen := map[netip.Addr]bool{}
	for i, n := range w.IPNATs {
		v.enter("ipNATs", i)
		switch {
		case !n.InternalIP.IsValid():
			v.add("internalIP", "required")
		case !slices.Contains(w.Addresses, n.InternalIP):
			v.add("internalIP", "%s is not an address of the endpoint", n.InternalIP)
		}
		why := addressProblem(n.ExternalIP)
		switch {
		case !n.ExternalIP.IsValid():
			why = "required"
		case why != "":
		case n.InternalIP.IsValid() && n.InternalIP.BitLen() != n.ExternalIP.BitLen():
			why = "not of the family of internalIP"
		case slices.Contains(w.Addresses, n.ExternalIP):
			why = "the endpoint's own address"
		case seen[n.ExternalIP]:
			why = "given twice"
		}
		if why != "" {
			v.add("externalIP", "%s", why)
		}
		seen[n.ExternalIP] = true
		v.leave()
	}
}
