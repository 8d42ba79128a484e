// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Addresses lists the addresses of all interfaces, of both families.
func (c *Conn) Addresses() ([]Address, error) {
	return list(c, unix.RTM_GETADDR, make([]byte, unix.SizeofIfAddrmsg), parseAddress,
		func(a Address) bool { return a.Prefix.IsValid() })
}

// parseAddress reads an address. One that is of neither family has no prefix.
func parseAddress(data []byte) (a Address, err error) {
	if len(data) < unix.SizeofIfAddrmsg {
		return Address{}, errMalformed
	}
	if family := data[0]; family != unix.AF_INET && family != unix.AF_INET6 {
		return Address{}, nil
	}
	flags := uint32(data[2])
	a = Address{Index: int(binary.NativeEndian.Uint32(data[4:]))}
	attributes := attrs{rest: data[unix.SizeofIfAddrmsg:]}
	var local, address netip.Addr // of a point-to-point link the latter is the other side's
	for attributes.next() {
		switch attributes.typ {
		case unix.IFA_LOCAL:
			local = attributes.addr()
		case unix.IFA_ADDRESS:
			address = attributes.addr()
		case unix.IFA_FLAGS:
			flags = attributes.uint32()
		}
	}
	if attributes.err != nil {
		return Address{}, attributes.err
	}
	if !local.IsValid() {
		local = address
	}
	if a.Prefix = netip.PrefixFrom(local, int(data[1])); !a.Prefix.IsValid() {
		return Address{}, errMalformed
	}
	a.Tentative = flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 && flags&unix.IFA_F_OPTIMISTIC == 0
	return a, nil
}
