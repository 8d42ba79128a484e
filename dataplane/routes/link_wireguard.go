// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/wayleave/wayleave/internal/rtnl"
)

const (
	// wireguardOverhead is what WireGuard adds to a packet over IPv6, in bytes. It is the sum of
	// the outer IP header (40), UDP (8), and WireGuard's header and authentication tag (32). Over
	// IPv4 it is 20 bytes less.
	wireguardOverhead = 80
	wireguardKind     = "wireguard"
)

// Wireguard is a WireGuard device without its keys and peers, which package wireguard sets. Before
// that, the device sends and receives nothing. The name is the identity of the device.
type Wireguard struct {
	// Name of the device.
	Name string
	// Local is the address of this node that is the source of the outer packets. It is only used to
	// find the MTU.
	Local netip.Addr
	// MTU in bytes. 0 means the MTU of the interface with the address Local, minus the 80 bytes
	// that WireGuard adds over IPv6. If there is no such interface, or if it is the loopback, an
	// existing device keeps its MTU, and a new one gets 1,420 bytes.
	MTU uint32
	// Addresses of the device, with the lengths of their subnets. All its other addresses are
	// removed, except link-local ones.
	Addresses []netip.Prefix
}

var _ device = Wireguard{}

// String returns the arguments of "ip link add" that make the device. Addresses are not among them.
func (w Wireguard) String() string {
	if w.MTU == 0 {
		return w.Name + " type wireguard"
	}
	return fmt.Sprintf("%s mtu %d type wireguard", w.Name, w.MTU)
}

func (w Wireguard) validate() error {
	var errs []error
	if !validInterface(w.Name) {
		errs = append(errs, fmt.Errorf("%q is not an interface name", w.Name))
	}
	return errors.Join(append(errs, validateAddresses(w.Addresses))...)
}

func (Wireguard) kind() string                { return "device" }
func (w Wireguard) name() string              { return w.Name }
func (w Wireguard) addresses() []netip.Prefix { return w.Addresses }
func (Wireguard) encapsulation() string       { return "WireGuard" }

// fit implements device.
func (w Wireguard) fit(ls *links) (device, netlink.Link, error) {
	_, mtu, err := ls.lowerDevice(w.Name, "", w.Local, wireguardOverhead)
	if err != nil {
		return nil, nil, err
	}
	w.MTU = cmp.Or(w.MTU, mtu)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = w.Name, int(w.MTU)
	return w, &netlink.Wireguard{LinkAttrs: attrs}, nil
}

// alter implements device. A WireGuard device has no parameters to change. have is nil if the
// device has just been deleted.
func (w Wireguard) alter(_ *rtnl.Conn, have, _ netlink.Link) (steps []deviceStep, can bool) {
	return nil, have != nil && have.Type() == wireguardKind
}
