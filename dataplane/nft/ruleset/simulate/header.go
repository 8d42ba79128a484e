// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// The protocols whose headers the simulator can write.
const (
	protoICMP     = 1
	protoTCP      = 6
	protoUDP      = 17
	protoDCCP     = 33
	protoFragment = 44 // the fragment header of IPv6
	protoICMPv6   = 58
	protoSCTP     = 132
	protoUDPLite  = 136
)

// header is the beginning of a packet as it is on the wire. Rules load bytes from it.
type header struct {
	v6     bool
	length int // the length of the packet
	known  int // the number of bytes that are known
	// start is the offset of the transport header. In a fragment, it is the offset of the payload.
	start    int
	fragment bool
	bytes    [192]byte
}

// Sizes of headers.
const (
	sizeIPv4, sizeIPv6, sizeFragment = 20, 40, 8
)

// headerFields has the fields of Packet.Header, compiled for IPv4 and IPv6.
type headerFields struct {
	fields [2][ruleset.HeaderFields]field
	most   [ruleset.HeaderFields]uint16
}

func newHeaderFields() (f headerFields) {
	for h := range ruleset.HeaderField(ruleset.HeaderFields) {
		f.fields[0][h], f.fields[1][h] = fieldOf(h.Field(false)), fieldOf(h.Field(true))
		f.most[h] = h.Max()
	}
	return f
}

// share is the overlap of a load with a field of Packet.Header.
type share uint8

const (
	none share = iota
	same       // exactly the field
	some       // some bytes
)

// share records with which fields of Packet.Header a load has bytes in common.
func (f *headerFields) share(x *field) {
	if x.load.Origin != ruleset.FromPayload {
		return
	}
	x.shared = x.load.Base == transportHeader
	begin, end := x.load.Offset, x.load.Offset+uint32(x.width)
	for v6 := range f.fields {
		for h := range f.fields[v6] {
			switch o := &f.fields[v6][h]; {
			case o.field == x.field:
				x.shares[v6][h] = same
			case o.load.Base == x.load.Base && o.load.Offset < end && begin < o.load.Offset+uint32(o.width):
				x.shares[v6][h] = some
			default:
				continue
			}
			x.shared = true
		}
	}
}

// of returns field h for packets of a family.
func (f *headerFields) of(v6 bool, h int) *field {
	if v6 {
		return &f.fields[1][h]
	}
	return &f.fields[0][h]
}

// in reports whether field h is in the transport header of the protocol.
func (f *headerFields) in(h int, protocol uint8) bool {
	v4, v6 := f.fields[0][h].load.Protocol, f.fields[1][h].load.Protocol
	return protocol != 0 && (protocol == v4 || protocol == v6)
}

// write writes the headers of the packet.
func (h *header) write(p *Packet, f *headerFields) error {
	if !p.Src.IsValid() || p.Src.BitLen() != p.Dst.BitLen() || p.Src.Is4In6() || p.Dst.Is4In6() {
		return ErrPacket
	}
	h.v6 = p.Src.Is6()
	network := sizeIPv4
	if h.v6 {
		network = sizeIPv6
		if p.fragmented() {
			network += sizeFragment
		}
	}
	n := h.writeTransport(network, p, f)
	h.length = min(network+max(len(p.Transport), n), math.MaxUint16)
	h.known = min(h.length, len(h.bytes))
	h.start, h.fragment = network, p.Fragment != 0
	if h.v6 {
		h.writeIPv6(p)
	} else {
		h.writeIPv4(p)
	}
	for i := range p.Header {
		if x := f.of(h.v6, i); x.load.Base == networkHeader {
			h.put(0, x, p.Header[i])
		}
	}
	return nil
}

// put writes a value to a field of the header that begins at base.
func (h *header) put(base int, f *field, v uint16) {
	load := &f.load
	mask, value := cmp.Or(load.Mask, math.MaxUint32), uint32(v)<<load.Shift
	first := base + int(load.Offset)
	for i := first + f.width - 1; i >= first; i-- {
		h.bytes[i] = h.bytes[i]&^byte(mask) | byte(value&mask)
		mask, value = mask>>8, value>>8
	}
}

func (h *header) writeIPv4(p *Packet) {
	b := &h.bytes
	b[0], b[8], b[9] = 0x45, 64, p.Protocol
	binary.BigEndian.PutUint16(b[2:], uint16(h.length))
	binary.BigEndian.PutUint16(b[6:], p.Fragment&0x1fff)
	if p.MoreFragments {
		b[6] |= 0x20
	}
	putAddr(b[12:], p.Src)
	putAddr(b[16:], p.Dst)
}

func (h *header) writeIPv6(p *Packet) {
	b := &h.bytes
	b[0], b[6], b[7] = 0x60, p.Protocol, 64
	binary.BigEndian.PutUint16(b[4:], uint16(h.length-sizeIPv6))
	if p.fragmented() {
		b[6], b[sizeIPv6] = protoFragment, p.Protocol
		binary.BigEndian.PutUint16(b[sizeIPv6+2:], p.Fragment<<3)
	}
	if p.MoreFragments {
		b[sizeIPv6+3] |= 1
	}
	putAddr(b[8:], p.Src)
	putAddr(b[24:], p.Dst)
}

// writeTransport writes the known part of the transport header, as far as there is space. It
// returns the length.
func (h *header) writeTransport(start int, p *Packet, f *headerFields) int {
	b := h.bytes[start:]
	if p.Transport != nil {
		return copy(b, p.Transport)
	}
	if p.Fragment != 0 {
		return 0
	}
	size := 0
	switch p.Protocol {
	case protoTCP:
		size = 20
		b[12] = 0x50
	case protoUDP, protoUDPLite:
		size = 8
		binary.BigEndian.PutUint16(b[4:], 8)
	case protoSCTP, protoDCCP:
		size = 12
	case protoICMP, protoICMPv6:
		size = 8
	}
	switch p.Protocol {
	case protoTCP, protoUDP, protoUDPLite, protoSCTP, protoDCCP:
		binary.BigEndian.PutUint16(b, p.SrcPort)
		binary.BigEndian.PutUint16(b[2:], p.DstPort)
	}
	for i := range p.Header {
		if x := f.of(h.v6, i); f.in(i, p.Protocol) {
			h.put(start, x, p.Header[i])
			size = max(size, int(x.load.Offset)+x.width)
		}
	}
	return size
}

// rewrite writes addresses and ports again after those of the packet have changed.
func (h *header) rewrite(p *Packet) {
	source, destination := 12, 16
	if h.v6 {
		source, destination = 8, 24
	}
	putAddr(h.bytes[source:], p.Src)
	putAddr(h.bytes[destination:], p.Dst)
	switch p.Protocol {
	case protoTCP, protoUDP, protoUDPLite, protoDCCP, protoSCTP:
		if p.Fragment != 0 || h.known < h.start+4 {
			return
		}
		binary.BigEndian.PutUint16(h.bytes[h.start:], p.SrcPort)
		binary.BigEndian.PutUint16(h.bytes[h.start+2:], p.DstPort)
		if p.Transport != nil {
			p.Transport = bytes.Clone(p.Transport)
			copy(p.Transport, h.bytes[h.start:h.start+4])
		}
	}
}

// network returns bytes of the packet. Offsets count from the IP header. If the packet is too
// short, it reports false.
func (h *header) network(offset, size int) ([]byte, bool) {
	if offset+size > h.known {
		return nil, false
	}
	return h.bytes[offset : offset+size], true
}

// transport returns bytes of the transport header. For a fragment, it returns bytes only for
// unchecked loads, for which the kernel does not check for fragments. In IPv6, these bytes are at
// the beginning of the packet.
func (h *header) transport(offset, size int, unchecked bool) ([]byte, bool) {
	if h.fragment && !unchecked {
		return nil, false
	}
	if h.fragment && h.v6 {
		return h.network(offset, size)
	}
	return h.network(h.start+offset, size)
}

// putAddr writes an address and returns its length.
func putAddr(b []byte, a netip.Addr) int {
	if a.Is4() {
		v := a.As4()
		return copy(b, v[:])
	}
	v := a.As16()
	return copy(b, v[:])
}

// addrOf returns the address of a value, or the zero Addr if the value is none.
func addrOf(v ruleset.Value) netip.Addr {
	a, _ := netip.AddrFromSlice(v)
	return a
}

// numberOf reads a number of at most two bytes.
func numberOf(v ruleset.Value) (n uint16) {
	for _, b := range v {
		n = n<<8 | uint16(b)
	}
	return n
}
