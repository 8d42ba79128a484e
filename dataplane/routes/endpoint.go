// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
)

// maxInterfaceName is IFNAMSIZ less the terminating zero.
const maxInterfaceName = 15

// endpoint has the fields of a dataplane.Endpoint that this package needs, after a check. It is
// immutable.
type endpoint struct {
	iface    string // empty if the name is not one
	prefixes []netip.Prefix
	mac      MAC   // zero if unknown
	err      error // what is wrong with it; the rest is used
}

// newEndpoint converts an endpoint. It checks fields that the caller should have checked, and
// leaves out invalid ones.
func newEndpoint(e *dataplane.Endpoint) *endpoint {
	ep := &endpoint{iface: e.Interface}
	var errs []error
	if !validInterface(e.Interface) {
		ep.iface = ""
		errs = append(errs, fmt.Errorf("%w: %q is not an interface name", ErrEndpoint, e.Interface))
	}
	for _, addr := range e.Addresses {
		addr = addr.Unmap()
		if !workloadAddr(addr) {
			errs = append(errs, fmt.Errorf("%w: %s is not an address of a workload", ErrEndpoint, addr))
			continue
		}
		if addr.Is6() && addr.IsLinkLocalUnicast() {
			continue // reachable on its own link alone, without a route
		}
		ep.prefixes = append(ep.prefixes, hostPrefix(addr))
	}
	slices.SortFunc(ep.prefixes, dataplane.ComparePrefixes)
	ep.prefixes = slices.Compact(ep.prefixes)
	if e.MAC != "" {
		mac, err := parseMAC(e.MAC)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: %w", ErrEndpoint, err))
		}
		ep.mac = mac
	}
	ep.err = errors.Join(errs...)
	return ep
}

func parseMAC(text string) (MAC, error) {
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != len(MAC{}) {
		return MAC{}, fmt.Errorf("%q is not a MAC address of six bytes", text)
	}
	return MAC(mac), nil
}

// workloadAddr reports whether a workload may have the address: a unicast address of a host, and no
// loopback address.
func workloadAddr(a netip.Addr) bool {
	thisNetwork := a.Is4() && a.As4()[0] == 0 // RFC 1122, 3.2.1.3
	return a.IsValid() && a.Zone() == "" && !thisNetwork && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLoopback() &&
		a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// equal reports whether two endpoints are equal. An endpoint with an error equals none.
func (e *endpoint) equal(o *endpoint) bool {
	return e.iface == o.iface && e.mac == o.mac && e.err == nil && o.err == nil && slices.Equal(e.prefixes, o.prefixes)
}

// validInterface reports whether the kernel would accept a name for an interface. Such a name is
// safe in a path of a sysctl. "all" and "default" are not valid, because their sysctls are not
// those of an interface.
func validInterface(name string) bool {
	return name != "all" && name != "default" && name != "" && len(name) <= maxInterfaceName && name != "." &&
		name != ".." && !strings.ContainsAny(name, "/: \t\n\v\f\r\x00")
}

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
