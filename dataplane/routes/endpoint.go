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

// endpoint is what matters here of a dataplane.Endpoint, checked. It is immutable.
type endpoint struct {
	iface    string // empty if the name is not one
	prefixes []netip.Prefix
	mac      MAC   // zero if unknown
	err      error // what is wrong with it; the rest is used
}

// newEndpoint checks what the caller should have checked: what is wrong is left out.
func newEndpoint(e *dataplane.Endpoint) *endpoint {
	ep := &endpoint{iface: e.Interface}
	var errs []error
	if !validInterface(e.Interface) {
		ep.iface = ""
		errs = append(errs, fmt.Errorf("%w: %q is no name of an interface", ErrEndpoint, e.Interface))
	}
	for _, addr := range e.Addresses {
		addr = addr.Unmap()
		if !workloadAddr(addr) {
			errs = append(errs, fmt.Errorf("%w: %s is no address of a workload", ErrEndpoint, addr))
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
		return MAC{}, fmt.Errorf("%q is no MAC address of six bytes", text)
	}
	return MAC(mac), nil
}

// workloadAddr reports whether a workload may have the address: it is one of a single host that is
// elsewhere.
func workloadAddr(a netip.Addr) bool {
	thisNetwork := a.Is4() && a.As4()[0] == 0 // RFC 1122, 3.2.1.3
	return a.IsValid() && a.Zone() == "" && !thisNetwork && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLoopback() &&
		a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// equal compares; endpoints with something wrong are never equal.
func (e *endpoint) equal(o *endpoint) bool {
	return e.iface == o.iface && e.mac == o.mac && e.err == nil && o.err == nil && slices.Equal(e.prefixes, o.prefixes)
}

// validInterface holds for names that the kernel would give; above all, they are safe in a path.
// The sysctls of "all" and "default" are not those of an interface.
func validInterface(name string) bool {
	return name != "all" && name != "default" && name != "" && len(name) <= maxInterfaceName && name != "." &&
		name != ".." && !strings.ContainsAny(name, "/: \t\n\v\f\r\x00")
}

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
