// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
)

const (
	sizeofNdMsg = 12
	// ndaProtocol is the attribute with the protocol that made an entry; Linux 5.0.
	ndaProtocol = 12
	ntfSelf     = 0x02
	ntfProxy    = 0x08
)

// Neighbours lists the entries of the ARP table (family 4) or the NDP table (family 6) that have
// the protocol number. If proxy is set, it lists the proxy entries instead: the addresses for which
// the host answers.
func (c *Conn) Neighbours(family int, protocol uint8, proxy bool) ([]Neighbour, error) {
	c.link.Request(unix.RTM_GETNEIGH, neighbourHeader(familyNumber(family), 0, 0, proxyFlag(proxy))...)
	return list(c, parseNeighbour, func(n Neighbour) bool {
		return n.Proxy == proxy && n.Addr.IsValid() && n.Protocol == protocol
	})
}

// Neighbour returns the entry for an address on an interface, whatever protocol number the entry
// has. If proxy is set, it returns the proxy entry, by which the host answers for the address. If
// there is no such entry, it returns ErrNotFound.
func (c *Conn) Neighbour(index int, addr netip.Addr, proxy bool) (entry Neighbour, err error) {
	request := c.link.Request(unix.RTM_GETNEIGH, neighbourHeader(familyOf(addr), index, 0, proxyFlag(proxy))...)
	request.Addr(unix.NDA_DST, addr)
	err = c.do(func(m netlink.Message) (err error) {
		entry, err = parseNeighbour(m.Data)
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

// AddNeighbour adds an entry. If there already is an entry for the address, possibly a learned one,
// the kernel refuses the change with ErrExist. Proxy entries are an exception: if the proxy entry
// exists already, the kernel only sets the protocol number of the entry.
func (b *Batch) AddNeighbour(n *Neighbour) {
	flags := uint16(unix.NLM_F_CREATE | unix.NLM_F_EXCL)
	if n.Proxy {
		flags = unix.NLM_F_CREATE // the kernel ignores other flags
	}
	b.neighbour(unix.RTM_NEWNEIGH, flags, n)
}

// ReplaceNeighbour adds an entry. If there already is an entry for the address, the new entry
// replaces it, whatever protocol number the existing entry has. In a forwarding database, the new
// entry replaces the entry with the same MAC address.
func (b *Batch) ReplaceNeighbour(n *Neighbour) {
	b.neighbour(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, n)
}

// DeleteNeighbour deletes the entry for the address on the interface, whatever protocol number the
// entry has. If n.Forward is set, n is an entry of a forwarding database, and DeleteNeighbour
// deletes this entry. If there is no such entry, the kernel refuses the change with ErrNotFound.
func (b *Batch) DeleteNeighbour(n *Neighbour) {
	if !n.Forward {
		n = &Neighbour{Addr: n.Addr, Index: n.Index, Proxy: n.Proxy}
	}
	b.neighbour(unix.RTM_DELNEIGH, 0, n)
}

func (b *Batch) neighbour(typ, flags uint16, n *Neighbour) {
	header := neighbourHeader(unix.AF_BRIDGE, n.Index, n.State, ntfSelf)
	if !n.Forward {
		header = neighbourHeader(familyOf(n.Addr), n.Index, n.State, proxyFlag(n.Proxy))
	}
	b.Message(typ, flags, header...)
	if n.Addr.IsValid() {
		b.Addr(unix.NDA_DST, n.Addr)
	}
	if n.MAC != (MAC{}) {
		b.Bytes(unix.NDA_LLADDR, n.MAC[:])
	}
	if n.Protocol != 0 {
		b.Uint8(ndaProtocol, n.Protocol)
	}
}

// neighbourHeader returns a struct ndmsg.
func neighbourHeader(family uint8, index int, state uint16, flags uint8) []byte {
	header := make([]byte, sizeofNdMsg)
	header[0], header[10] = family, flags
	binary.NativeEndian.PutUint32(header[4:], uint32(index))
	binary.NativeEndian.PutUint16(header[8:], state)
	return header
}

func parseNeighbour(data []byte) (n Neighbour, err error) {
	var a netlink.Decoder
	header := a.Begin(data, sizeofNdMsg)
	n = Neighbour{
		Index: int(int32(binary.NativeEndian.Uint32(header[4:]))),
		State: binary.NativeEndian.Uint16(header[8:]),
		Proxy: header[10]&ntfProxy != 0, Forward: header[0] == unix.AF_BRIDGE,
	}
	for a.Next() {
		switch a.Type {
		case unix.NDA_DST:
			n.Addr, _ = netip.AddrFromSlice(a.Value)
		case unix.NDA_LLADDR:
			if len(a.Value) == len(n.MAC) {
				n.MAC = MAC(a.Value)
			}
		case unix.NDA_CACHEINFO:
		default:
			n.Extra = n.Extra || n.Forward
			if a.Type == ndaProtocol {
				n.Protocol = a.Uint8()
			}
		}
	}
	return n, a.Err
}

// Forwards lists the forwarding database of a VXLAN device without its default entry.
func (c *Conn) Forwards(index int) ([]Neighbour, error) {
	request := c.link.Request(unix.RTM_GETNEIGH, neighbourHeader(unix.AF_BRIDGE, 0, 0, 0)...)
	request.Native32(unix.NDA_IFINDEX, uint32(index))
	return list(c, parseNeighbour, func(n Neighbour) bool {
		return n.Forward && n.Index == index && n.MAC != (MAC{})
	})
}
