// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// skipStats asks for links without their counters.
const skipStats = 1 << 3

// Links lists the interfaces.
func (c *Conn) Links() ([]Link, error) {
	body, err := linkRequest("")
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
func (c *Conn) Link(name string) (link Link, err error) {
	body, err := linkRequest(name)
	if err != nil {
		return Link{}, err
	}
	err = c.do(unix.RTM_GETLINK, 0, body, func(data []byte) (err error) {
		link, err = parseLink(data)
		return err
	})
	return link, err
}

func linkRequest(name string) ([]byte, error) {
	attrs := netlink.NewAttributeEncoder()
	attrs.Uint32(unix.IFLA_EXT_MASK, skipStats)
	if name != "" {
		attrs.String(unix.IFLA_IFNAME, name)
	}
	return encode(make([]byte, unix.SizeofIfInfomsg), attrs)
}

func parseLink(data []byte) (Link, error) {
	if len(data) < unix.SizeofIfInfomsg {
		return Link{}, errMalformed
	}
	link := Link{
		Index: int(int32(binary.NativeEndian.Uint32(data[4:]))),
		Up:    binary.NativeEndian.Uint32(data[8:])&unix.IFF_UP != 0,
	}
	attrs, err := netlink.NewAttributeDecoder(data[unix.SizeofIfInfomsg:])
	if err != nil {
		return Link{}, err
	}
	for attrs.Next() {
		if attrs.Type() == unix.IFLA_IFNAME {
			link.Name = attrs.String()
		}
	}
	return link, attrs.Err()
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
