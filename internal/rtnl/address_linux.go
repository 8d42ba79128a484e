// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
)

// Addresses lists the addresses of all interfaces, of both families.
func (c *Conn) Addresses() ([]Address, error) {
	c.link.Request(unix.RTM_GETADDR, make([]byte, unix.SizeofIfAddrmsg)...)
	return list(c, parseAddress, func(a Address) bool { return a.Prefix.IsValid() })
}

// parseAddress parses an address. The prefix of any other family is zero.
func parseAddress(data []byte) (a Address, err error) {
	var attributes netlink.Decoder
	header := attributes.Begin(data, unix.SizeofIfAddrmsg)
	if family := header[0]; family != unix.AF_INET && family != unix.AF_INET6 {
		return Address{}, attributes.Err
	}
	flags := uint32(header[2])
	a = Address{Index: int(binary.NativeEndian.Uint32(header[4:]))}
	var local, address netip.Addr // for a point-to-point link, the latter is the address of the other side
	for attributes.Next() {
		switch attributes.Type {
		case unix.IFA_LOCAL:
			local = attributes.Addr()
		case unix.IFA_ADDRESS:
			address = attributes.Addr()
		case unix.IFA_FLAGS:
			flags = attributes.Native32()
		}
	}
	if attributes.Err != nil {
		return Address{}, attributes.Err
	}
	if !local.IsValid() {
		local = address
	}
	if a.Prefix = netip.PrefixFrom(local, int(header[1])); !a.Prefix.IsValid() {
		return Address{}, netlink.ErrMalformed
	}
	a.Tentative = flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 && flags&unix.IFA_F_OPTIMISTIC == 0
	return a, nil
}
