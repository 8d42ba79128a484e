// SPDX-License-Identifier: Apache-2.0

package nflog

import (
	"encoding/binary"
	"net/netip"

	"github.com/wayleave/wayleave/policy"
)

// Entry is one packet that was logged.
type Entry struct {
	// Prefix of the rule.
	Prefix string
	// In and Out are the indexes of the interfaces that the packet came by and goes by; 0 where
	// there is none.
	In, Out uint32
	// Src and Dst of the packet. They are zero if its header makes no sense.
	Src, Dst netip.Addr
	Protocol policy.Protocol
	// SrcPort and DstPort, for protocols that have ports and packets that are no later fragments.
	SrcPort, DstPort uint16
	// Length of the packet with its IP header, as the header says.
	Length int
	// Missed is how often the kernel had no room for what it logged before this.
	Missed int
}

// The lengths of headers, and where things are in them.
const (
	header4, header6 = 20, 40
	ports            = 4
)

// readPacket reads the headers of a packet, as far as they are there.
func (e *Entry) readPacket(p []byte) {
	if len(p) == 0 {
		return
	}
	switch p[0] >> 4 {
	case 4:
		e.read4(p)
	case 6:
		e.read6(p)
	}
}

func (e *Entry) read4(p []byte) {
	length := int(p[0]&0xf) * 4
	if len(p) < header4 || length < header4 {
		return
	}
	e.Src, e.Dst = netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20]))
	e.Protocol = policy.Protocol(p[9])
	e.Length = int(binary.BigEndian.Uint16(p[2:4]))
	later := binary.BigEndian.Uint16(p[6:8])&0x1fff != 0
	if !later && len(p) >= length {
		e.readPorts(p[length:])
	}
}

// extensions are the IPv6 headers that may stand before that of the protocol, each with its length
// in a byte.
const (
	hopByHop, routing, fragment, destination = 0, 43, 44, 60
)

func (e *Entry) read6(p []byte) {
	if len(p) < header6 {
		return
	}
	e.Src, e.Dst = netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40]))
	e.Length = header6 + int(binary.BigEndian.Uint16(p[4:6]))
	next, p := p[6], p[header6:]
	for {
		e.Protocol = policy.Protocol(next)
		length := 8
		switch next {
		case fragment:
			if len(p) >= 4 && binary.BigEndian.Uint16(p[2:4])>>3 != 0 {
				e.Protocol = policy.Protocol(p[0])
				return
			}
		case hopByHop, routing, destination:
			if len(p) >= 2 {
				length += int(p[1]) * 8
			}
		default:
			e.readPorts(p)
			return
		}
		if len(p) < length {
			return
		}
		next, p = p[0], p[length:]
	}
}

func (e *Entry) readPorts(p []byte) {
	if e.Protocol.HasPorts() && len(p) >= ports {
		e.SrcPort, e.DstPort = binary.BigEndian.Uint16(p), binary.BigEndian.Uint16(p[2:])
	}
}
