// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// WorkloadEndpoint is the network interface of a workload (a container, a pod, a VM):
// on the node that runs it, the host's end of a veth pair, a tap, or the like. Readers may
// share a WorkloadEndpoint that nobody changes.
type WorkloadEndpoint struct {
	// Namespace of the workload; empty where there are none.
	Namespace string `json:"namespace,omitempty"`
	// Name is unique within the namespace, over all nodes. Required.
	Name string `json:"name"`
	// Node that the workload runs on. Required. An endpoint of another node is a peer: its
	// labels, addresses and ports count, its interface does not.
	Node string `json:"node"`
	// Interface is the name of the host's side of the link, at most 15 bytes (IFNAMSIZ
	// less the terminating zero) of letters, digits and -_.@+~=, and none of "lo", "all" and
	// "default". Required.
	Interface string `json:"interface"`
	// Addresses of the workload, both families, each once. Empty means that it has none yet:
	// whatever it sends is dropped, and no rule finds it as a peer.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// MAC address of the workload's side of the link, as in "66:3e:ca:a4:db:65". Empty means
	// unknown: no static neighbour entry is made.
	MAC string `json:"mac,omitempty"`
	// Labels of the workload. Empty means none but those of its profiles.
	Labels map[string]string `json:"labels,omitempty"`
	// Ports that rules may refer to by name. Empty means none.
	Ports []EndpointPort `json:"ports,omitempty"`
	// Profiles in order of precedence. Empty means none: what no policy allows is denied. One
	// that does not exist denies everything.
	Profiles []string `json:"profiles,omitempty"`
	// AdminState Down drops all traffic, established connections included. Empty means Up.
	AdminState AdminState `json:"adminState,omitempty"`
	// IPNATs are the floating addresses of the workload, each once and translated to one of
	// Addresses. Empty means none. They do not make it a peer: selectors find it under
	// Addresses alone, which is also what rules see, after translation.
	IPNATs []IPNAT `json:"ipNATs,omitempty"`
	// AllowSpoofedSourcePrefixes are sources that the workload may send from besides Addresses,
	// both families. Empty means none. They do not make it a peer either.
	AllowSpoofedSourcePrefixes Nets `json:"allowSpoofedSourcePrefixes,omitempty"`
}

// IPNAT translates a floating address to one of a workload (DNAT), and back in replies. It is
// a plain value; it is safe for concurrent use.
type IPNAT struct {
	// InternalIP is one of the endpoint's addresses. Required.
	InternalIP netip.Addr `json:"internalIP"`
	// ExternalIP is the floating address, of the same family and none of the endpoint's own.
	// Required.
	ExternalIP netip.Addr `json:"externalIP"`
}

// EndpointPort gives a name to a port of an endpoint. One name may stand for several
// ports. EndpointPort is a plain value; it is safe for concurrent use.
type EndpointPort struct {
	// Name of the port: 1 to 128 of [A-Za-z0-9_.-], at least one letter. Required.
	Name string `json:"name"`
	// Protocol: TCP, UDP or SCTP. Required.
	Protocol Protocol `json:"protocol"`
	// Port number, 1 to 65535. Required.
	Port uint16 `json:"port"`
}

// AdminState says whether an endpoint is meant to have any traffic at all. It is a
// plain value and safe for concurrent use.
type AdminState string

// The states.
const (
	AdminUp   AdminState = "Up"
	AdminDown AdminState = "Down"
)

// Key returns the endpoint's identity. It does not include the node: an endpoint that
// moves to another node keeps its key.
func (w *WorkloadEndpoint) Key() Key {
	return Key{Kind: KindWorkloadEndpoint, Namespace: w.Namespace, Name: w.Name}
}

// Validate reports every problem of the endpoint as one *ValidationError, or nil.
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

func (w *WorkloadEndpoint) equal(other Resource) bool {
	o, ok := other.(*WorkloadEndpoint)
	return ok && w.Namespace == o.Namespace && w.Name == o.Name &&
		w.Node == o.Node && w.Interface == o.Interface && w.MAC == o.MAC &&
		w.AdminState == o.AdminState &&
		slices.Equal(w.Addresses, o.Addresses) && maps.Equal(w.Labels, o.Labels) &&
		slices.Equal(w.Ports, o.Ports) && slices.Equal(w.Profiles, o.Profiles) &&
		slices.Equal(w.IPNATs, o.IPNATs) &&
		slices.Equal(w.AllowSpoofedSourcePrefixes, o.AllowSpoofedSourcePrefixes)
}

// ipNATs checks the floating addresses: to which of the workload's own one leads must be clear.
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
			v.add("internalIP", "%s is none of the endpoint's addresses", n.InternalIP)
		}
		why := addressProblem(n.ExternalIP)
		switch {
		case !n.ExternalIP.IsValid():
			why = "required"
		case why != "":
		case n.InternalIP.IsValid() && n.InternalIP.BitLen() != n.ExternalIP.BitLen():
			why = "of another family than internalIP"
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
