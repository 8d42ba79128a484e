// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"

	"github.com/wayleave/wayleave/policy"
)

// frame is an IP packet in parts. Its last eight bytes are its id, which identifies it also after
// translation.
type frame struct {
	src, dst     netip.Addr
	sport, dport uint16
	proto        policy.Protocol
	dscp         policy.DSCP
	typ, code    uint8  // of ICMP
	echo         uint16 // identifier of an echo request or reply
	flags        uint8  // of TCP
	seq, ack     uint32 // of TCP
	chunk        uint8  // of SCTP
	tag          uint32 // of SCTP: the verification tag
	inner        []byte // of an ICMP error: the quoted packet
	broken       bool   // an invalid length of UDP or tag of SCTP
	id           uint64
}

// The flags of TCP and the chunks of SCTP that the tests use.
const (
	tcpSYN, tcpACK = 0x02, 0x10

	sctpInit, sctpInitAck, sctpCookieEcho = 1, 2, 10
)

// Each side's tag of SCTP, and each side's first sequence number of TCP.
const (
	openerTag, answererTag = 0x01020304, 0x05060708
	openerSeq, answererSeq = 1000, 9000
)

// bytes returns the packet with valid checksums.
func (f frame) bytes() []byte {
	id := binary.BigEndian.AppendUint64(nil, f.id)
	var body []byte
	at := -1 // offset of the checksum
	switch f.proto {
	case policy.ProtocolTCP:
		body, at = f.tcp(), 16
	case policy.ProtocolUDP:
		size := uint16(8 + len(id))
		if f.broken {
			size += 100
		}
		body, at = binary.BigEndian.AppendUint16(f.ports(), size), 6
		body = append(body, 0, 0)
	case policy.ProtocolSCTP:
		return f.packet(f.sctp(id))
	case policy.ProtocolICMP, policy.ProtocolICMPv6:
		body, at = []byte{f.typ, f.code, 0, 0, 0, 0, 0, 1}, 2
		if f.inner != nil {
			body = append(body, f.inner...)
		} else {
			binary.BigEndian.PutUint16(body[4:], f.echo)
		}
	default:
		body = make([]byte, 8)
	}
	body = append(body, id...)
	if at >= 0 {
		sum := checksum(append(f.pseudo(len(body)), body...))
		binary.BigEndian.PutUint16(body[at:], sum)
	}
	return f.packet(body)
}

// packet returns the packet with a body.
func (f frame) packet(body []byte) []byte {
	p := rawPacket(f.src, f.dst, uint8(f.proto), body)
	if f.src.Is6() {
		p[0], p[1] = p[0]|uint8(f.dscp)>>2, uint8(f.dscp)<<6
		return p
	}
	p[1], p[10], p[11] = uint8(f.dscp)<<2, 0, 0
	binary.BigEndian.PutUint16(p[10:], checksum(p[:20]))
	return p
}

func (f frame) ports() []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, f.sport), f.dport)
}

func (f frame) tcp() []byte {
	body := binary.BigEndian.AppendUint32(f.ports(), f.seq)
	body = binary.BigEndian.AppendUint32(body, f.ack)
	return append(body, 5<<4, f.flags, 0xff, 0xff, 0, 0, 0, 0)
}

func (f frame) sctp(id []byte) []byte {
	body := binary.BigEndian.AppendUint32(f.ports(), f.tag)
	body = append(body, 0, 0, 0, 0, f.chunk, 0)
	if f.chunk == sctpCookieEcho {
		body = append(binary.BigEndian.AppendUint16(body, uint16(4+len(id))), id...)
	} else {
		own := uint32(openerTag)
		if f.chunk == sctpInitAck {
			own = answererTag
		}
		body = binary.BigEndian.AppendUint16(body, uint16(20+4+len(id)))
		body = binary.BigEndian.AppendUint32(body, own)
		body = append(body, 0, 0, 0xff, 0xff, 0, 1, 0, 1, 0, 0, 0, 1)
		// An unknown parameter.
		body = append(append(body, 0xc0, 0x77, 0, byte(4+len(id))), id...)
	}
	binary.LittleEndian.PutUint32(body[8:], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	return body
}

// pseudo returns the pseudo-header of a checksum.
func (f frame) pseudo(size int) []byte {
	if f.proto == policy.ProtocolICMP {
		return nil
	}
	p := append(f.src.AsSlice(), f.dst.AsSlice()...)
	return append(binary.BigEndian.AppendUint32(p, uint32(size)), 0, 0, 0, byte(f.proto))
}

// idOf returns the id of a received frame.
func idOf(packet []byte) uint64 {
	if len(packet) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(packet[len(packet)-8:])
}

// opening returns the first packet of a connection.
func opening(f frame) frame {
	switch f.proto {
	case policy.ProtocolTCP:
		f.flags, f.seq = tcpSYN, openerSeq
	case policy.ProtocolSCTP:
		f.chunk = sctpInit
	}
	return f
}
