// SPDX-License-Identifier: Apache-2.0

package nflog

import (
	"encoding/binary"
	"net/netip"

	"github.com/wayleave/wayleave/policy"
)

// Entry is a logged packet.
type Entry struct {
	// Prefix is the log prefix of the rule.
	Prefix string
	// In and Out are the indexes of the interfaces by which the packet enters and leaves. An index
	// is 0 if there is no such interface.
	In, Out uint32
	// Src and Dst are the addresses of the packet. They are invalid if its IP header is malformed.
	Src, Dst netip.Addr
	Protocol policy.Protocol
	// SrcPort and DstPort are the ports. They are 0 if the protocol has no ports, and in fragments
	// other than the first.
	SrcPort, DstPort uint16
	// Length is the length of the packet in bytes, according to its IP header. It includes the IP
	// header.
	Length int
	// Missed is the number of times that the kernel dropped entries since the previous Entry,
	// because the receive buffer was full. Each time it may have dropped several.
	Missed int
}

// Lengths of headers and of the ports, in bytes.
const (
	header4, header6 = 20, 40
	ports            = 4
)

// readPacket reads the headers of a packet. The packet may be truncated.
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

// Numbers of IPv6 extension headers that may come before the header of the protocol.
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
