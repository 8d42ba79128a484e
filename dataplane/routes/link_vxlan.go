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

// The bytes that VXLAN adds to a packet: outer IP header, UDP header, VXLAN header and inner
// Ethernet header.
const (
	vxlanOverhead4 = 20 + 8 + 8 + 14
	vxlanOverhead6 = 40 + 8 + 8 + 14
)

const (
	vxlanKind = "vxlan"
	maxVNI    = 1<<24 - 1
)

// VXLAN is a device that encapsulates packets in VXLAN. Its forwarding database (see FDB) has the
// hosts that the outer packets are sent to. The name is the identity of the device.
type VXLAN struct {
	// Name of the device.
	Name string
	// VNI is the network identifier: 1 to 16777215.
	VNI uint32
	// Port is the UDP port of the outer packets, the same on all nodes.
	Port uint16
	// Local is the address of this node that is the source of the outer packets. Its family is the
	// family of the underlying network.
	Local netip.Addr
	// Parent is the name of an interface or of a VRF. The outer packets leave by this interface, or
	// by an interface of this VRF. Empty means that routing decides.
	Parent string
	// MTU in bytes. 0 means the MTU of the lower interface, less what VXLAN adds: 50 bytes over
	// IPv4, 70 over IPv6. The lower interface is Parent. If Parent is empty or a VRF, the lower
	// interface is the one with the address Local. If there is no such interface, or if it is the
	// loopback, an existing device keeps its MTU. A new device then gets the MTU for a lower
	// interface of 1,500 bytes.
	MTU uint32
	// MAC address of the device.
	MAC MAC
	// Addresses of the device, with the lengths of their subnets. All its other addresses are
	// removed, except link-local ones.
	Addresses []netip.Prefix
}

// String returns the arguments of "ip link add" that make the device. Addresses are not among them.
func (v VXLAN) String() string {
	var b strings.Builder
	b.WriteString(v.Name)
	if v.MTU != 0 {
		fmt.Fprintf(&b, " mtu %d", v.MTU)
	}
	fmt.Fprintf(&b, " address %s type vxlan id %d dstport %d local %s", v.MAC, v.VNI, v.Port, v.Local)
	if v.Parent != "" {
		b.WriteString(" dev " + v.Parent)
	}
	return b.String() + " nolearning"
}

func (v VXLAN) validate() error {
	var errs []error
	if !validInterface(v.Name) {
		errs = append(errs, fmt.Errorf("%q is not an interface name", v.Name))
	}
	if v.Parent != "" && !validInterface(v.Parent) {
		errs = append(errs, fmt.Errorf("parent %q is not an interface name", v.Parent))
	}
	if v.VNI == 0 || v.VNI > maxVNI {
		errs = append(errs, fmt.Errorf("VNI %d is not from 1 to %d", v.VNI, maxVNI))
	}
	if v.Port == 0 {
		errs = append(errs, errors.New("no port"))
	}
	if v.Local != v.Local.Unmap() || v.Local.Zone() != "" || !workloadAddr(v.Local) {
		errs = append(errs, fmt.Errorf("local address %s is not an address of a host", v.Local))
	}
	if v.MAC == (MAC{}) || v.MAC[0]&1 != 0 {
		errs = append(errs, fmt.Errorf("MAC address %s is not a unicast address", v.MAC))
	}
	return errors.Join(append(errs, validateAddresses(v.Addresses))...)
}

var _ device = VXLAN{}

func (VXLAN) kind() string                { return "device" }
func (v VXLAN) name() string              { return v.Name }
func (v VXLAN) addresses() []netip.Prefix { return v.Addresses }
func (VXLAN) encapsulation() string       { return "VXLAN" }

// fit implements device.
func (v VXLAN) fit(ls *links) (device, netlink.Link, error) {
	overhead := uint32(vxlanOverhead4)
	if v.Local.Is6() {
		overhead = vxlanOverhead6
	}
	parent, mtu, err := ls.lowerDevice(v.Name, v.Parent, v.Local, overhead)
	if err != nil {
		return nil, nil, err
	}
	v.MTU = cmp.Or(v.MTU, mtu)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = v.Name, int(v.MTU), v.MAC[:]
	return v, &netlink.Vxlan{
		LinkAttrs: attrs, VxlanId: int(v.VNI), Port: int(v.Port), SrcAddr: v.Local.AsSlice(), VtepDevIndex: parent,
	}, nil
}

// alter implements device. The kernel cannot change the VNI, the port, the parent and the family.
func (v VXLAN) alter(c *rtnl.Conn, have, want netlink.Link) (steps []deviceStep, can bool) {
	h, isVXLAN := have.(*netlink.Vxlan)
	w, _ := want.(*netlink.Vxlan)
	if !isVXLAN {
		return nil, false
	}
	local, _ := netip.AddrFromSlice(h.SrcAddr)
	if h.VxlanId != w.VxlanId || h.Port != w.Port || h.VtepDevIndex != w.VtepDevIndex || h.Group != nil || h.GBP ||
		h.FlowBased || !local.IsValid() || local.Is4() != v.Local.Is4() {
		return nil, false
	}
	if local == v.Local && !h.Learning {
		return nil, true
	}
	return []deviceStep{{
		text: fmt.Sprintf("ip link set dev %s type vxlan local %s nolearning", v.Name, v.Local),
		do:   func(_ *netlink.Handle, dev netlink.Link) error { return c.ChangeVXLAN(dev.Attrs().Index, v.Local) },
	}}, true
}
