// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"

	"github.com/wayleave/wayleave/policy"
)

// Types of ICMP and ICMPv6 messages.
const (
	EchoRequest   = 8
	EchoReply     = 0
	EchoRequestV6 = 128
	EchoReplyV6   = 129
)

// echo sends an ICMP echo request over a raw socket and waits for its reply.
func (p Probe) echo(ctx context.Context) error {
	network, request, reply := "ip4:1", byte(EchoRequest), byte(EchoReply)
	if p.Flow.Protocol == policy.ProtocolICMPv6 {
		network, request, reply = "ip6:58", EchoRequestV6, EchoReplyV6
	}
	conn, err := net.DialIP(network, &net.IPAddr{IP: p.Flow.Src.AsSlice()}, &net.IPAddr{IP: p.Flow.Dst.AsSlice()})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := setDeadline(ctx, conn); err != nil {
		return err
	}
	message := echoMessage(request, p.Flow.SrcPort)
	if _, err := conn.Write(message); err != nil {
		return err
	}
	// The socket receives all ICMP packets from that address, including replies to other probes.
	buf := make([]byte, 1500)
	for {
		n, _, err := conn.ReadFromIP(buf)
		if err != nil {
			return err
		}
		if n == len(message) && buf[0] == reply && bytes.Equal(buf[4:n], message[4:]) {
			return nil
		}
	}
}

// echoMessage returns an echo request: type, code, checksum, identifier, sequence number, and data
// that identifies the sender.
func echoMessage(typ byte, id uint16) []byte {
	m := binary.BigEndian.AppendUint16([]byte{typ, 0, 0, 0}, id)
	m = append(m, 0, 1)
	m = append(m, "wayleave"...)
	// The kernel writes the checksum of ICMPv6 itself, because that covers the addresses.
	binary.BigEndian.PutUint16(m[2:], checksum(m))
	return m
}

// checksum returns the checksum of RFC 1071, for an even number of bytes.
func checksum(data []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(data); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(data[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
