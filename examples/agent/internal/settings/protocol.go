// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"math"
)

const (
	// minProtocol is the first protocol number that is not the kernel's or the administrator's.
	minProtocol = 5
	// wireguardMark is combined with RouteProtocol by exclusive or. The result is the protocol
	// number of WireGuard objects: 219 becomes 236, the default of package wireguard.
	wireguardMark = 0x37
)

// WireguardProtocol returns the protocol number of WireGuard objects for a RouteProtocol. The two
// numbers differ, because the packages routes and wireguard each remove all unwanted rules, routes
// and devices with their number. An agent without WireGuard removes them, too: they may be those of
// an earlier run.
func WireguardProtocol(routeProtocol uint8) uint8 {
	protocol := routeProtocol ^ wireguardMark
	if protocol < minProtocol {
		protocol |= 0x80
	}
	return protocol
}

// protocolProblem returns why RouteProtocol cannot be used, or nil.
func (s Settings) protocolProblem() error {
	if s.RouteProtocol < minProtocol || s.RouteProtocol > math.MaxUint8 {
		return fmt.Errorf("want %d to %d, not %d", minProtocol, math.MaxUint8, s.RouteProtocol)
	}
	if name := protocolName(uint8(s.RouteProtocol)); name != "" {
		return fmt.Errorf("%d is the number of %q, whose routes the agent would remove: give another number",
			s.RouteProtocol, name)
	}
	second := WireguardProtocol(uint8(s.RouteProtocol))
	if name := protocolName(second); name != "" {
		return fmt.Errorf("with %d, the agent also uses %d for WireGuard, the number of %q, whose routes it would "+
			"remove: give another number", s.RouteProtocol, second, name)
	}
	return nil
}

// protocolName returns the name of the program or protocol whose routes have a protocol number; ""
// if none is known. The names are those of linux/rtnetlink.h. FRR uses all numbers from 186 to 198.
func protocolName(protocol uint8) string {
	names := [...]string{
		8: "gated", 9: "ra", 10: "mrt", 11: "zebra", 12: "bird", 13: "dnrouted", 14: "xorp", 15: "ntk", 16: "dhcp",
		17: "mrouted", 18: "keepalived", 42: "babel", 84: "ovn", 99: "openr",
		186: "bgp", 187: "isis", 188: "ospf", 189: "rip", 190: "ripng", 191: "nhrp", 192: "eigrp", 193: "ldp",
		194: "sharp", 195: "pbr", 196: "static", 197: "openfabric", 198: "srte",
	}
	if int(protocol) >= len(names) {
		return ""
	}
	return names[protocol]
}
