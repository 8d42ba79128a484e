// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	sizeofNdMsg = 12
	// ndaProtocol is the attribute that says who made an entry; Linux 5.0.
	ndaProtocol = 12
	ntfProxy    = 0x08
)

// Neighbours lists the entries of a family, 4 or 6, that a protocol made.
func (c *Conn) Neighbours(family int, protocol uint8) ([]Neighbour, error) {
	header := make([]byte, sizeofNdMsg)
	header[0] = familyNumber(family)
	var entries []Neighbour
	err := c.dump(unix.RTM_GETNEIGH, header, func() func([]byte) error {
		entries = nil
		return func(data []byte) error {
			entry, proxy, err := parseNeighbour(data)
			if err == nil && !proxy && entry.Addr.IsValid() && entry.Protocol == protocol {
				entries = append(entries, entry)
			}
			return err
		}
	})
	return entries, err
}

// Neighbour returns the entry for an address on an interface. ErrNotFound: there is none.
func (c *Conn) Neighbour(index int, addr netip.Addr) (entry Neighbour, err error) {
	header := make([]byte, sizeofNdMsg)
	header[0] = familyOf(addr)
	binary.NativeEndian.PutUint32(header[4:], uint32(index))
	attrs := netlink.NewAttributeEncoder()
	attrs.Bytes(unix.NDA_DST, addr.AsSlice())
	body, err := encode(header, attrs)
	if err != nil {
		return Neighbour{}, err
	}
	err = c.do(unix.RTM_GETNEIGH, 0, body, func(data []byte) (err error) {
		entry, _, err = parseNeighbour(data)
		return err
	})
	return entry, err
}

// AddNeighbour makes an entry. ErrExist: there is one, perhaps just a learned one.
func (c *Conn) AddNeighbour(n Neighbour) error {
	return c.changeNeighbour(unix.RTM_NEWNEIGH, netlink.Create|netlink.Excl, n)
}

// ReplaceNeighbour makes an entry or replaces it, whoever made it.
func (c *Conn) ReplaceNeighbour(n Neighbour) error {
	return c.changeNeighbour(unix.RTM_NEWNEIGH, netlink.Create|netlink.Replace, n)
}

// DeleteNeighbour deletes the entry for the address on the interface. ErrNotFound: there is none.
func (c *Conn) DeleteNeighbour(n Neighbour) error {
	return c.changeNeighbour(unix.RTM_DELNEIGH, 0, Neighbour{Addr: n.Addr, Index: n.Index})
}

func (c *Conn) changeNeighbour(typ netlink.HeaderType, flags netlink.HeaderFlags, n Neighbour) error {
	header := make([]byte, sizeofNdMsg)
	header[0] = familyOf(n.Addr)
	binary.NativeEndian.PutUint32(header[4:], uint32(n.Index))
	binary.NativeEndian.PutUint16(header[8:], n.State)
	attrs := netlink.NewAttributeEncoder()
	attrs.Bytes(unix.NDA_DST, n.Addr.AsSlice())
	if n.MAC != (MAC{}) {
		attrs.Bytes(unix.NDA_LLADDR, n.MAC[:])
	}
	if n.Protocol != 0 {
		attrs.Uint8(ndaProtocol, n.Protocol)
	}
	body, err := encode(header, attrs)
	if err != nil {
		return err
	}
	return c.do(typ, flags, body, discard)
}

// parseNeighbour also reports whether the entry is one that the host answers for others.
func parseNeighbour(data []byte) (n Neighbour, proxy bool, err error) {
	if len(data) < sizeofNdMsg {
		return Neighbour{}, false, errMalformed
	}
	n = Neighbour{
		Index: int(int32(binary.NativeEndian.Uint32(data[4:]))),
		State: binary.NativeEndian.Uint16(data[8:]),
	}
	attrs, err := netlink.NewAttributeDecoder(data[sizeofNdMsg:])
	if err != nil {
		return Neighbour{}, false, err
	}
	for attrs.Next() {
		switch attrs.Type() {
		case unix.NDA_DST:
			n.Addr, _ = netip.AddrFromSlice(attrs.Bytes())
		case unix.NDA_LLADDR:
			if b := attrs.Bytes(); len(b) == len(n.MAC) {
				n.MAC = MAC(b)
			}
		case ndaProtocol:
			n.Protocol = attrs.Uint8()
		}
	}
	return n, data[10]&ntfProxy != 0, attrs.Err()
}
