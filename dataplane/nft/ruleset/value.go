// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

// IfnameSize is the kernel's size of an interface name, including the terminating zero.
const IfnameSize = 16

// The connection states, as bits of a CtState value.
const (
	CtInvalid     uint32 = 1
	CtEstablished uint32 = 2
	CtRelated     uint32 = 4
	CtNew         uint32 = 8
	CtUntracked   uint32 = 64
)

// The status of a connection, as bits of a CtStatus value.
const (
	ctExpected  uint32 = 1 << 0
	CtSeenReply uint32 = 1 << 1
	ctAssured   uint32 = 1 << 2
	ctConfirmed uint32 = 1 << 3
	CtSNAT      uint32 = 1 << 4
	CtDNAT      uint32 = 1 << 5
	ctDying     uint32 = 1 << 9
)

// The flags of TCP, as bits of a TCPFlags value.
const (
	TCPFin uint8 = 1 << iota
	TCPSyn
	TCPRst
	tcpPsh
	TCPAck
	tcpUrg
	tcpEcn
	tcpCwr
)

// The types of addresses in results of a fib lookup, numbered as in the kernel (RTN_...).
const (
	FibTypeUnicast   uint32 = 1
	FibTypeLocal     uint32 = 2
	FibTypeBroadcast uint32 = 3
	FibTypeAnycast   uint32 = 4
	FibTypeMulticast uint32 = 5
)

// The values of NFProto.
const (
	NFProtoIPv4 uint8 = 2
	NFProtoIPv6 uint8 = 10
)

// Addr returns an address as a value of 4 or 16 bytes.
func Addr(a netip.Addr) Value { return a.AsSlice() }

// LastAddr returns the last address of a prefix. The prefix must have no host bits.
func LastAddr(n netip.Prefix) netip.Addr {
	if n.IsSingleIP() {
		return n.Addr()
	}
	b := n.Addr().AsSlice()
	for i := n.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// Port returns a port in network byte order.
func Port(p uint16) Value { return binary.BigEndian.AppendUint16(nil, p) }

// Byte returns a value of one byte, such as a protocol, an ICMP type or code, or an NFProto.
func Byte(b uint8) Value { return Value{b} }

// Ifname returns an interface name, padded with zeros to its full size. It uses at most 15 bytes of
// the name.
func Ifname(name string) Value {
	v := make(Value, IfnameSize)
	copy(v[:IfnameSize-1], name)
	return v
}

// IfnamePrefix returns a value for a Compare that matches every interface name that begins with
// prefix, like "prefix*" in nft.
func IfnamePrefix(prefix string) Value { return Value(prefix) }

// Uint32 returns a number of four bytes in host byte order: a mark, a priority, or bits of the
// state or status of a connection.
func Uint32(v uint32) Value { return binary.NativeEndian.AppendUint32(nil, v) }

// EtherTypeOf returns an EtherType in network byte order, for the field Protocol.
func EtherTypeOf(v uint16) Value { return binary.BigEndian.AppendUint16(nil, v) }

// compareValues orders values by length, and then by their bytes.
func compareValues(a, b Value) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return bytes.Compare(a, b)
}
