// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

const (
	sizeofNdMsg = 12
	// ndaProtocol is the attribute that says who made an entry; Linux 5.0.
	ndaProtocol = 12
	ntfSelf     = 0x02
	ntfProxy    = 0x08
)

// Neighbours lists the entries of a family, 4 or 6, that a protocol made: those of the ARP or NDP
// table, or with proxy those of the addresses that the host answers for.
func (c *Conn) Neighbours(family int, protocol uint8, proxy bool) ([]Neighbour, error) {
	header := make([]byte, sizeofNdMsg)
	header[0], header[10] = familyNumber(family), proxyFlag(proxy)
	return list(c, unix.RTM_GETNEIGH, header, parseNeighbour, func(n Neighbour) bool {
		return n.Proxy == proxy && n.Addr.IsValid() && n.Protocol == protocol
	})
}

// Neighbour returns the entry for an address on an interface, whoever made it; with proxy, the one by
// which the host answers for the address. ErrNotFound: there is none.
func (c *Conn) Neighbour(index int, addr netip.Addr, proxy bool) (entry Neighbour, err error) {
	request := Batch{}
	request.neighbourHeader(familyOf(addr), index, 0, proxyFlag(proxy))
	request.attrAddr(unix.NDA_DST, addr)
	err = c.do(unix.RTM_GETNEIGH, request.buf, func(data []byte) (err error) {
		entry, err = parseNeighbour(data)
		return err
	})
	return entry, err
}

func proxyFlag(proxy bool) uint8 {
	if proxy {
		return ntfProxy
	}
	return 0
}

// AddNeighbour makes an entry. ErrExist: there is one, perhaps just a learned one. An entry of a
// proxy is made or becomes the protocol's.
func (b *Batch) AddNeighbour(n *Neighbour) {
	flags := uint16(unix.NLM_F_CREATE | unix.NLM_F_EXCL)
	if n.Proxy {
		flags = unix.NLM_F_CREATE // the kernel looks at no other flag
	}
	b.neighbour(unix.RTM_NEWNEIGH, flags, n)
}

// ReplaceNeighbour makes an entry or replaces it, whoever made it. An entry of a forwarding database
// takes the place of the one of its MAC.
func (b *Batch) ReplaceNeighbour(n *Neighbour) {
	b.neighbour(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, n)
}

// DeleteNeighbour deletes the entry for the address on the interface, whoever made it, or that of a
// forwarding database. ErrNotFound: there is none.
func (b *Batch) DeleteNeighbour(n *Neighbour) {
	if !n.Forward {
		n = &Neighbour{Addr: n.Addr, Index: n.Index, Proxy: n.Proxy}
	}
	b.neighbour(unix.RTM_DELNEIGH, 0, n)
}

func (b *Batch) neighbour(typ, flags uint16, n *Neighbour) {
	b.begin(typ, flags)
	if n.Forward {
		b.neighbourHeader(unix.AF_BRIDGE, n.Index, n.State, ntfSelf)
	} else {
		b.neighbourHeader(familyOf(n.Addr), n.Index, n.State, proxyFlag(n.Proxy))
	}
	if n.Addr.IsValid() {
		b.attrAddr(unix.NDA_DST, n.Addr)
	}
	if n.MAC != (MAC{}) {
		b.attr(unix.NDA_LLADDR, n.MAC[:])
	}
	if n.Protocol != 0 {
		b.attr8(ndaProtocol, n.Protocol)
	}
	b.end()
}

func (b *Batch) neighbourHeader(family uint8, index int, state uint16, flags uint8) {
	b.buf = append(b.buf, family, 0, 0, 0)
	b.buf = binary.NativeEndian.AppendUint32(b.buf, uint32(index))
	b.buf = binary.NativeEndian.AppendUint16(b.buf, state)
	b.buf = append(b.buf, flags, 0)
}

func parseNeighbour(data []byte) (n Neighbour, err error) {
	if len(data) < sizeofNdMsg {
		return Neighbour{}, errMalformed
	}
	n = Neighbour{
		Index: int(int32(binary.NativeEndian.Uint32(data[4:]))),
		State: binary.NativeEndian.Uint16(data[8:]),
		Proxy: data[10]&ntfProxy != 0, Forward: data[0] == unix.AF_BRIDGE,
	}
	a := attrs{rest: data[sizeofNdMsg:]}
	for a.next() {
		switch a.typ {
		case unix.NDA_DST:
			n.Addr, _ = netip.AddrFromSlice(a.data)
		case unix.NDA_LLADDR:
			if len(a.data) == len(n.MAC) {
				n.MAC = MAC(a.data)
			}
		case unix.NDA_CACHEINFO:
		default:
			n.Extra = n.Extra || n.Forward
			if a.typ == ndaProtocol {
				n.Protocol = a.uint8()
			}
		}
	}
	return n, a.err
}

// Forwards lists the forwarding database of a VXLAN device, the default entry of no MAC left out.
func (c *Conn) Forwards(index int) ([]Neighbour, error) {
	request := Batch{}
	request.neighbourHeader(unix.AF_BRIDGE, 0, 0, 0)
	request.attr32(unix.NDA_IFINDEX, uint32(index))
	return list(c, unix.RTM_GETNEIGH, request.buf, parseNeighbour, func(n Neighbour) bool {
		return n.Forward && n.Index == index && n.MAC != (MAC{})
	})
}
