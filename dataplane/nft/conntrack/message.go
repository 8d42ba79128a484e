// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
)

// The kernel's numbers, here because the messages are the same wherever this is built.
const (
	subsystem = 1 // NFNL_SUBSYS_CTNETLINK

	messageNew    = subsystem << 8   // IPCTNL_MSG_CT_NEW, which a flow in a dump is as well
	messageGet    = subsystem<<8 | 1 // IPCTNL_MSG_CT_GET
	messageDelete = subsystem<<8 | 2 // IPCTNL_MSG_CT_DELETE
	messageStats  = subsystem<<8 | 5 // IPCTNL_MSG_CT_GET_STATS

	familyAny  = 0
	familyIPv4 = 2  // AF_INET
	familyIPv6 = 10 // AF_INET6

	attrTupleOriginal = 1 // CTA_TUPLE_ORIG, and so on
	attrTupleReply    = 2
	attrStatus        = 3
	attrTimeout       = 7
	attrMark          = 8
	attrID            = 12
	attrTupleMaster   = 14
	attrZone          = 18
	attrFilter        = 25 // CTA_FILTER, since Linux 5.8

	attrTupleIP    = 1 // CTA_TUPLE_IP, and so on
	attrTupleProto = 2
	attrTupleZone  = 3

	attrIPv4Source      = 1 // CTA_IP_V4_SRC, and so on
	attrIPv4Destination = 2
	attrIPv6Source      = 3
	attrIPv6Destination = 4

	attrProtoNumber     = 1 // CTA_PROTO_NUM, and so on
	attrProtoSource     = 2
	attrProtoDest       = 3
	attrProtoICMPID     = 4
	attrProtoICMPType   = 5
	attrProtoICMPCode   = 6
	attrProtoICMPv6ID   = 7
	attrProtoICMPv6Type = 8
	attrProtoICMPv6Code = 9

	attrFilterOriginal = 1 // CTA_FILTER_ORIG_FLAGS, and so on
	attrFilterReply    = 2

	filterSource      = 1 << 0 // CTA_FILTER_F_CTA_IP_SRC, and so on
	filterDestination = 1 << 1

	attrStatsEntries = 1 // CTA_STATS_GLOBAL_ENTRIES
)

var errMalformed = errors.New("conntrack: malformed message")

// attrs iterates over attributes. What cannot be read yields a nil value, last.
func attrs(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) > 0 {
			typ, value, rest, ok := nfnl.NextAttr(b)
			if !yield(typ, value) || !ok {
				return
			}
			b = rest
		}
	}
}

// decodeFlow reads a flow's message. It is not ok for a family other than IPv4 and IPv6. A flow that
// cannot be read whole is an error: it must not pass for another one.
func decodeFlow(m nfnl.Message) (f Flow, ok bool, err error) {
	if m.Family != familyIPv4 && m.Family != familyIPv6 {
		return Flow{}, false, nil
	}
	r := reader{ok: true}
	var hasID bool
	for typ, value := range attrs(m.Attrs) {
		switch typ {
		case attrTupleOriginal:
			r.tuple(&f.Original, value)
		case attrTupleReply:
			r.tuple(&f.Reply, value)
		case attrTupleMaster:
			r.tuple(&f.Master, value)
		case attrStatus:
			f.Status = Status(r.uint32(value))
		case attrTimeout:
			f.Timeout = time.Duration(r.uint32(value)) * time.Second
		case attrMark:
			f.Mark = r.uint32(value)
		case attrID:
			f.ID, hasID = r.uint32(value), true
		case attrZone:
			f.Zone = r.uint16(value)
		default:
			r.ok = r.ok && value != nil
		}
	}
	if !r.ok || !hasID || !f.Original.whole() || !f.Reply.whole() {
		return Flow{}, false, errMalformed
	}
	return f, true, nil
}

// whole reports whether the tuple has the addresses of a packet.
func (t Tuple) whole() bool {
	src, dst := t.Source.Addr(), t.Destination.Addr()
	return src.IsValid() && dst.IsValid() && src.Is4() == dst.Is4()
}

// reader reads attributes. The first that is malformed makes it not ok.
type reader struct{ ok bool }

func (r *reader) sized(value []byte, size int) bool {
	r.ok = r.ok && len(value) == size
	return r.ok
}

func (r *reader) uint8(value []byte) uint8 {
	if !r.sized(value, 1) {
		return 0
	}
	return value[0]
}

func (r *reader) uint16(value []byte) uint16 {
	if !r.sized(value, 2) {
		return 0
	}
	return binary.BigEndian.Uint16(value)
}

func (r *reader) uint32(value []byte) uint32 {
	if !r.sized(value, 4) {
		return 0
	}
	return binary.BigEndian.Uint32(value)
}

func (r *reader) addr(value []byte, size int) (a netip.Addr) {
	if r.sized(value, size) {
		a, _ = netip.AddrFromSlice(value)
	}
	return a
}

func (r *reader) tuple(t *Tuple, value []byte) {
	var src, dst netip.Addr
	var srcPort, dstPort uint16
	for typ, value := range attrs(value) {
		switch typ {
		case attrTupleIP:
			for typ, value := range attrs(value) {
				switch typ {
				case attrIPv4Source:
					src = r.addr(value, 4)
				case attrIPv4Destination:
					dst = r.addr(value, 4)
				case attrIPv6Source:
					src = r.addr(value, 16)
				case attrIPv6Destination:
					dst = r.addr(value, 16)
				default:
					r.ok = r.ok && value != nil
				}
			}
		case attrTupleProto:
			srcPort, dstPort = r.protocol(t, value)
		case attrTupleZone:
			t.Zone = r.uint16(value)
		default:
			r.ok = r.ok && value != nil
		}
	}
	if t.icmp() {
		srcPort, dstPort = 0, 0
	} else {
		t.ICMPType, t.ICMPCode, t.ICMPID = 0, 0, 0
	}
	t.Source, t.Destination = netip.AddrPortFrom(src, srcPort), netip.AddrPortFrom(dst, dstPort)
}

func (r *reader) protocol(t *Tuple, value []byte) (srcPort, dstPort uint16) {
	for typ, value := range attrs(value) {
		switch typ {
		case attrProtoNumber:
			t.Protocol = r.uint8(value)
		case attrProtoSource:
			srcPort = r.uint16(value)
		case attrProtoDest:
			dstPort = r.uint16(value)
		case attrProtoICMPID, attrProtoICMPv6ID:
			t.ICMPID = r.uint16(value)
		case attrProtoICMPType, attrProtoICMPv6Type:
			t.ICMPType = r.uint8(value)
		case attrProtoICMPCode, attrProtoICMPv6Code:
			t.ICMPCode = r.uint8(value)
		default:
			r.ok = r.ok && value != nil
		}
	}
	return srcPort, dstPort
}

// decodeEntries reads the number of flows from an answer to messageStats.
func decodeEntries(m nfnl.Message) (int, error) {
	if value := nfnl.FindAttr(m.Attrs, attrStatsEntries); len(value) == 4 {
		return int(nfnl.Number32(value)), nil
	}
	return 0, errMalformed
}

// familyOf returns the address family of an address.
func familyOf(a netip.Addr) uint8 {
	if a.Is4() {
		return familyIPv4
	}
	return familyIPv6
}

// appendDelete appends a request to delete the flow, and no other. A request without a tuple would delete every
// flow there is, so one that has none is an error.
func appendDelete(b *nfnl.Messages, sequence uint32, f *Flow) error {
	if !f.Original.whole() {
		return fmt.Errorf("conntrack: end flow: incomplete tuple %s", f.Original)
	}
	b.Open(messageDelete, nfnl.FlagAck, sequence, familyOf(f.Original.Source.Addr()), 0)
	appendTuple(&b.Attrs, attrTupleOriginal, f.Original)
	if f.Zone != 0 {
		b.Uint16(attrZone, f.Zone)
	}
	b.Uint32(attrID, f.ID)
	return nil
}

func appendTuple(b *nfnl.Attrs, typ uint16, t Tuple) {
	tuple := b.Begin(typ)
	src, dst := t.Source.Addr(), t.Destination.Addr()
	ip := b.Begin(attrTupleIP)
	if src.Is4() {
		b.Bytes(attrIPv4Source, src.AsSlice())
		b.Bytes(attrIPv4Destination, dst.AsSlice())
	} else {
		b.Bytes(attrIPv6Source, src.AsSlice())
		b.Bytes(attrIPv6Destination, dst.AsSlice())
	}
	b.End(ip)
	proto := b.Begin(attrTupleProto)
	t.appendProtocol(b)
	b.End(proto)
	if t.Zone != 0 {
		b.Uint16(attrTupleZone, t.Zone)
	}
	b.End(tuple)
}

func (t Tuple) appendProtocol(b *nfnl.Attrs) {
	b.Uint8(attrProtoNumber, t.Protocol)
	switch t.Protocol {
	case protocolICMP:
		b.Uint16(attrProtoICMPID, t.ICMPID)
		b.Uint8(attrProtoICMPType, t.ICMPType)
		b.Uint8(attrProtoICMPCode, t.ICMPCode)
	case protocolICMPv6:
		b.Uint16(attrProtoICMPv6ID, t.ICMPID)
		b.Uint8(attrProtoICMPv6Type, t.ICMPType)
		b.Uint8(attrProtoICMPv6Code, t.ICMPCode)
	default:
		b.Uint16(attrProtoSource, t.Source.Port())
		b.Uint16(attrProtoDest, t.Destination.Port())
	}
}
