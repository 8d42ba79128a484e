// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
)

// skipStats requests links without their counters.
const skipStats = 1 << 3

// Links lists the interfaces.
func (c *Conn) Links() ([]Link, error) {
	c.linkRequest(0, "")
	return list(c, parseLink, func(Link) bool { return true })
}

// Link returns the interface with a name, or ErrNotFound.
func (c *Conn) Link(name string) (Link, error) { return c.oneLink(0, name) }

// LinkByIndex returns the interface with an index, or ErrNotFound.
func (c *Conn) LinkByIndex(index int) (Link, error) { return c.oneLink(index, "") }

// oneLink returns the interface with an index, or with a name if the index is 0.
func (c *Conn) oneLink(index int, name string) (link Link, err error) {
	c.linkRequest(index, name)
	err = c.do(func(m netlink.Message) (err error) {
		link, err = parseLink(m.Data)
		return err
	})
	return link, err
}

func (c *Conn) linkRequest(index int, name string) {
	b := c.link.Request(unix.RTM_GETLINK, linkHeader(index)...)
	b.Native32(unix.IFLA_EXT_MASK, skipStats)
	if name != "" {
		b.String(unix.IFLA_IFNAME, name)
	}
}

func linkHeader(index int) []byte {
	header := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(header[4:], uint32(index))
	return header
}

// ChangeVXLAN changes the local address of the VXLAN device with the index, and disables learning.
// The new address must be of the same family as the old one. The request contains only these two
// parameters, because the kernel cannot change most others, and refuses a request that contains
// them.
func (c *Conn) ChangeVXLAN(index int, local netip.Addr) error {
	return c.one(func(b *Batch) {
		b.Message(unix.RTM_NEWLINK, 0, linkHeader(index)...)
		info := b.Begin(unix.IFLA_LINKINFO)
		b.String(unix.IFLA_INFO_KIND, "vxlan")
		data := b.Begin(unix.IFLA_INFO_DATA)
		b.Uint8(unix.IFLA_VXLAN_LEARNING, 0)
		if local.Is4() {
			b.Addr(unix.IFLA_VXLAN_LOCAL, local)
		} else {
			b.Addr(unix.IFLA_VXLAN_LOCAL6, local)
		}
		b.End(data)
		b.End(info)
	})
}

// ChangeIPIP changes the local address and the parent (0 for none) of the IP-in-IP device with the
// index. It also sets the device's TTL, TOS, Don't Fragment bit and encapsulation in UDP to 0. Then
// each outer packet has the TTL and the Don't Fragment bit of the inner packet, and no UDP header.
// The kernel cannot change the inner protocol, and keeps the packet mark of the device.
func (c *Conn) ChangeIPIP(index int, local netip.Addr, parent int) error {
	// IFLA_IPTUN_LINK, _LOCAL, _PROTO, _PMTUDISC and _ENCAP_TYPE. The kernel sets all attributes
	// that are missing to 0.
	const attrLink, attrLocal, attrProtocol, attrDiscover, attrEncapsulation = 1, 2, 9, 10, 15
	return c.one(func(b *Batch) {
		b.Message(unix.RTM_NEWLINK, 0, linkHeader(index)...)
		info := b.Begin(unix.IFLA_LINKINFO)
		b.String(unix.IFLA_INFO_KIND, "ipip")
		data := b.Begin(unix.IFLA_INFO_DATA)
		b.Native32(attrLink, uint32(parent))
		b.Addr(attrLocal, local)
		b.Uint8(attrProtocol, unix.IPPROTO_IPIP)
		b.Uint8(attrDiscover, 0)
		b.Uint16(attrEncapsulation, 0)
		b.End(data)
		b.End(info)
	})
}

func parseLink(data []byte) (Link, error) {
	var a netlink.Decoder
	header := a.Begin(data, unix.SizeofIfInfomsg)
	flags := binary.NativeEndian.Uint32(header[8:])
	l := Link{
		Index:   int(int32(binary.NativeEndian.Uint32(header[4:]))),
		Up:      flags&unix.IFF_UP != 0,
		Running: flags&unix.IFF_UP != 0 && flags&unix.IFF_LOWER_UP != 0,
	}
	for a.Next() {
		switch a.Type {
		case unix.IFLA_IFNAME:
			l.Name = netlink.Text(a.Value)
		case unix.IFLA_MTU:
			l.MTU = a.Native32()
		case unix.IFLA_MASTER:
			l.Master = int(a.Native32())
		case unix.IFLA_ADDRESS:
			if len(a.Value) == len(l.MAC) {
				l.MAC = MAC(a.Value)
			}
		case unix.IFLA_IFALIAS:
			l.Alias = netlink.Text(a.Value)
		case unix.IFLA_LINKINFO:
			info := a.Nested()
			for info.Next() {
				switch info.Type {
				case unix.IFLA_INFO_KIND:
					l.Kind = netlink.Text(info.Value)
				case unix.IFLA_INFO_DATA: // comes after the kind
					if l.Kind == "bridge" {
						data := info.Nested()
						l.parseBridge(&data)
						info.Join(data.Err)
					}
				}
			}
			a.Join(info.Err)
		}
	}
	return l, a.Err
}

// parseBridge reads the attributes of a bridge.
func (l *Link) parseBridge(a *netlink.Decoder) {
	const callIPTables, callIP6Tables = 36, 37 // IFLA_BR_NF_CALL_IPTABLES, IFLA_BR_NF_CALL_IP6TABLES
	for a.Next() {
		on := len(a.Value) > 0 && a.Value[0] != 0
		switch a.Type {
		case callIPTables:
			l.CallIPv4 = on
		case callIP6Tables:
			l.CallIPv6 = on
		}
	}
}

// familyNumber converts 4 and 6 to the kernel's numbers.
func familyNumber(family int) byte {
	if family == 4 {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func familyOf(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
