// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Veth makes a veth pair between two namespaces, or in one, and sets both ends up.
func Veth(a, b End) (Link, Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = a.Name
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: b.Name, PeerNamespace: netlink.NsFd(b.NS.FD())}
	err := a.NS.netlink(func(h *netlink.Handle) error { return h.LinkAdd(veth) })
	if err != nil {
		return Link{}, Link{}, fmt.Errorf("netns: add veth %s: %w", a.Name, err)
	}
	if err := errors.Join(a.NS.Up(a.Name), b.NS.Up(b.Name)); err != nil {
		return Link{}, Link{}, err
	}
	aLink, aErr := a.NS.Link(a.Name)
	bLink, bErr := b.NS.Link(b.Name)
	return aLink, bLink, errors.Join(aErr, bErr)
}

// Link returns the interface with a name.
func (n *NS) Link(name string) (link Link, err error) {
	err = n.withLink(name, func(_ *netlink.Handle, l netlink.Link) error {
		link = Link{Name: name, Index: l.Attrs().Index, MAC: l.Attrs().HardwareAddr}
		return nil
	})
	return link, err
}

// Up sets an interface up.
func (n *NS) Up(name string) error {
	return n.withLink(name, func(h *netlink.Handle, l netlink.Link) error { return h.LinkSetUp(l) })
}

// Down sets an interface down.
func (n *NS) Down(name string) error {
	return n.withLink(name, func(h *netlink.Handle, l netlink.Link) error { return h.LinkSetDown(l) })
}

// DeleteLink deletes an interface. If it is one end of a veth pair, the kernel deletes the other
// end, too.
func (n *NS) DeleteLink(name string) error {
	return n.withLink(name, func(h *netlink.Handle, l netlink.Link) error { return h.LinkDel(l) })
}

// AddAddr adds an address to an interface. The address can be used at once.
func (n *NS) AddAddr(name string, prefix netip.Prefix) error {
	return n.withLink(name, func(h *netlink.Handle, l netlink.Link) error {
		addr := &netlink.Addr{IPNet: ipNet(prefix)}
		if prefix.Addr().Is6() {
			addr.Flags = unix.IFA_F_NODAD
		}
		return h.AddrAdd(l, addr)
	})
}

// AddGateway adds a default route through a gateway. name is the interface. The gateway's address
// decides whether it is a route of IPv4 or IPv6. AddGateway also adds a permanent neighbour entry
// for the gateway, so there are no ARP or NDP requests.
func (n *NS) AddGateway(name string, gateway netip.Addr, mac net.HardwareAddr) error {
	return n.withLink(name, func(h *netlink.Handle, l netlink.Link) error {
		neigh := &netlink.Neigh{
			LinkIndex: l.Attrs().Index, IP: gateway.AsSlice(), HardwareAddr: mac, State: netlink.NUD_PERMANENT,
		}
		if err := h.NeighSet(neigh); err != nil {
			return err
		}
		unspecified := netip.IPv4Unspecified()
		if gateway.Is6() {
			unspecified = netip.IPv6Unspecified()
		}
		return h.RouteAdd(&netlink.Route{
			LinkIndex: l.Attrs().Index, Dst: ipNet(netip.PrefixFrom(unspecified, 0)),
			Gw: gateway.AsSlice(), Flags: int(netlink.FLAG_ONLINK),
		})
	})
}

// withLink calls fn with the interface of a name.
func (n *NS) withLink(name string, fn func(*netlink.Handle, netlink.Link) error) error {
	return n.netlink(func(h *netlink.Handle) error {
		link, err := h.LinkByName(name)
		if err == nil {
			err = fn(h, link)
		}
		if err != nil {
			return fmt.Errorf("netns: interface %s: %w", name, err)
		}
		return nil
	})
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// NewWorkload makes a namespace, and links it to the node by a veth pair. The node's end is named
// hostInterface. In the new namespace, NewWorkload adds the addresses, and a default route for each
// of their families. It does not change the node's routes, forwarding and neighbour entries.
func NewWorkload(node *NS, hostInterface string, addresses ...netip.Addr) (*Workload, error) {
	ns, err := New()
	if err != nil {
		return nil, err
	}
	w := &Workload{NS: ns, Addresses: addresses}
	if err := w.attach(End{node, hostInterface}); err != nil {
		return nil, errors.Join(err, ns.Close())
	}
	return w, nil
}

// attach links the workload to the node.
func (w *Workload) attach(host End) (err error) {
	const name = "eth0"
	w.Host, w.Link, err = Veth(host, End{w.NS, name})
	if err != nil {
		return err
	}
	var has4, has6 bool
	for _, addr := range w.Addresses {
		if err := w.NS.AddAddr(name, netip.PrefixFrom(addr, addr.BitLen())); err != nil {
			return err
		}
		has4 = has4 || addr.Is4()
		has6 = has6 || addr.Is6()
	}
	// No interface has the addresses of these gateways.
	if has4 {
		err = w.NS.AddGateway(name, netip.AddrFrom4([4]byte{169, 254, 1, 1}), w.Host.MAC)
	}
	if has6 {
		gateway := netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 15: 1}) // fe80::1
		err = errors.Join(err, w.NS.AddGateway(name, gateway, w.Host.MAC))
	}
	return err
}
