// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

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

// interfaceProblem says why an endpoint cannot have an interface of the name, or "". It allows
// less than the kernel does: nothing that is a wildcard or needs quotes in a ruleset ('*',
// '"'), and no name that means more than one interface under /proc/sys/net or is the
// loopback, where nothing from outside arrives and policy would cut the host's own processes
// off from each other.
func interfaceProblem(s string) string {
	const extra = "-_.@+~="
	switch {
	case s == "":
		return "required"
	case len(s) > 15:
		return fmt.Sprintf("%q is longer than 15 bytes", clip(s))
	case s == "." || s == ".." || s == "all" || s == "default" || s == "lo":
		return fmt.Sprintf("%q cannot be the interface of an endpoint", s)
	case !onlyOf(s, extra):
		return fmt.Sprintf("%q has other characters than letters, digits and %s", s, extra)
	}
	return ""
}

// addresses checks a list of addresses of interfaces, each of which may be in it once.
func (v *validator) addresses(field string, addrs []netip.Addr, most int) {
	if !v.atMost(field, len(addrs), most) {
		return
	}
	seen := longList(addrs)
	for i, a := range addrs {
		why := addressProblem(a)
		if repeats(addrs, i, seen) {
			why = "given twice"
		}
		if why != "" {
			v.add(index(field, i), "%s: %s", a, why)
		}
	}
}

// addressProblem says why an interface with peers cannot have the address, or "".
func addressProblem(a netip.Addr) string {
	switch {
	case !a.IsValid():
		return "no address"
	case a.Is4In6():
		return "an IPv4-mapped address is not canonical (see Canonical)"
	case a.Zone() != "":
		return "zones are not allowed"
	case a.IsUnspecified(), a.IsLoopback(), a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "not an address of an interface that has peers"
	}
	return ""
}

// macProblem says why s is no MAC address of one interface, or "".
func macProblem(s string) string {
	parts := strings.Split(s, ":")
	if len(parts) != 6 {
		return "want six bytes as in 66:3e:ca:a4:db:65"
	}
	all, first := uint64(0), uint64(0)
	for i, part := range parts {
		b, err := strconv.ParseUint(part, 16, 8)
		if err != nil || len(part) != 2 {
			return "want six bytes as in 66:3e:ca:a4:db:65"
		}
		if i == 0 {
			first = b
		}
		all |= b
	}
	if first&1 != 0 || all == 0 {
		return "not the address of one interface"
	}
	return ""
}

func (v *validator) endpointPorts(ports []EndpointPort) {
	if !v.atMost("ports", len(ports), maxPorts) {
		return
	}
	for i, p := range ports {
		v.enter("ports", i)
		if p.Name == "" {
			v.add("name", "required")
		} else if why := PortName(p.Name).problem(); why != "" {
			v.add("name", "%s", why)
		}
		v.protocolWithPort(p.Protocol, p.Port)
		v.leave()
	}
}

func (v *validator) protocolWithPort(p Protocol, port uint16) {
	if !p.HasPorts() {
		v.add("protocol", "want TCP, UDP or SCTP")
	}
	if port == 0 {
		v.add("port", "want 1 to 65535")
	}
}

func (v *validator) profiles(profiles []string) {
	if !v.atMost("profiles", len(profiles), maxProfiles) {
		return
	}
	seen := longList(profiles)
	for i, name := range profiles {
		v.nameAt("profiles", i, name)
		if repeats(profiles, i, seen) && name != "" {
			v.add(index("profiles", i), "%q is given twice", clip(name))
		}
	}
}
