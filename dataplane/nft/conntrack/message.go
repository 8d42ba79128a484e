// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"syscall"
	"time"
)

// The kernel's numbers, here because the messages are the same wherever this is built.
const (
	subsystem = 1 // NFNL_SUBSYS_CTNETLINK

	messageNew    = subsystem << 8   // IPCTNL_MSG_CT_NEW, which a flow in a dump is as well
	messageGet    = subsystem<<8 | 1 // IPCTNL_MSG_CT_GET
	messageDelete = subsystem<<8 | 2 // IPCTNL_MSG_CT_DELETE
	messageStats  = subsystem<<8 | 5 // IPCTNL_MSG_CT_GET_STATS

	messageError = 2 // NLMSG_ERROR
	messageDone  = 3 // NLMSG_DONE

	flagRequest     = 0x1
	flagAck         = 0x4
	flagInterrupted = 0x10 // NLM_F_DUMP_INTR
	flagDump        = 0x300

	messageHeader = 16 // struct nlmsghdr
	familyHeader  = 4  // struct nfgenmsg
	attrHeader    = 4  // struct nlattr
	attrNested    = 0x8000
	attrTypeMask  = 0x3fff

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

// message is one netlink message within a buffer.
type message struct {
	typ, flags uint16
	sequence   uint32
	body       []byte
}

// cutMessage takes the first message off b.
func cutMessage(b []byte) (m message, rest []byte, err error) {
	if len(b) < messageHeader {
		return message{}, nil, errMalformed
	}
	length := binary.NativeEndian.Uint32(b)
	if length < messageHeader || uint64(length) > uint64(len(b)) {
		return message{}, nil, errMalformed
	}
	m = message{
		typ:      binary.NativeEndian.Uint16(b[4:]),
		flags:    binary.NativeEndian.Uint16(b[6:]),
		sequence: binary.NativeEndian.Uint32(b[8:]),
		body:     b[messageHeader:length],
	}
	return m, b[min(int(length+3)&^3, len(b)):], nil
}

// errno is the error number of an NLMSG_ERROR or NLMSG_DONE, zero for success.
func (m message) errno() (syscall.Errno, error) {
	if len(m.body) < 4 {
		if m.typ == messageDone {
			return 0, nil
		}
		return 0, errMalformed
	}
	return syscall.Errno(-int32(binary.NativeEndian.Uint32(m.body))), nil
}

// attrs iterates over attributes. What cannot be read yields a nil value, last.
func attrs(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) > 0 {
			if len(b) < attrHeader {
				yield(0, nil)
				return
			}
			length := int(binary.NativeEndian.Uint16(b))
			if length < attrHeader || length > len(b) {
				yield(0, nil)
				return
			}
			if !yield(binary.NativeEndian.Uint16(b[2:])&attrTypeMask, b[attrHeader:length:length]) {
				return
			}
			b = b[min((length+3)&^3, len(b)):]
		}
	}
}

// decodeFlow reads the body of a flow's message. It is not ok for a family other than IPv4 and IPv6. A flow that
// cannot be read whole is an error: it must not pass for another one.
func decodeFlow(body []byte) (f Flow, ok bool, err error) {
	if len(body) < familyHeader {
		return Flow{}, false, errMalformed
	}
	if body[0] != familyIPv4 && body[0] != familyIPv6 {
		return Flow{}, false, nil
	}
	r := reader{ok: true}
	var hasID bool
	for typ, value := range attrs(body[familyHeader:]) {
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

// decodeEntries reads the number of flows from the body of an answer to messageStats.
func decodeEntries(body []byte) (int, error) {
	if len(body) >= familyHeader {
		for typ, value := range attrs(body[familyHeader:]) {
			if typ == attrStatsEntries && len(value) == 4 {
				return int(binary.BigEndian.Uint32(value)), nil
			}
		}
	}
	return 0, errMalformed
}

// appendRequest appends the headers of a message; finish fills in its length.
func appendRequest(b []byte, typ, flags uint16, sequence uint32, family uint8) []byte {
	b = binary.NativeEndian.AppendUint32(b, messageHeader+familyHeader)
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = binary.NativeEndian.AppendUint16(b, flags|flagRequest)
	b = binary.NativeEndian.AppendUint32(b, sequence)
	b = binary.NativeEndian.AppendUint32(b, 0) // the port, which the socket implies
	return append(b, family, 0, 0, 0)
}

// appendDelete appends a request to delete the flow, and no other. A request without a tuple would delete every
// flow there is, so one that has none is an error.
func appendDelete(b []byte, sequence uint32, f *Flow) ([]byte, error) {
	if !f.Original.whole() {
		return b, fmt.Errorf("conntrack: end flow: incomplete tuple %s", f.Original)
	}
	start := len(b)
	family := uint8(familyIPv6)
	if f.Is4() {
		family = familyIPv4
	}
	b = appendRequest(b, messageDelete, flagAck, sequence, family)
	b = appendTuple(b, attrTupleOriginal, f.Original)
	if f.Zone != 0 {
		b = appendUint16(b, attrZone, f.Zone)
	}
	b = appendUint32(b, attrID, f.ID)
	binary.NativeEndian.PutUint32(b[start:], uint32(len(b)-start))
	return b, nil
}

func appendTuple(b []byte, typ uint16, t Tuple) []byte {
	return appendNested(b, typ, func(b []byte) []byte {
		src, dst := t.Source.Addr(), t.Destination.Addr()
		b = appendNested(b, attrTupleIP, func(b []byte) []byte {
			if src.Is4() {
				return appendAttr(appendAttr(b, attrIPv4Source, src.AsSlice()), attrIPv4Destination, dst.AsSlice())
			}
			return appendAttr(appendAttr(b, attrIPv6Source, src.AsSlice()), attrIPv6Destination, dst.AsSlice())
		})
		b = appendNested(b, attrTupleProto, t.appendProtocol)
		if t.Zone != 0 {
			b = appendUint16(b, attrTupleZone, t.Zone)
		}
		return b
	})
}

func (t Tuple) appendProtocol(b []byte) []byte {
	b = appendAttr(b, attrProtoNumber, []byte{t.Protocol})
	switch t.Protocol {
	case protocolICMP:
		b = appendUint16(b, attrProtoICMPID, t.ICMPID)
		b = appendAttr(b, attrProtoICMPType, []byte{t.ICMPType})
		return appendAttr(b, attrProtoICMPCode, []byte{t.ICMPCode})
	case protocolICMPv6:
		b = appendUint16(b, attrProtoICMPv6ID, t.ICMPID)
		b = appendAttr(b, attrProtoICMPv6Type, []byte{t.ICMPType})
		return appendAttr(b, attrProtoICMPv6Code, []byte{t.ICMPCode})
	}
	b = appendUint16(b, attrProtoSource, t.Source.Port())
	return appendUint16(b, attrProtoDest, t.Destination.Port())
}

func appendNested(b []byte, typ uint16, inside func([]byte) []byte) []byte {
	start := len(b)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = inside(b)
	binary.NativeEndian.PutUint16(b[start:], uint16(len(b)-start))
	binary.NativeEndian.PutUint16(b[start+2:], typ|attrNested)
	return b
}

func appendAttr(b []byte, typ uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(attrHeader+len(value)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func appendUint16(b []byte, typ, value uint16) []byte {
	return appendAttr(b, typ, binary.BigEndian.AppendUint16(nil, value))
}

func appendUint32(b []byte, typ uint16, value uint32) []byte {
	return appendAttr(b, typ, binary.BigEndian.AppendUint32(nil, value))
}
