// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// interfaceProblem returns why an endpoint cannot have an interface of the name, or "". It is
// stricter than the kernel. It refuses wildcards and characters that need quotes in a ruleset ('*',
// '"'), names that stand for several interfaces in /proc/sys/net, and the loopback interface. No
// packet from outside enters at the loopback interface, and policy would block traffic between the
// host's own processes.
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

// addresses checks a list of addresses of interfaces, without duplicates.
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

// addressProblem returns why an interface cannot have the address, or "".
func addressProblem(a netip.Addr) string {
	switch {
	case !a.IsValid():
		return "not an address"
	case a.Is4In6():
		return "an IPv4-mapped address is not canonical (see Canonical)"
	case a.Zone() != "":
		return "zones are not allowed"
	case a.IsUnspecified(), a.IsLoopback(), a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "unspecified, loopback, multicast and broadcast addresses are not allowed"
	}
	return ""
}

// macProblem returns why s is not the MAC address of an interface, or "".
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
		return "want a unicast address"
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
