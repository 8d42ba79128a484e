// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/rtnl"
	"github.com/wayleave/wayleave/policy"
)

// linkConfig describes a link.
type linkConfig struct {
	// namespace is the path of the container's network namespace.
	namespace string
	// inside and outside are the names of the interfaces in the container and on the node.
	inside, outside string
	mac             net.HardwareAddr // of the inside interface
	mtu             int
	addresses       []netip.Addr
}

// link is a pair of interfaces.
type link struct {
	outside string
	mac     net.HardwareAddr // of the outside interface
}

// connect makes a pair of interfaces between the node, in whose namespace this process is, and a
// container. At first, the agent's rules drop all packets of the host's side, because the name has
// the agent's prefix and there is no endpoint yet.
func connect(c linkConfig) (*link, error) {
	container, err := netns.GetFromPath(c.namespace)
	if err != nil {
		return nil, err
	}
	defer func() { _ = container.Close() }()
	if err := disconnect(c.outside, nil); err != nil { // an interrupted ADD may have left an interface
		return nil, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = c.outside, c.mtu, outsideMAC(c.mac)
	pair := &netlink.Veth{
		LinkAttrs: attrs, PeerName: c.inside, PeerHardwareAddr: c.mac, PeerNamespace: netlink.NsFd(container),
	}
	if err := netlink.LinkAdd(pair); err != nil {
		return nil, linkError(c.outside, err)
	}
	host, err := netlink.LinkByName(c.outside)
	if err != nil {
		return nil, linkError(c.outside, err)
	}
	l := &link{outside: c.outside, mac: host.Attrs().HardwareAddr}
	inside, err := netlink.NewHandleAt(container)
	if err != nil {
		return nil, err
	}
	defer inside.Close()
	if err := equip(inside, c, l.mac); err != nil {
		return nil, linkError(c.inside, err)
	}
	if err := netlink.LinkSetUp(host); err != nil {
		return nil, linkError(c.outside, err)
	}
	return l, nil
}

// outsideMAC returns the MAC address of the host's side. It is derived from the MAC address of the
// container's side, so that it identifies the container. It is set when the interface is made,
// because systemd-udevd would replace a random address.
func outsideMAC(inside net.HardwareAddr) net.HardwareAddr {
	mac := bytes.Clone(inside)
	mac[0] ^= 4
	return mac
}

// equip adds addresses and default routes to the container's side. It also adds permanent neighbour
// entries for the gateways, with the MAC address of the host's side.
func equip(h *netlink.Handle, c linkConfig, hostMAC net.HardwareAddr) error {
	l, err := h.LinkByName(c.inside)
	if err != nil {
		return err
	}
	if err := h.LinkSetUp(l); err != nil {
		return err
	}
	for _, addr := range c.addresses {
		a := &netlink.Addr{IPNet: network(addr, addr.BitLen())}
		if addr.Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		if err := h.AddrAdd(l, a); err != nil {
			return fmt.Errorf("address %s: %w", addr, err)
		}
	}
	for _, gateway := range gateways(c.addresses) {
		neighbour := &netlink.Neigh{
			LinkIndex: l.Attrs().Index, IP: gateway.AsSlice(), HardwareAddr: hostMAC, State: netlink.NUD_PERMANENT,
		}
		if err := h.NeighSet(neighbour); err != nil {
			return fmt.Errorf("gateway %s: %w", gateway, err)
		}
		route := &netlink.Route{
			LinkIndex: l.Attrs().Index, Dst: everything(gateway), Gw: gateway.AsSlice(),
			Flags: int(netlink.FLAG_ONLINK),
		}
		if err := h.RouteAdd(route); err != nil {
			return fmt.Errorf("route by %s: %w", gateway, err)
		}
	}
	return nil
}

// disconnect removes an interface of the node, and with it the other end of the pair. It does so
// only if the pair was made for the container with the MAC address. The reason is that another
// sandbox of the pod has an interface with the same name. A nil address matches any. It is not an
// error if the interface does not exist.
func disconnect(name string, mac net.HardwareAddr) error {
	l, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err == nil {
		if mac != nil && !bytes.Equal(l.Attrs().HardwareAddr, outsideMAC(mac)) {
			return nil
		}
		err = netlink.LinkDel(l) // by index, because another interface may have the name by now
	}
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return linkError(name, err)
	}
	return nil
}

// inspect checks that the link of an endpoint is still as connect made it.
func inspect(namespace, name string, e *policy.WorkloadEndpoint) error {
	container, err := netns.GetFromPath(namespace)
	if err != nil {
		return err
	}
	defer func() { _ = container.Close() }()
	h, err := netlink.NewHandleAt(container)
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := h.LinkByName(name)
	if err != nil {
		return linkError(name, errors.Join(errLink, err))
	}
	if mac := l.Attrs().HardwareAddr.String(); mac != e.MAC {
		return linkError(name, fmt.Errorf("has the MAC address %s, and had %s", mac, e.MAC))
	}
	have, err := addresses(container, l.Attrs().Index)
	if err != nil {
		return linkError(name, err)
	}
	for _, addr := range e.Addresses {
		if !slices.Contains(have, addr) {
			return linkError(name, fmt.Errorf("has lost the address %s", addr))
		}
	}
	host, err := netlink.LinkByName(e.Interface)
	if err != nil {
		return linkError(e.Interface, errors.Join(errLink, err))
	}
	if host.Attrs().Flags&net.FlagUp == 0 {
		return linkError(e.Interface, errors.New("is down"))
	}
	return nil
}

// addresses returns the addresses of an interface in a namespace.
func addresses(namespace netns.NsHandle, index int) (out []netip.Addr, err error) {
	conn, err := rtnl.Dial(rtnl.Config{NetNS: int(namespace)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	all, err := conn.Addresses()
	for _, a := range all {
		if a.Index == index {
			out = append(out, a.Prefix.Addr())
		}
	}
	return out, err
}
