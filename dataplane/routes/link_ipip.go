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

// IPIP is a device that encapsulates IPv4 in IPv4 (IP in IP). The gateway of a route through it is the
// host that packets are sent to, on-link. The name is its identity.
//
// The TTL of the inner packet is that of the outer one, and so is its Don't Fragment bit.
type IPIP struct {
	// Name of the device. Not "tunl0", which is the kernel's own.
	Name string
	// Local is the IPv4 address of this node that packets come from. The kernel allows one device
	// without a remote address for it and the same parent.
	Local netip.Addr
	// Parent is the name of the interface that packets leave by, or of its VRF; empty leaves that to
	// routing.
	Parent string
	// MTU in bytes. 0 means that of Parent, unless it is a VRF, or else of the interface which has Local
	// (1,500 if that is the loopback), less the 20 bytes of the outer header.
	MTU uint32
	// Addresses of the device with the lengths of their subnets. All others, link-local ones apart,
	// are taken from it.
	Addresses []netip.Prefix
}

// String returns what ip(8) takes to make the device, without its addresses.
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
		errs = append(errs, fmt.Errorf("%q is no name of an interface", i.Name))
	case i.Name == fallbackIPIP:
		errs = append(errs, fmt.Errorf("%s is the kernel's own", fallbackIPIP))
	}
	if i.Parent != "" && !validInterface(i.Parent) {
		errs = append(errs, fmt.Errorf("parent %q is no name of an interface", i.Parent))
	}
	if !i.Local.Is4() || !workloadAddr(i.Local) {
		errs = append(errs, fmt.Errorf("local address %s is no IPv4 address of a host", i.Local))
	}
	return errors.Join(append(errs, validateAddresses(i.Addresses))...)
}

var _ device = IPIP{}

func (IPIP) kind() string                { return "device" }
func (i IPIP) name() string              { return i.Name }
func (i IPIP) addresses() []netip.Prefix { return i.Addresses }
func (IPIP) encapsulation() string       { return "IP in IP" }

// fit returns the device with its MTU, and its netlink form.
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

// alter implements device. The kernel cannot change the inner protocol. It cannot remove a remote
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
