// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// skipStats asks for links without their counters.
const skipStats = 1 << 3

// Links lists the interfaces.
func (c *Conn) Links() ([]Link, error) {
	body, err := linkRequest(0, "")
	if err != nil {
		return nil, err
	}
	var links []Link
	err = c.dump(unix.RTM_GETLINK, body, func() func([]byte) error {
		links = nil
		return func(data []byte) error {
			link, err := parseLink(data)
			links = append(links, link)
			return err
		}
	})
	return links, err
}

// Link returns the interface with a name. ErrNotFound: there is none.
func (c *Conn) Link(name string) (Link, error) { return c.oneLink(0, name) }

// LinkByIndex returns the interface with an index. ErrNotFound: there is none.
func (c *Conn) LinkByIndex(index int) (Link, error) { return c.oneLink(index, "") }

// oneLink returns the interface with an index, or with a name if the index is 0.
func (c *Conn) oneLink(index int, name string) (link Link, err error) {
	body, err := linkRequest(index, name)
	if err != nil {
		return Link{}, err
	}
	err = c.do(unix.RTM_GETLINK, 0, body, func(data []byte) (err error) {
		link, err = parseLink(data)
		return err
	})
	return link, err
}

func linkRequest(index int, name string) ([]byte, error) {
	attrs := netlink.NewAttributeEncoder()
	attrs.Uint32(unix.IFLA_EXT_MASK, skipStats)
	if name != "" {
		attrs.String(unix.IFLA_IFNAME, name)
	}
	return encode(linkHeader(index, 0, 0), attrs)
}

func linkHeader(index int, flags, change uint32) []byte {
	header := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(header[4:], uint32(index))
	binary.NativeEndian.PutUint32(header[8:], flags)
	binary.NativeEndian.PutUint32(header[12:], change)
	return header
}

// AddVXLAN makes a VXLAN device, down, with the name, MTU, MAC address and VXLAN parameters of l;
// its index is the kernel's choice. ErrExist: an interface has the name, or another VXLAN device
// the same VNI, port and family.
func (c *Conn) AddVXLAN(l Link) error {
	return c.changeLink(unix.NLM_F_CREATE|unix.NLM_F_EXCL, linkHeader(0, 0, 0), func(b *Batch) {
		b.attrString(unix.IFLA_IFNAME, l.Name)
		b.attr32(unix.IFLA_MTU, l.MTU)
		b.attr(unix.IFLA_ADDRESS, l.MAC[:])
		b.attrKind(KindVXLAN, func() { b.attrVXLAN(l.VXLAN) })
	})
}

// SetAlias gives an interface a text.
func (c *Conn) SetAlias(index int, alias string) error {
	return c.changeLink(0, linkHeader(index, 0, 0), func(b *Batch) { b.attr(unix.IFLA_IFALIAS, []byte(alias)) })
}

// ChangeVXLAN gives the VXLAN device with an index another local address, of the same family, and
// switches learning on or off. The kernel cannot change other parameters.
func (c *Conn) ChangeVXLAN(index int, local netip.Addr, learning bool) error {
	return c.changeLink(0, linkHeader(index, 0, 0), func(b *Batch) {
		b.attrKind(KindVXLAN, func() { b.attrLocal(local, learning) })
	})
}

// SetMTU sets the MTU of an interface, in bytes.
func (c *Conn) SetMTU(index int, mtu uint32) error {
	return c.changeLink(0, linkHeader(index, 0, 0), func(b *Batch) { b.attr32(unix.IFLA_MTU, mtu) })
}

// SetMAC sets the MAC address of an interface.
func (c *Conn) SetMAC(index int, mac MAC) error {
	return c.changeLink(0, linkHeader(index, 0, 0), func(b *Batch) { b.attr(unix.IFLA_ADDRESS, mac[:]) })
}

// SetUp sets an interface up.
func (c *Conn) SetUp(index int) error {
	return c.changeLink(0, linkHeader(index, unix.IFF_UP, unix.IFF_UP), func(*Batch) {})
}

// DeleteLink deletes an interface. ErrNotFound: there is none.
func (c *Conn) DeleteLink(index int) error {
	return c.one(func(b *Batch) {
		b.begin(unix.RTM_DELLINK, 0)
		b.buf = append(b.buf, linkHeader(index, 0, 0)...)
		b.end()
	})
}

func (c *Conn) changeLink(flags uint16, header []byte, attributes func(*Batch)) error {
	return c.one(func(b *Batch) {
		b.begin(unix.RTM_NEWLINK, flags)
		b.buf = append(b.buf, header...)
		attributes(b)
		b.end()
	})
}

func (b *Batch) attrString(typ uint16, s string) { b.attr(typ, append([]byte(s), 0)) }

// attrKind appends the kind of an interface and its parameters.
func (b *Batch) attrKind(kind string, parameters func()) {
	info := b.beginNested(unix.IFLA_LINKINFO)
	b.attrString(unix.IFLA_INFO_KIND, kind)
	data := b.beginNested(unix.IFLA_INFO_DATA)
	parameters()
	b.endNested(data)
	b.endNested(info)
}

func (b *Batch) attrVXLAN(v VXLAN) {
	b.attr32(unix.IFLA_VXLAN_ID, v.VNI)
	b.attr(unix.IFLA_VXLAN_PORT, binary.BigEndian.AppendUint16(nil, v.Port))
	if v.Parent != 0 {
		b.attr32(unix.IFLA_VXLAN_LINK, uint32(v.Parent))
	}
	b.attrLocal(v.Local, v.Learning)
}

func (b *Batch) attrLocal(local netip.Addr, learning bool) {
	if learning {
		b.attr8(unix.IFLA_VXLAN_LEARNING, 1)
	} else {
		b.attr8(unix.IFLA_VXLAN_LEARNING, 0)
	}
	switch {
	case local.Is4():
		b.attrAddr(unix.IFLA_VXLAN_LOCAL, local)
	case local.Is6():
		b.attrAddr(unix.IFLA_VXLAN_LOCAL6, local)
	}
}

func parseLink(data []byte) (Link, error) {
	if len(data) < unix.SizeofIfInfomsg {
		return Link{}, errMalformed
	}
	flags := binary.NativeEndian.Uint32(data[8:])
	l := Link{
		Index:   int(int32(binary.NativeEndian.Uint32(data[4:]))),
		Up:      flags&unix.IFF_UP != 0,
		Running: flags&unix.IFF_UP != 0 && flags&unix.IFF_LOWER_UP != 0,
	}
	a := attrs{rest: data[unix.SizeofIfInfomsg:]}
	for a.next() {
		switch a.typ {
		case unix.IFLA_IFNAME:
			l.Name = unix.ByteSliceToString(a.data)
		case unix.IFLA_MTU:
			l.MTU = a.uint32()
		case unix.IFLA_MASTER:
			l.Master = int(a.uint32())
		case unix.IFLA_ADDRESS:
			if len(a.data) == len(l.MAC) {
				l.MAC = MAC(a.data)
			}
		case unix.IFLA_IFALIAS:
			l.Alias = unix.ByteSliceToString(a.data)
		case unix.IFLA_LINKINFO:
			a.err = errors.Join(a.err, l.parseInfo(a.data))
		}
	}
	return l, a.err
}

// parseInfo reads the kind of an interface, which comes first, and its parameters.
func (l *Link) parseInfo(data []byte) error {
	a := attrs{rest: data}
	for a.next() {
		switch {
		case a.typ == unix.IFLA_INFO_KIND:
			l.Kind = unix.ByteSliceToString(a.data)
		case a.typ == unix.IFLA_INFO_DATA && l.Kind == KindVXLAN:
			a.err = errors.Join(a.err, l.VXLAN.parse(a.data))
		}
	}
	return a.err
}

func (v *VXLAN) parse(data []byte) error {
	a := attrs{rest: data}
	for a.next() {
		switch a.typ {
		case unix.IFLA_VXLAN_ID:
			v.VNI = a.uint32()
		case unix.IFLA_VXLAN_PORT:
			if len(a.data) == 2 {
				v.Port = binary.BigEndian.Uint16(a.data)
			}
		case unix.IFLA_VXLAN_LOCAL, unix.IFLA_VXLAN_LOCAL6:
			v.Local = a.addr()
		case unix.IFLA_VXLAN_LINK:
			v.Parent = int(a.uint32())
		case unix.IFLA_VXLAN_LEARNING:
			v.Learning = a.uint8() != 0
		case unix.IFLA_VXLAN_COLLECT_METADATA:
			v.Other = v.Other || a.uint8() != 0
		case unix.IFLA_VXLAN_GROUP, unix.IFLA_VXLAN_GROUP6, unix.IFLA_VXLAN_GBP, unix.IFLA_VXLAN_GPE:
			v.Other = true
		}
	}
	return a.err
}

// encode appends attributes to a header.
func encode(header []byte, attrs *netlink.AttributeEncoder) ([]byte, error) {
	body, err := attrs.Encode()
	return append(header, body...), err
}

// familyNumber turns 4 and 6 into the kernel's numbers.
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
