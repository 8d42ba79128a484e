// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// skipStats asks for links without their counters.
const skipStats = 1 << 3

// Links lists the interfaces.
func (c *Conn) Links() ([]Link, error) {
	return list(c, unix.RTM_GETLINK, linkRequest(0, ""), parseLink, func(Link) bool { return true })
}

// Link returns the interface with a name. ErrNotFound: there is none.
func (c *Conn) Link(name string) (Link, error) { return c.oneLink(0, name) }

// LinkByIndex returns the interface with an index. ErrNotFound: there is none.
func (c *Conn) LinkByIndex(index int) (Link, error) { return c.oneLink(index, "") }

// oneLink returns the interface with an index, or with a name if the index is 0.
func (c *Conn) oneLink(index int, name string) (link Link, err error) {
	err = c.do(unix.RTM_GETLINK, linkRequest(index, name), func(data []byte) (err error) {
		link, err = parseLink(data)
		return err
	})
	return link, err
}

func linkRequest(index int, name string) []byte {
	b := Batch{buf: linkHeader(index)}
	b.attr32(unix.IFLA_EXT_MASK, skipStats)
	if name != "" {
		b.attr(unix.IFLA_IFNAME, append([]byte(name), 0))
	}
	return b.buf
}

func linkHeader(index int) []byte {
	header := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(header[4:], uint32(index))
	return header
}

// ChangeVXLAN gives the VXLAN device with an index another local address, of the same family, and
// switches learning off. The kernel cannot change most other parameters, and refuses a request that
// repeats them.
func (c *Conn) ChangeVXLAN(index int, local netip.Addr) error {
	return c.one(func(b *Batch) {
		b.begin(unix.RTM_NEWLINK, 0)
		b.buf = append(b.buf, linkHeader(index)...)
		info := b.beginNested(unix.IFLA_LINKINFO)
		b.attr(unix.IFLA_INFO_KIND, []byte("vxlan\x00"))
		data := b.beginNested(unix.IFLA_INFO_DATA)
		b.attr8(unix.IFLA_VXLAN_LEARNING, 0)
		if local.Is4() {
			b.attrAddr(unix.IFLA_VXLAN_LOCAL, local)
		} else {
			b.attrAddr(unix.IFLA_VXLAN_LOCAL6, local)
		}
		b.endNested(data)
		b.endNested(info)
		b.end()
	})
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

// parseInfo reads the kind of an interface.
func (l *Link) parseInfo(data []byte) error {
	a := attrs{rest: data}
	for a.next() {
		if a.typ == unix.IFLA_INFO_KIND {
			l.Kind = unix.ByteSliceToString(a.data)
		}
	}
	return a.err
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
