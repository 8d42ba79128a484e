// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/wayleave/wayleave/internal/rtnl"
)

const (
	// ipipOverhead is the outer IP header that IP in IP adds to a packet, in bytes.
	ipipOverhead = 20
	ipipKind     = "ipip"
	ipipProtocol = 4
	// fallbackIPIP is the device that the kernel's module makes in each network namespace.
	fallbackIPIP = "tunl0"
)

// IPIP is a device that encapsulates IPv4 packets in IPv4 packets (IP in IP). A route through the
// device has OnLink set, and its gateway is the host that the outer packets are sent to. The name
// is the identity of the device.
//
// The outer packet gets the TTL and the Don't Fragment bit of the inner packet.
type IPIP struct {
	// Name of the device. "tunl0" is not allowed, because it is the kernel's own.
	Name string
	// Local is the IPv4 address of this node that is the source of the outer packets. For each pair
	// of local address and parent, the kernel allows only one device that has no remote address.
	Local netip.Addr
	// Parent is the name of an interface or of a VRF. The outer packets leave by this interface, or
	// by an interface of this VRF. Empty means that routing decides.
	Parent string
	// MTU in bytes. 0 means the MTU of the lower interface, less the 20 bytes of the outer header.
	// The lower interface is Parent. If Parent is empty or a VRF, the lower interface is the one
	// with the address Local. If there is no such interface, or if it is the loopback, an existing
	// device keeps its MTU. A new device then gets the MTU for a lower interface of 1,500 bytes.
	MTU uint32
	// Addresses of the device, with the lengths of their subnets. All its other addresses are
	// removed, except link-local ones.
	Addresses []netip.Prefix
}

// String returns the arguments of "ip link add" that make the device. Addresses are not among them.
func (i IPIP) String() string {
	var b strings.Builder
	b.WriteString(i.Name)
	if i.MTU != 0 {
		fmt.Fprintf(&b, " mtu %d", i.MTU)
	}
	return b.String() + " type ipip " + i.parameters()
}

func (i IPIP) parameters() string {
	text := fmt.Sprintf("mode ipip local %s ttl inherit nopmtudisc", i.Local)
	if i.Parent != "" {
		text += " dev " + i.Parent
	}
	return text
}

func (i IPIP) validate() error {
	var errs []error
	switch {
	case !validInterface(i.Name):
		errs = append(errs, fmt.Errorf("%q is not an interface name", i.Name))
	case i.Name == fallbackIPIP:
		errs = append(errs, fmt.Errorf("%s is the kernel's own", fallbackIPIP))
	}
	if i.Parent != "" && !validInterface(i.Parent) {
		errs = append(errs, fmt.Errorf("parent %q is not an interface name", i.Parent))
	}
	if !i.Local.Is4() || !workloadAddr(i.Local) {
		errs = append(errs, fmt.Errorf("local address %s is not an IPv4 address of a host", i.Local))
	}
	return errors.Join(append(errs, validateAddresses(i.Addresses))...)
}

var _ device = IPIP{}

func (IPIP) kind() string                { return "device" }
func (i IPIP) name() string              { return i.Name }
func (i IPIP) addresses() []netip.Prefix { return i.Addresses }
func (IPIP) encapsulation() string       { return "IP in IP" }

// fit implements device.
func (i IPIP) fit(ls *links) (device, netlink.Link, error) {
	parent, mtu, err := ls.lowerDevice(i.Name, i.Parent, i.Local, ipipOverhead)
	if err != nil {
		return nil, nil, err
	}
	i.MTU = cmp.Or(i.MTU, mtu)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.ParentIndex = i.Name, int(i.MTU), parent
	return i, &netlink.Iptun{LinkAttrs: attrs, Local: i.Local.AsSlice(), Proto: ipipProtocol, Link: uint32(parent)}, nil
}

// alter implements device. The kernel can neither change the inner protocol nor remove a remote
// address or the external mode (collect metadata).
func (i IPIP) alter(c *rtnl.Conn, have, want netlink.Link) (steps []deviceStep, can bool) {
	h, isIPIP := have.(*netlink.Iptun)
	if !isIPIP || !h.Remote.IsUnspecified() || h.FlowBased || h.Proto != ipipProtocol {
		return nil, false
	}
	local, _ := netip.AddrFromSlice(h.Local)
	if local == i.Local && h.Ttl == 0 && h.Tos == 0 && h.PMtuDisc == 0 && h.EncapType == 0 &&
		h.ParentIndex == want.Attrs().ParentIndex {
		return nil, true
	}
	return []deviceStep{{
		text: "ip link set dev " + i.Name + " type ipip " + i.parameters(),
		do: func(_ *netlink.Handle, dev netlink.Link) error {
			return deviceError(i, c.ChangeIPIP(dev.Attrs().Index, i.Local, want.Attrs().ParentIndex))
		},
	}}, true
}
