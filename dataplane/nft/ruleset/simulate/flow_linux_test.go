// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"

	mdnetlink "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// flow is a packet of the test, and the conntrack entry of its connection.
type flow struct {
	via                string // the link at which it arrives; empty: the node itself sends it
	src, dst           netip.Addr
	protocol           uint8
	sport, dport       uint16
	icmpType, icmpCode uint8
	tcpFlags           uint8
	payload            int  // bytes behind the transport header
	fragment           bool // not the first
	dscp               uint8
	mark, priority     uint32 // of packets of the node itself
	known              *knownConn
}

// knownConn is a conntrack entry from before the packet.
type knownConn struct {
	reply bool // the packet is an answer
	seen  bool // an answer was sent before
}

// The transport protocols of the flows; 253 and 50 have no ports.
const (
	icmp4, tcp, udp, icmp6, sctp, portless = 1, 6, 17, 58, 132, 253
)

// TCP flags.
const (
	flagFin, flagSyn, flagRst, flagPsh, flagAck = 1, 2, 4, 8, 16
)

func (p *flow) String() string {
	text := fmt.Sprintf("%q %s>%s proto %d ports %d %d icmp %d %d flags %#x payload %d fragment %v dscp %d mark %d %d",
		p.via, p.src, p.dst, p.protocol, p.sport, p.dport, p.icmpType, p.icmpCode, p.tcpFlags, p.payload, p.fragment,
		p.dscp, p.mark, p.priority)
	if p.known != nil {
		text += fmt.Sprintf(" conn %+v", *p.known)
	}
	return text
}

// icmpID is the identifier in ICMP messages.
const icmpID = 0x1234

// transport returns the packet behind its IP header.
func (p *flow) transport() []byte {
	var h []byte
	switch p.protocol {
	case tcp:
		h = make([]byte, 20)
		h[12], h[13] = 0x50, p.tcpFlags
		binary.BigEndian.PutUint16(h[14:], 1000)
	case udp:
		h = make([]byte, 8)
		binary.BigEndian.PutUint16(h[4:], uint16(8+p.payload))
	case sctp: // an INIT chunk
		h = make([]byte, 32)
		h[12], h[15] = 1, 20
	case icmp4, icmp6:
		h = make([]byte, 8)
		h[0], h[1] = p.icmpType, p.icmpCode
		binary.BigEndian.PutUint16(h[4:], icmpID)
	default:
		h = make([]byte, 4)
	}
	if p.hasPorts() {
		binary.BigEndian.PutUint16(h, p.sport)
		binary.BigEndian.PutUint16(h[2:], p.dport)
	}
	return append(h, make([]byte, p.payload)...)
}

func (p *flow) hasPorts() bool { return p.protocol == tcp || p.protocol == udp || p.protocol == sctp }

// bytes returns the whole packet.
func (p *flow) bytes() []byte {
	transport := p.transport()
	if p.src.Is4() {
		h := make([]byte, 12, 20+len(transport))
		h[0], h[1], h[8], h[9] = 0x45, p.dscp<<2, testTTL, p.protocol
		binary.BigEndian.PutUint16(h[2:], uint16(20+len(transport)))
		h[5] = 7
		if p.fragment {
			h[7] = 100
		}
		h = append(append(h, p.src.AsSlice()...), p.dst.AsSlice()...)
		sum := uint32(0)
		for i := 0; i < 20; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(h[i:]))
		}
		sum = sum&0xffff + sum>>16
		binary.BigEndian.PutUint16(h[10:], ^uint16(sum+sum>>16))
		return append(h, transport...)
	}
	h := make([]byte, 8, 48+len(transport))
	h[0], h[1], h[6], h[7] = 0x60|p.dscp>>2, p.dscp<<6, p.protocol, testTTL
	var extension []byte
	if p.fragment {
		extension = []byte{p.protocol, 0, 0x03, 0x20, 0, 0, 0, 7}
		h[6] = 44
	}
	binary.BigEndian.PutUint16(h[4:], uint16(len(extension)+len(transport)))
	h = append(append(h, p.src.AsSlice()...), p.dst.AsSlice()...)
	return append(append(h, extension...), transport...)
}

func (p *flow) sent() samplePacket {
	return samplePacket{via: p.via, mark: p.mark, priority: p.priority, bytes: p.bytes()}
}

// tuple identifies the packet's connection, the same in both directions.
func (p *flow) tuple() string {
	a, b := fmt.Sprint(p.src, p.sport), fmt.Sprint(p.dst, p.dport)
	if a > b {
		a, b = b, a
	}
	return fmt.Sprint(a, b, p.protocol, p.icmpType, p.icmpCode)
}

// trackable reports whether the kernel treats the packet as the first of a connection. If not, it
// reports whether the packet is untracked instead of invalid.
func (p *flow) trackable() (begins, untracked bool) {
	switch p.protocol {
	case tcp:
		return p.tcpFlags == flagSyn || p.tcpFlags == flagAck || p.tcpFlags == flagAck|flagPsh, false
	case icmp4:
		return p.icmpType == 8 || p.icmpType == 13, false
	case icmp6:
		return p.icmpType == 128, p.icmpType >= 130 && p.icmpType <= 136
	default:
		return true, false
	}
}

// randomFlow returns a packet with few possible values, so that random rules match it.
func randomFlow(rng *rand.Rand, on path) *flow {
	p := &flow{
		via:      on.vias[rng.IntN(len(on.vias))],
		protocol: []uint8{tcp, tcp, udp, udp, sctp, icmp4, portless}[rng.IntN(7)],
		sport:    somePort(rng), dport: somePort(rng),
		payload: rng.IntN(64), dscp: uint8(rng.IntN(3) * 23),
	}
	six := rng.IntN(2) == 0
	p.src, p.dst = someAddr(rng, six), someAddr(rng, six)
	for p.src == p.dst {
		p.dst = someAddr(rng, six)
	}
	if p.via != "" && rng.IntN(2) == 0 { // an address of the node
		p.dst = local4
		if six {
			p.dst = local6
		}
	}
	if six && p.protocol == icmp4 {
		p.protocol = icmp6
	}
	switch p.protocol {
	case tcp:
		p.tcpFlags = []uint8{
			flagSyn, flagAck, flagSyn | flagAck, flagRst, flagFin | flagAck, flagAck | flagPsh, 0, flagSyn | flagFin,
		}[rng.IntN(8)]
	case sctp:
		p.payload = 0 // chunks of no length are invalid
	case icmp4:
		p.icmpType, p.icmpCode = []uint8{0, 8, 8, 8, 13, 3}[rng.IntN(6)], uint8(rng.IntN(3))
	case icmp6:
		p.icmpType, p.icmpCode = []uint8{1, 128, 128, 128, 129, 135, 136}[rng.IntN(7)], uint8(rng.IntN(3))
	}
	if !p.hasPorts() {
		p.sport, p.dport = 0, 0
	}
	if p.via == "" {
		p.mark, p.priority = someMark(rng), uint32(rng.IntN(3))
	}
	p.fragment = !on.tracking && p.dst != local4 && p.dst != local6 && p.via != "" && rng.IntN(4) == 0
	if begins, _ := p.trackable(); begins && on.tracking && rng.IntN(3) == 0 && p.protocol != sctp {
		p.known = &knownConn{reply: rng.IntN(2) == 0, seen: rng.IntN(2) == 0}
		if p.protocol == tcp {
			p.tcpFlags = flagAck
		}
	}
	if p.known != nil && p.known.reply && (p.protocol == icmp4 || p.protocol == icmp6) {
		p.known.reply = false // the answer would have another type
	}
	return p
}

func somePort(rng *rand.Rand) uint16 {
	return []uint16{0, 22, 53, 80, 81, 443, 1000, 1001, 1024, 2000, 8080, 65535}[rng.IntN(12)]
}

// someAddr returns an address that is not the node's.
func someAddr(rng *rand.Rand, six bool) netip.Addr {
	net, host := byte(rng.IntN(4)), byte(1+rng.IntN(6))
	if six {
		return netip.AddrFrom16([16]byte{0: 0xfd, 1: net, 14: byte(rng.IntN(2)), 15: host})
	}
	return netip.AddrFrom4([4]byte{10, net, byte(rng.IntN(2)), host})
}

func someMark(rng *rand.Rand) uint32 { return []uint32{0, 1, 2, 0x100, 0x101, 0xff00}[rng.IntN(6)] }

// track adds the connection of the packet to connection tracking.
func (w *witness) track(p *flow) error {
	o := *p // the packet that began it
	if p.known.reply {
		o.src, o.dst, o.sport, o.dport = p.dst, p.src, p.dport, p.sport
	}
	ae := mdnetlink.NewAttributeEncoder()
	ae.ByteOrder = binary.BigEndian
	ae.Nested(ctaTupleOrig, func(e *mdnetlink.AttributeEncoder) error { return o.encodeTuple(e, false) })
	ae.Nested(ctaTupleReply, func(e *mdnetlink.AttributeEncoder) error { return o.encodeTuple(e, true) })
	ae.Uint32(ctaStatus, p.known.status())
	ae.Uint32(ctaTimeout, 100)
	if p.protocol == tcp {
		ae.Nested(ctaProtoinfo, func(e *mdnetlink.AttributeEncoder) error {
			e.Nested(1, func(e *mdnetlink.AttributeEncoder) error {
				e.Uint8(1, 3)                  // state: established
				e.Bytes(4, []byte{0x08, 0x08}) // liberal about sequence numbers, both ways
				e.Bytes(5, []byte{0x08, 0x08})
				return nil
			})
			return nil
		})
	}
	data, err := ae.Encode()
	if err != nil {
		return err
	}
	family := byte(unix.AF_INET)
	if p.src.Is6() {
		family = unix.AF_INET6
	}
	return w.conntrack(0, mdnetlink.Create, append([]byte{family, 0, 0, 0}, data...))
}

// forget deletes all conntrack entries.
func (w *witness) forget() error { return w.conntrack(2, 0, []byte{unix.AF_UNSPEC, 0, 0, 0}) }

func (w *witness) conntrack(msg uint16, flags mdnetlink.HeaderFlags, data []byte) error {
	_, err := w.control.Execute(mdnetlink.Message{
		Header: mdnetlink.Header{
			Type:  mdnetlink.HeaderType(unix.NFNL_SUBSYS_CTNETLINK<<8 | msg),
			Flags: mdnetlink.Request | mdnetlink.Acknowledge | flags,
		},
		Data: data,
	})
	return err
}

// Attributes of conntrack's messages (enum ctattr_type).
const (
	ctaTupleOrig, ctaTupleReply, ctaStatus, ctaProtoinfo, ctaTimeout = 1, 2, 3, 4, 7
)

// Bits of a connection's status.
const (
	statusSeenReply, statusAssured, statusConfirmed = 2, 4, 8
)

func (k *knownConn) status() uint32 {
	s := uint32(statusConfirmed | statusAssured)
	if k.seen {
		s |= statusSeenReply
	}
	return s
}

func (p *flow) encodeTuple(e *mdnetlink.AttributeEncoder, reply bool) error {
	src, dst, sport, dport := p.src, p.dst, p.sport, p.dport
	icmp := p.icmpType
	if reply {
		src, dst, sport, dport = dst, src, dport, sport
		icmp = map[uint8]uint8{8: 0, 13: 14, 128: 129}[icmp]
	}
	e.Nested(1, func(e *mdnetlink.AttributeEncoder) error {
		at := uint16(1)
		if src.Is6() {
			at = 3
		}
		e.Bytes(at, src.AsSlice())
		e.Bytes(at+1, dst.AsSlice())
		return nil
	})
	e.Nested(2, func(e *mdnetlink.AttributeEncoder) error {
		e.Uint8(1, p.protocol)
		switch {
		case p.hasPorts():
			e.Uint16(2, sport)
			e.Uint16(3, dport)
		case p.protocol == icmp4 || p.protocol == icmp6:
			at := uint16(4)
			if p.protocol == icmp6 {
				at = 7
			}
			e.Uint16(at, icmpID)
			e.Uint8(at+1, icmp)
			e.Uint8(at+2, p.icmpCode)
		}
		return nil
	})
	return nil
}
