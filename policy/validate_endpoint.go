// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"strconv"
	"strings"
)

// Validate reports every problem of the endpoint as one *ValidationError, or nil.
func (w *WorkloadEndpoint) Validate() error {
	v := &validator{}
	v.namespace(w.Namespace)
	v.name("name", w.Name)
	v.name("node", w.Node)
	v.interfaceName("interface", w.Interface)
	v.addresses(w.Addresses)
	if why := macProblem(w.MAC); w.MAC != "" && why != "" {
		v.add("mac", "%s", why)
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
	return v.err(w.Key())
}

// interfaceName allows less than the kernel does: nothing that is a wildcard or needs
// quotes in a ruleset ('*', '"'), and no name that means more than one interface
// under /proc/sys/net or is the host's own.
func (v *validator) interfaceName(field, s string) {
	const extra = "-_.@+~="
	switch {
	case s == "":
		v.add(field, "required")
	case len(s) > 15:
		v.add(field, "%q is longer than 15 bytes", clip(s))
	case s == "." || s == ".." || s == "all" || s == "default" || s == "lo":
		v.add(field, "%q cannot be a workload's interface", s)
	case !onlyOf(s, extra):
		v.add(field, "%q has other characters than letters, digits and %s", s, extra)
	}
}

func (v *validator) addresses(addrs []netip.Addr) {
	if !v.atMost("addresses", len(addrs), maxAddresses) {
		return
	}
	seen := map[netip.Addr]bool{}
	for i, a := range addrs {
		why := addressProblem(a)
		if seen[a] {
			why = "given twice"
		}
		if why != "" {
			v.add(index("addresses", i), "%s: %s", a, why)
		}
		seen[a] = true
	}
}

// addressProblem says why a workload cannot have the address, or "".
func addressProblem(a netip.Addr) string {
	switch {
	case !a.IsValid():
		return "no address"
	case a.Is4In6():
		return "an IPv4-mapped address is not canonical (see Canonical)"
	case a.Zone() != "":
		return "zones are not allowed"
	case a.IsUnspecified(), a.IsLoopback(), a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "not an address that a workload can have"
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
		field := index("ports", i)
		switch {
		case p.Name == "":
			v.add(field+".name", "required")
		default:
			if why := PortName(p.Name).problem(); why != "" {
				v.add(field+".name", "%s", why)
			}
		}
		if !p.Protocol.HasPorts() {
			v.add(field+".protocol", "want TCP, UDP or SCTP")
		}
		if p.Port == 0 {
			v.add(field+".port", "want 1 to 65535")
		}
	}
}

func (v *validator) profiles(profiles []string) {
	if !v.atMost("profiles", len(profiles), maxProfiles) {
		return
	}
	seen := map[string]bool{}
	for i, name := range profiles {
		v.name(index("profiles", i), name)
		if seen[name] && name != "" {
			v.add(index("profiles", i), "%q is given twice", clip(name))
		}
		seen[name] = true
	}
}
