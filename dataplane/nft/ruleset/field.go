// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"cmp"
	"strings"
)

// Field is a field of a packet, or of the kernel's data about it, that a match tests.
type Field uint8

// The fields, with their nft names.
//
// A field of one family or protocol does not limit a rule to this family or protocol. The caller
// must add matches on NFProto (Protocol in tables of family bridge) and L4Proto before the field.
// If nft adds such a match by itself, Rule.String omits it.
//
// Fields of the Ethernet header, of VLAN tags and of ARP are for tables of family bridge. In
// listings, nft 1.0.6 shows VLANTag and NDTarget as bytes, and it cannot read back a rule with
// NDTarget.
const (
	IIFName          Field = iota + 1 // iifname
	OIFName                           // oifname
	NFProto                           // meta nfproto
	L4Proto                           // meta l4proto
	IPSaddr                           // ip saddr
	IPDaddr                           // ip daddr
	IP6Saddr                          // ip6 saddr
	IP6Daddr                          // ip6 daddr
	Sport                             // th sport
	Dport                             // th dport
	ICMPType                          // icmp type
	ICMPCode                          // icmp code
	ICMPv6Type                        // icmpv6 type
	ICMPv6Code                        // icmpv6 code
	CtState                           // ct state
	Mark                              // meta mark
	Priority                          // meta priority
	Protocol                          // meta protocol
	CtStatus                          // ct status
	CtDirection                       // ct direction
	CtMark                            // ct mark
	CtOriginalSaddr                   // ct original ip saddr
	CtOriginalDaddr                   // ct original ip daddr
	CtOriginalSaddr6                  // ct original ip6 saddr
	CtOriginalDaddr6                  // ct original ip6 daddr
	CtOriginalDport                   // ct original proto-dst
	CtReplySaddr                      // ct reply ip saddr
	CtReplyDaddr                      // ct reply ip daddr
	CtReplySaddr6                     // ct reply ip6 saddr
	CtReplyDaddr6                     // ct reply ip6 daddr
	FibSource                         // fib saddr . iif oif: there is a route back through this interface
	FibSaddrType                      // fib saddr type
	FibDaddrType                      // fib daddr type
	FibSaddrOIFName                   // fib saddr oifname: of the route to the source, empty without one
	IPDSCP                            // ip dscp
	IP6DSCP                           // ip6 dscp: only in a Compare
	TCPFlags                          // tcp flags
	FragmentHeader                    // exthdr frag: whether there is an IPv6 fragment header
	EtherSaddr                        // ether saddr
	EtherType                         // ether type: of the outermost header, which is that of a VLAN tag
	VLANTag                           // @ll,112,16: priority and identifier of the outermost VLAN tag
	ARPHlen                           // arp hlen: the length of link-layer addresses
	ARPPlen                           // arp plen: the length of protocol addresses
	ARPSaddrEther                     // arp saddr ether
	ARPSaddrIP                        // arp saddr ip
	ARPDaddrIP                        // arp daddr ip
	NDTarget                          // @th,64,128: the target of a neighbour solicitation or advertisement
	lastField        = NDTarget
)

// HeaderField identifies a field of a packet: a field of the IP header, or of the header of one
// transport protocol. Package simulate keeps the values of these fields in Packet.Header.
type HeaderField uint8

// The fields of Packet.Header.
const (
	HeaderDSCP     HeaderField = iota
	HeaderICMPType             // of ICMP over IPv4 and of ICMPv6 over IPv6
	HeaderICMPCode
	HeaderTCPFlags
	// HeaderFields is the number of these fields.
	HeaderFields = iota
)

// Field returns the Field for a family. It is zero if only packets of the other family have the
// field.
func (h HeaderField) Field(v6 bool) Field {
	fields := [HeaderFields][2]Field{
		HeaderDSCP:     {IPDSCP, IP6DSCP},
		HeaderICMPType: {ICMPType, ICMPv6Type},
		HeaderICMPCode: {ICMPCode, ICMPv6Code},
		HeaderTCPFlags: {TCPFlags, TCPFlags},
	}[h]
	if v6 {
		return fields[1]
	}
	return fields[0]
}

// either returns the Field for one of the families that have it.
func (h HeaderField) either() Field { return cmp.Or(h.Field(false), h.Field(true)) }

// In reports whether packets of the protocol have the field.
func (h HeaderField) In(protocol uint8) bool {
	v4, v6 := h.Field(false).Load().Protocol, h.Field(true).Load().Protocol
	return v4 == 0 && v6 == 0 || protocol != 0 && (protocol == v4 || protocol == v6)
}

// Value returns a number as a value of the field.
func (h HeaderField) Value(v uint16) Value {
	if h.either().Type().Size() == 1 {
		return Byte(uint8(v))
	}
	return Port(v)
}

// String returns the field's nft name, without "ip " if it is a field of the IP header.
func (h HeaderField) String() string { return strings.TrimPrefix(h.either().String(), "ip ") }

// Max returns the largest value of the field.
func (h HeaderField) Max() uint16 {
	info := h.either().Type().info()
	return cmp.Or(info.most, 1<<(8*info.size)-1)
}

// Origin is the kernel's expression that loads a field.
type Origin uint8

// The origins, named after the kernel's expressions.
const (
	FromMeta Origin = iota + 1
	FromPayload
	FromCt
	FromFib
	FromExthdr
)

// The bases of FromPayload, numbered as in the kernel.
const (
	linkHeader      uint32 = 0
	networkHeader   uint32 = 1
	transportHeader uint32 = 2
)

// The transport protocols that have fields of their own.
const (
	protoICMP   = 1
	protoTCP    = 6
	protoICMPv6 = 58
)

// extensionFragment is the fragment header's number among the extension headers of IPv6.
const extensionFragment uint32 = 44

// The directions of FromCt, numbered as in the kernel.
const (
	directionOriginal uint8 = 0
	DirectionReply    uint8 = 1
	DirectionNone     uint8 = 0xff
)

// The flags of FromFib, numbered as in the kernel.
const (
	fibSaddr uint32 = 1
	fibDaddr uint32 = 2
	fibIIF   uint32 = 8
	// FibPresent requests only whether there is a result.
	FibPresent uint32 = 32
)

// The results of FromFib, numbered as in the kernel.
const (
	fibResultOIF      uint32 = 1
	fibResultOIFName  uint32 = 2
	fibResultAddrType uint32 = 3
)

// Load describes how the kernel loads a field, for an encoder and for the simulator.
//
// If Mask is set, the field consists of some bits of a larger unit. The kernel masks the unit and
// then shifts it right by Shift. (For a comparison with one value, nft shifts the value left
// instead, which has the same effect.)
type Load struct {
	Origin Origin
	// Base is the header from which FromPayload loads. Offset is the number of bytes from the start
	// of this header to the first loaded byte.
	Base, Offset uint32
	// Protocol is the transport protocol whose header has the field: packets of other protocols do
	// not have it. It is zero if the field is in another header, or if several protocols have it.
	Protocol uint8
	// Key selects the loaded value. For FromMeta it is an NFT_META_... key, for FromCt an
	// NFT_CT_... key, and for FromFib an NFT_FIB_RESULT_... number. For FromExthdr it is the number
	// of the IPv6 extension header whose presence is loaded.
	Key uint32
	// Direction is the connection's direction, original or reply, for which FromCt loads the key.
	// It is DirectionNone for keys without a direction.
	Direction uint8
	// Flags are the flags of FromFib.
	Flags uint32
	// Mask is applied to the loaded bytes, which are read as one big-endian number. Zero means no
	// mask.
	Mask  uint32
	Shift uint8
	// Size is the number of bytes that FromPayload loads. Zero means the size of the field's type.
	// Size is set if the bits of Mask span more bytes than the type has. Only a Compare can have a
	// field with a Size. For a lookup, the kernel would shift the loaded bytes in host byte order,
	// which gives a wrong value.
	Size uint32
}

// fieldInfo describes a field.
type fieldInfo struct {
	name string
	typ  Type
	// ether is the EtherType of packets that have the field, if it is in a header of ARP, IPv4 or
	// IPv6. Otherwise it is zero.
	ether uint16
	load  Load
}

// info returns the description of the field. For an unknown field, its name is empty.
func (f Field) info() fieldInfo {
	if f > lastField {
		return fieldInfo{}
	}
	const original = directionOriginal
	// The compiler keeps the array in read-only memory, because it is indexed at once and has no
	// calls. If it were a variable, each call would copy it.
	return [lastField + 1]fieldInfo{
		IIFName:  {"iifname", TypeIfname, 0, Load{Origin: FromMeta, Key: 6}},
		OIFName:  {"oifname", TypeIfname, 0, Load{Origin: FromMeta, Key: 7}},
		NFProto:  {"meta nfproto", TypeNFProto, 0, Load{Origin: FromMeta, Key: 15}},
		L4Proto:  {"meta l4proto", TypeProto, 0, Load{Origin: FromMeta, Key: 16}},
		Mark:     {"meta mark", TypeMark, 0, Load{Origin: FromMeta, Key: 3}},
		Priority: {"meta priority", TypeClassID, 0, Load{Origin: FromMeta, Key: 2}},
		Protocol: {"meta protocol", TypeEtherType, 0, Load{Origin: FromMeta, Key: 1}},

		IPSaddr: {"ip saddr", TypeIPv4, etherIPv4, Load{Origin: FromPayload, Base: networkHeader, Offset: 12}},
		IPDaddr: {"ip daddr", TypeIPv4, etherIPv4, Load{Origin: FromPayload, Base: networkHeader, Offset: 16}},
		IPDSCP: {"ip dscp", TypeDSCP, etherIPv4, Load{
			Origin: FromPayload, Base: networkHeader, Offset: 1, Mask: 0xfc, Shift: 2,
		}},

		IP6Saddr: {"ip6 saddr", TypeIPv6, etherIPv6, Load{Origin: FromPayload, Base: networkHeader, Offset: 8}},
		IP6Daddr: {"ip6 daddr", TypeIPv6, etherIPv6, Load{Origin: FromPayload, Base: networkHeader, Offset: 24}},
		IP6DSCP: {"ip6 dscp", TypeDSCP, etherIPv6, Load{
			Origin: FromPayload, Base: networkHeader, Mask: 0x0fc0, Shift: 6, Size: 2,
		}},
		FragmentHeader: {"exthdr frag", TypeBool, etherIPv6, Load{Origin: FromExthdr, Key: extensionFragment}},

		Sport: {"th sport", TypeService, 0, Load{Origin: FromPayload, Base: transportHeader}},
		Dport: {"th dport", TypeService, 0, Load{Origin: FromPayload, Base: transportHeader, Offset: 2}},
		ICMPType: {"icmp type", TypeICMP, 0, Load{
			Origin: FromPayload, Base: transportHeader, Protocol: protoICMP,
		}},
		ICMPCode: {"icmp code", TypeICMPCode, 0, Load{
			Origin: FromPayload, Base: transportHeader, Offset: 1, Protocol: protoICMP,
		}},
		ICMPv6Type: {"icmpv6 type", TypeICMPv6, 0, Load{
			Origin: FromPayload, Base: transportHeader, Protocol: protoICMPv6,
		}},
		ICMPv6Code: {"icmpv6 code", TypeICMPv6Code, 0, Load{
			Origin: FromPayload, Base: transportHeader, Offset: 1, Protocol: protoICMPv6,
		}},
		TCPFlags: {"tcp flags", TypeTCPFlag, 0, Load{
			Origin: FromPayload, Base: transportHeader, Offset: 13, Protocol: protoTCP,
		}},
		// nft derives no protocol from raw bytes.
		NDTarget: {"@th,64,128", TypeIPv6, 0, Load{Origin: FromPayload, Base: transportHeader, Offset: 8}},

		CtState:     {"ct state", TypeCtState, 0, Load{Origin: FromCt, Key: 0, Direction: DirectionNone}},
		CtDirection: {"ct direction", TypeCtDir, 0, Load{Origin: FromCt, Key: 1, Direction: DirectionNone}},
		CtStatus:    {"ct status", TypeCtStatus, 0, Load{Origin: FromCt, Key: 2, Direction: DirectionNone}},
		CtMark:      {"ct mark", TypeMark, 0, Load{Origin: FromCt, Key: 3, Direction: DirectionNone}},

		CtOriginalSaddr:  {"ct original ip saddr", TypeIPv4, 0, Load{Origin: FromCt, Key: 19, Direction: original}},
		CtOriginalDaddr:  {"ct original ip daddr", TypeIPv4, 0, Load{Origin: FromCt, Key: 20, Direction: original}},
		CtOriginalSaddr6: {"ct original ip6 saddr", TypeIPv6, 0, Load{Origin: FromCt, Key: 21, Direction: original}},
		CtOriginalDaddr6: {"ct original ip6 daddr", TypeIPv6, 0, Load{Origin: FromCt, Key: 22, Direction: original}},
		CtOriginalDport:  {"ct original proto-dst", TypeService, 0, Load{Origin: FromCt, Key: 12, Direction: original}},
		CtReplySaddr:     {"ct reply ip saddr", TypeIPv4, 0, Load{Origin: FromCt, Key: 19, Direction: DirectionReply}},
		CtReplyDaddr:     {"ct reply ip daddr", TypeIPv4, 0, Load{Origin: FromCt, Key: 20, Direction: DirectionReply}},
		CtReplySaddr6:    {"ct reply ip6 saddr", TypeIPv6, 0, Load{Origin: FromCt, Key: 21, Direction: DirectionReply}},
		CtReplyDaddr6:    {"ct reply ip6 daddr", TypeIPv6, 0, Load{Origin: FromCt, Key: 22, Direction: DirectionReply}},

		FibSource: {"fib saddr . iif oif", TypeBool, 0, Load{
			Origin: FromFib, Key: fibResultOIF, Flags: fibSaddr | fibIIF | FibPresent,
		}},
		FibSaddrType: {"fib saddr type", TypeFibAddr, 0, Load{
			Origin: FromFib, Key: fibResultAddrType, Flags: fibSaddr,
		}},
		FibDaddrType: {"fib daddr type", TypeFibAddr, 0, Load{
			Origin: FromFib, Key: fibResultAddrType, Flags: fibDaddr,
		}},
		FibSaddrOIFName: {"fib saddr oifname", TypeIfname, 0, Load{
			Origin: FromFib, Key: fibResultOIFName, Flags: fibSaddr,
		}},

		// If the device or the kernel has removed a VLAN tag, the kernel loads bytes of the link
		// layer as if the tag were still there.
		EtherSaddr: {"ether saddr", TypeEtherAddr, 0, Load{Origin: FromPayload, Base: linkHeader, Offset: 6}},
		EtherType:  {"ether type", TypeEtherType, 0, Load{Origin: FromPayload, Base: linkHeader, Offset: 12}},
		VLANTag:    {"@ll,112,16", TypeUint16, 0, Load{Origin: FromPayload, Base: linkHeader, Offset: 14}},

		// ARP for Ethernet and IPv4.
		ARPHlen: {"arp hlen", TypeUint8, etherARP, Load{Origin: FromPayload, Base: networkHeader, Offset: 4}},
		ARPPlen: {"arp plen", TypeUint8, etherARP, Load{Origin: FromPayload, Base: networkHeader, Offset: 5}},
		ARPSaddrEther: {"arp saddr ether", TypeEtherAddr, etherARP, Load{
			Origin: FromPayload, Base: networkHeader, Offset: 8,
		}},
		ARPSaddrIP: {"arp saddr ip", TypeIPv4, etherARP, Load{Origin: FromPayload, Base: networkHeader, Offset: 14}},
		ARPDaddrIP: {"arp daddr ip", TypeIPv4, etherARP, Load{Origin: FromPayload, Base: networkHeader, Offset: 24}},
	}[f]
}

// String returns the field's nft name.
func (f Field) String() string { return f.info().name }

// Type returns the type of the field's values. It is zero for an unknown field.
func (f Field) Type() Type { return f.info().typ }

// Load returns how the kernel loads the field.
func (f Field) Load() Load { return f.info().load }

// Fields returns all fields.
func Fields() []Field {
	fields := make([]Field, lastField)
	for i := range fields {
		fields[i] = Field(i + 1)
	}
	return fields
}

// onlyBridge reports whether the field is only for tables of family bridge: it belongs to the link
// layer or to ARP.
func (f Field) onlyBridge() bool {
	info := f.info()
	return info.ether == etherARP || info.load.Origin == FromPayload && info.load.Base == linkHeader
}
