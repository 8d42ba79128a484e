// SPDX-License-Identifier: Apache-2.0

package nfttest

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// The EtherTypes of frames.
const (
	EtherIPv4 uint16 = 0x0800
	EtherARP  uint16 = 0x0806
	EtherVLAN uint16 = 0x8100
	EtherIPv6 uint16 = 0x86dd
)

// MAC is an Ethernet address.
type MAC [6]byte

// Broadcast is the address of all stations.
func Broadcast() MAC { return MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff} }

// Ether returns a frame. tags are VLAN tags, the outermost first. Each tag has its EtherType and
// its identifier.
func Ether(dst, src MAC, tags [][2]uint16, etherType uint16, payload []byte) []byte {
	b := slices.Concat(dst[:], src[:])
	for _, tag := range tags {
		b = binary.BigEndian.AppendUint16(b, tag[0])
		b = binary.BigEndian.AppendUint16(b, tag[1])
	}
	return append(binary.BigEndian.AppendUint16(b, etherType), payload...)
}

// ARP returns an ARP request for Ethernet and IPv4, or an ARP reply to everybody.
func ARP(reply bool, sender MAC, from, target netip.Addr) []byte {
	b := []byte{0, 1, 8, 0, 6, 4, 0, 1}
	if reply {
		b[7] = 2
	}
	b = slices.Concat(b, sender[:], from.AsSlice(), make([]byte, 6), target.AsSlice())
	return append(b, make([]byte, 18)...) // the payload of a frame has at least 46 bytes
}

// IP returns a packet of either family. protocol is the protocol of the first header in the
// payload.
func IP(src, dst netip.Addr, protocol uint8, payload []byte) []byte {
	if src.Is4() {
		b := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0}
		b = slices.Concat(b, src.AsSlice(), dst.AsSlice())
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)+len(payload)))
		binary.BigEndian.PutUint16(b[10:], checksum(b))
		return append(b, payload...)
	}
	b := []byte{0x60, 0, 0, 0, 0, 0, protocol, 255}
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	return slices.Concat(b, src.AsSlice(), dst.AsSlice(), payload)
}

// UDP returns a datagram between two ports. It has no checksum, which only IPv4 allows.
func UDP(src, dst uint16, payload []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, src)
	b = binary.BigEndian.AppendUint16(b, dst)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(payload)))
	return append(append(b, 0, 0), payload...)
}

// ICMPv6 returns a message between two addresses. For neighbour discovery, the body begins with the
// target.
func ICMPv6(src, dst netip.Addr, typ uint8, body []byte) []byte {
	b := append([]byte{typ, 0, 0, 0, 0, 0, 0, 0}, body...)
	if typ == TypeAdvertisement {
		b[4] = 0x20 // override
	}
	pseudo := slices.Concat(src.AsSlice(), dst.AsSlice(), []byte{0, 0, byte(len(b) >> 8), byte(len(b)), 0, 0, 0, 58}, b)
	binary.BigEndian.PutUint16(b[2:], checksum(pseudo))
	return b
}

// The types of ICMPv6 messages of neighbour discovery.
const (
	TypeRouterSolicitation  uint8 = 133
	TypeRouterAdvertisement uint8 = 134
	TypeSolicitation        uint8 = 135
	TypeAdvertisement       uint8 = 136
	TypeRedirect            uint8 = 137
)

// Extended returns a Destination Options header of eight bytes, which has only padding, followed by
// an IPv6 payload. protocol is the payload's protocol. In the IPv6 header of the packet, the Next
// Header field must be 60.
func Extended(protocol uint8, payload []byte) []byte {
	return append([]byte{protocol, 0, 1, 4, 0, 0, 0, 0}, payload...)
}

// Fragment returns a fragment header, followed by a piece of an IPv6 payload. The offset is in
// units of eight bytes. In the IPv6 header of the packet, the Next Header field must be 44.
func Fragment(protocol uint8, offset uint16, more bool, piece []byte) []byte {
	word := offset << 3
	if more {
		word |= 1
	}
	return slices.Concat([]byte{protocol, 0, byte(word >> 8), byte(word), 0, 0, 0, 7}, piece)
}

// checksum returns the checksum of the Internet protocols.
func checksum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		word := uint32(b[i]) << 8
		if i+1 < len(b) {
			word |= uint32(b[i+1])
		}
		sum += word
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
