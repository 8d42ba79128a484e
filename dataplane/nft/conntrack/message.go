// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/wayleave/wayleave/internal/netlink"
)

// Constants of nfnetlink. Package unix has them only for Linux, and this file is built for all
// systems.
const (
	subsystem = 1 // NFNL_SUBSYS_CTNETLINK

	messageNew    = subsystem << 8   // IPCTNL_MSG_CT_NEW, also the type of each flow in a dump
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
	attrCountOriginal = 9 // CTA_COUNTERS_ORIG, and so on
	attrCountReply    = 10
	attrID            = 12
	attrTupleMaster   = 14
	attrZone          = 18
	attrFilter        = 25 // CTA_FILTER, since Linux 5.8

	attrCountPackets = 1 // CTA_COUNTERS_PACKETS, and so on
	attrCountBytes   = 2

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

// familyHeader is the length of netfilter's own header (struct nfgenmsg).
const familyHeader = 4

// decodeFlow decodes the message of a flow. ok is false if the message is of another type, or the
// family is neither IPv4 nor IPv6. An incomplete flow is an error, because it could be mistaken for
// another flow.
func decodeFlow(m netlink.Message) (f Flow, ok bool, err error) {
	var d netlink.Decoder
	header := d.Begin(m.Data, familyHeader)
	isFlow := m.Type == messageNew || m.Type == messageDelete // messageDelete is the notification that a flow has ended
	if !isFlow || header[0] != familyIPv4 && header[0] != familyIPv6 {
		return Flow{}, false, d.Err
	}
	var hasID bool
	for d.Next() {
		switch d.Type {
		case attrTupleOriginal:
			f.Original.decode(&d)
		case attrTupleReply:
			f.Reply.decode(&d)
		case attrTupleMaster:
			f.Master.decode(&d)
		case attrStatus:
			f.Status = Status(d.Uint32())
		case attrTimeout:
			f.Timeout = time.Duration(d.Uint32()) * time.Second
		case attrMark:
			f.Mark = d.Uint32()
		case attrID:
			f.ID, hasID = d.Uint32(), true
		case attrZone:
			f.Zone = d.Uint16()
		}
	}
	if d.Err != nil || !hasID || !f.Original.complete() || !f.Reply.complete() {
		return Flow{}, false, netlink.ErrMalformed
	}
	return f, true, nil
}

// complete reports whether the tuple has the addresses of a packet.
func (t Tuple) complete() bool {
	src, dst := t.Source.Addr(), t.Destination.Addr()
	return src.IsValid() && dst.IsValid() && src.Is4() == dst.Is4()
}

// decode decodes the tuple in the current attribute.
func (t *Tuple) decode(outer *netlink.Decoder) {
	var src, dst netip.Addr
	var srcPort, dstPort uint16
	d := outer.Nested()
	for d.Next() {
		switch d.Type {
		case attrTupleIP:
			ip := d.Nested()
			for ip.Next() {
				switch ip.Type {
				case attrIPv4Source, attrIPv6Source:
					src = ip.Addr()
				case attrIPv4Destination, attrIPv6Destination:
					dst = ip.Addr()
				}
			}
			d.Join(ip.Err)
		case attrTupleProto:
			srcPort, dstPort = t.decodeProtocol(&d)
		case attrTupleZone:
			t.Zone = d.Uint16()
		}
	}
	outer.Join(d.Err)
	if t.icmp() {
		srcPort, dstPort = 0, 0
	} else {
		t.ICMPType, t.ICMPCode, t.ICMPID = 0, 0, 0
	}
	t.Source, t.Destination = netip.AddrPortFrom(src, srcPort), netip.AddrPortFrom(dst, dstPort)
}

func (t *Tuple) decodeProtocol(outer *netlink.Decoder) (srcPort, dstPort uint16) {
	d := outer.Nested()
	for d.Next() {
		switch d.Type {
		case attrProtoNumber:
			t.Protocol = d.Uint8()
		case attrProtoSource:
			srcPort = d.Uint16()
		case attrProtoDest:
			dstPort = d.Uint16()
		case attrProtoICMPID, attrProtoICMPv6ID:
			t.ICMPID = d.Uint16()
		case attrProtoICMPType, attrProtoICMPv6Type:
			t.ICMPType = d.Uint8()
		case attrProtoICMPCode, attrProtoICMPv6Code:
			t.ICMPCode = d.Uint8()
		}
	}
	outer.Join(d.Err)
	return srcPort, dstPort
}

// decodeEntries decodes the number of flows in an answer to messageStats.
func decodeEntries(m netlink.Message) (count int, err error) {
	var d netlink.Decoder
	d.Begin(m.Data, familyHeader)
	err = netlink.ErrMalformed
	for d.Next() {
		if d.Type == attrStatsEntries {
			count, err = int(d.Uint32()), d.Err
		}
	}
	return count, err
}

// familyOf returns the address family of an address.
func familyOf(a netip.Addr) uint8 {
	if a.Is4() {
		return familyIPv4
	}
	return familyIPv6
}

// appendDelete appends a request to delete a single flow. A request without a tuple would delete
// all flows, so an incomplete tuple is an error.
func appendDelete(b *netlink.Batch, f *Flow) error {
	if !f.Original.complete() {
		return fmt.Errorf("conntrack: end flow: incomplete tuple %s", f.Original)
	}
	b.Message(messageDelete, 0, familyOf(f.Original.Source.Addr()), 0, 0, 0)
	appendTuple(&b.Attrs, attrTupleOriginal, f.Original)
	if f.Zone != 0 {
		b.Uint16(attrZone, f.Zone)
	}
	b.Uint32(attrID, f.ID)
	return nil
}

func appendTuple(b *netlink.Attrs, typ uint16, t Tuple) {
	tuple := b.Begin(typ)
	src, dst := t.Source.Addr(), t.Destination.Addr()
	ip := b.Begin(attrTupleIP)
	if src.Is4() {
		b.Addr(attrIPv4Source, src)
		b.Addr(attrIPv4Destination, dst)
	} else {
		b.Addr(attrIPv6Source, src)
		b.Addr(attrIPv6Destination, dst)
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

func (t Tuple) appendProtocol(b *netlink.Attrs) {
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
