// SPDX-License-Identifier: Apache-2.0

package ruleset

// Field is what a match looks at. It is a plain value.
type Field uint8

// The fields, with their nft names. A field that belongs to one family or protocol
// does not by itself limit the rule to it: whoever makes a rule puts the matches on NFProto (in tables of
// family inet; Protocol in bridge and netdev) and L4Proto
// that make the field meaningful before it, and String leaves out those that nft implies.
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
	IIF                               // iif
	OIF                               // oif
	IIFType                           // iiftype
	OIFType                           // oiftype
	IIFGroup                          // iifgroup
	OIFGroup                          // oifgroup
	Mark                              // meta mark
	Priority                          // meta priority
	Protocol                          // meta protocol
	PktType                           // meta pkttype
	PacketLength                      // meta length
	SkUID                             // meta skuid
	SkGID                             // meta skgid
	Nftrace                           // meta nftrace: only to assign
	CtStatus                          // ct status
	CtDirection                       // ct direction
	CtMark                            // ct mark
	CtZone                            // ct zone
	CtLabel                           // ct label: only to assign
	CtL3Proto                         // ct l3proto
	CtProtocol                        // ct protocol
	CtOriginalSaddr                   // ct original ip saddr
	CtOriginalDaddr                   // ct original ip daddr
	CtOriginalSaddr6                  // ct original ip6 saddr
	CtOriginalDaddr6                  // ct original ip6 daddr
	CtOriginalSport                   // ct original proto-src
	CtOriginalDport                   // ct original proto-dst
	CtReplySaddr                      // ct reply ip saddr
	CtReplyDaddr                      // ct reply ip daddr
	CtReplySaddr6                     // ct reply ip6 saddr
	CtReplyDaddr6                     // ct reply ip6 daddr
	CtReplySport                      // ct reply proto-src
	CtReplyDport                      // ct reply proto-dst
	FibSource                         // fib saddr . iif oif: there is a way back by this interface
	FibSourceMark                     // fib saddr . mark . iif oif: the same, by the packet's mark
	FibSourceAny                      // fib saddr oif: whether there is a way back at all
	FibSaddrType                      // fib saddr type
	FibDaddrType                      // fib daddr type
	FibDaddrIIFType                   // fib daddr . iif type
	RtNexthop                         // rt ip nexthop
	RtNexthop6                        // rt ip6 nexthop
	RtMTU                             // rt mtu: the largest TCP segment for the route
	IPProtocol                        // ip protocol
	IPTTL                             // ip ttl
	IPLength                          // ip length
	IPDSCP                            // ip dscp
	IP6NextHdr                        // ip6 nexthdr
	IP6HopLimit                       // ip6 hoplimit
	IP6DSCP                           // ip6 dscp: only to compare
	TCPFlags                          // tcp flags
	FragmentHeader                    // exthdr frag: whether there is an IPv6 fragment header
	EtherSaddr                        // ether saddr
	EtherDaddr                        // ether daddr
	EtherType                         // ether type
	VLANID                            // vlan id
	VLANType                          // vlan type
	ArpOperation                      // arp operation
	ArpSaddrIP                        // arp saddr ip
	ArpDaddrIP                        // arp daddr ip
	ArpSaddrEther                     // arp saddr ether
	ArpDaddrEther                     // arp daddr ether
	lastField        = ArpDaddrEther
)

// Origin is which of the kernel's expressions loads a field. It is a plain value.
type Origin uint8

// The origins, named after the kernel's expressions.
const (
	FromMeta Origin = iota + 1
	FromPayload
	FromCt
	FromFib
	FromRt
	FromExthdr
)

// The bases of FromPayload, numbered as in the kernel.
const (
	LinkHeader      uint32 = 0
	NetworkHeader   uint32 = 1
	TransportHeader uint32 = 2
)

// extensionFragment is the fragment header's number among the extension headers of IPv6.
const extensionFragment uint32 = 44

// The directions of FromCt, numbered as in the kernel.
const (
	DirectionOriginal uint8 = 0
	DirectionReply    uint8 = 1
	DirectionNone     uint8 = 0xff
)

// The flags of FromFib, numbered as in the kernel.
const (
	FibSaddr   uint32 = 1
	FibDaddr   uint32 = 2
	FibMark    uint32 = 4
	FibIIF     uint32 = 8
	FibOIF     uint32 = 16
	FibPresent uint32 = 32 // the result is only whether there is one
)

// The results of FromFib, numbered as in the kernel.
const (
	FibResultOIF      uint32 = 1
	FibResultOIFName  uint32 = 2
	FibResultAddrType uint32 = 3
)

// Load says how the kernel loads a field: the one description that an encoder and the simulator
// both follow. It is a plain value.
//
// Where Mask is set, what is loaded is bits of a larger unit: it is masked, then
// shifted right by Shift. (A comparison with one value may instead shift the value left, as nft does.)
type Load struct {
	Origin Origin
	// Base and Offset of FromPayload.
	Base, Offset uint32
	// Key of FromMeta (NFT_META_...), FromCt (NFT_CT_...), FromRt (NFT_RT_...), the result of
	// FromFib, and the number of the IPv6 extension header whose presence FromExthdr loads.
	Key uint32
	// Direction of FromCt: DirectionNone where the key has none.
	Direction uint8
	// Flags of FromFib.
	Flags uint32
	// Mask is a number in network byte order, as long as what is loaded.
	Mask  uint32
	Shift uint8
	// Size is the number of bytes that FromPayload loads, if the bits of Mask span more bytes than
	// the field's type has. Zero means the size of the type. Only a Compare can have such a field:
	// a lookup would shift it in the machine's byte order.
	Size uint32
}

// size returns how many bytes are loaded for a value of the type.
func (l Load) size(t Type) int {
	if l.Size != 0 {
		return int(l.Size)
	}
	return t.Size()
}

// fieldInfo is what there is to know about a field.
type fieldInfo struct {
	name string
	typ  Type
	load Load
}

// info describes the field; unknown fields have no name.
func (f Field) info() fieldInfo {
	for _, group := range []func(Field) fieldInfo{
		metaField, networkField, transportField, ctField, routeField, linkField,
	} {
		if info := group(f); info.name != "" {
			return info
		}
	}
	return fieldInfo{}
}

// String returns the field's nft name.
func (f Field) String() string { return f.info().name }

// Type returns the type of the field's values; zero says that there is no such field.
func (f Field) Type() Type { return f.info().typ }

// Load returns how the kernel loads the field.
func (f Field) Load() Load { return f.info().load }

// Readable reports whether matches may look at the field: others are only to Assign.
func (f Field) Readable() bool { return f != Nftrace && f != CtLabel && f.Type() != 0 }

// Fields returns all fields.
func Fields() []Field {
	fields := make([]Field, lastField)
	for i := range fields {
		fields[i] = Field(i + 1)
	}
	return fields
}

func meta(key uint32) Load { return Load{Origin: FromMeta, Key: key} }

func payload(base, offset uint32) Load { return Load{Origin: FromPayload, Base: base, Offset: offset} }

func ct(key uint32, direction uint8) Load {
	return Load{Origin: FromCt, Key: key, Direction: direction}
}

func fib(result, flags uint32) Load { return Load{Origin: FromFib, Key: result, Flags: flags} }

func metaField(f Field) fieldInfo {
	switch f {
	case IIFName:
		return fieldInfo{"iifname", TypeIfname, meta(6)}
	case OIFName:
		return fieldInfo{"oifname", TypeIfname, meta(7)}
	case NFProto:
		return fieldInfo{"meta nfproto", TypeNFProto, meta(15)}
	case L4Proto:
		return fieldInfo{"meta l4proto", TypeProto, meta(16)}
	case IIF:
		return fieldInfo{"iif", TypeIfindex, meta(4)}
	case OIF:
		return fieldInfo{"oif", TypeIfindex, meta(5)}
	case IIFType:
		return fieldInfo{"iiftype", TypeIfType, meta(8)}
	case OIFType:
		return fieldInfo{"oiftype", TypeIfType, meta(9)}
	case IIFGroup:
		return fieldInfo{"iifgroup", TypeDevGroup, meta(21)}
	case OIFGroup:
		return fieldInfo{"oifgroup", TypeDevGroup, meta(22)}
	case Mark:
		return fieldInfo{"meta mark", TypeMark, meta(3)}
	case Priority:
		return fieldInfo{"meta priority", TypeClassID, meta(2)}
	case Protocol:
		return fieldInfo{"meta protocol", TypeEtherType, meta(1)}
	case PktType:
		return fieldInfo{"meta pkttype", TypePktType, meta(19)}
	case PacketLength:
		return fieldInfo{"meta length", TypeHost32, meta(0)}
	case SkUID:
		return fieldInfo{"meta skuid", TypeUID, meta(10)}
	case SkGID:
		return fieldInfo{"meta skgid", TypeGID, meta(11)}
	case Nftrace:
		return fieldInfo{"meta nftrace", TypeUint8, meta(12)}
	default:
		return fieldInfo{}
	}
}

func networkField(f Field) fieldInfo {
	switch f {
	case IPSaddr:
		return fieldInfo{"ip saddr", TypeIPv4, payload(NetworkHeader, 12)}
	case IPDaddr:
		return fieldInfo{"ip daddr", TypeIPv4, payload(NetworkHeader, 16)}
	case IPProtocol:
		return fieldInfo{"ip protocol", TypeProto, payload(NetworkHeader, 9)}
	case IPTTL:
		return fieldInfo{"ip ttl", TypeUint8, payload(NetworkHeader, 8)}
	case IPLength:
		return fieldInfo{"ip length", TypeUint16, payload(NetworkHeader, 2)}
	case IPDSCP:
		return fieldInfo{"ip dscp", TypeDSCP, Load{
			Origin: FromPayload, Base: NetworkHeader, Offset: 1, Mask: 0xfc, Shift: 2,
		}}
	case IP6Saddr:
		return fieldInfo{"ip6 saddr", TypeIPv6, payload(NetworkHeader, 8)}
	case IP6Daddr:
		return fieldInfo{"ip6 daddr", TypeIPv6, payload(NetworkHeader, 24)}
	case IP6NextHdr:
		return fieldInfo{"ip6 nexthdr", TypeProto, payload(NetworkHeader, 6)}
	case IP6HopLimit:
		return fieldInfo{"ip6 hoplimit", TypeUint8, payload(NetworkHeader, 7)}
	case IP6DSCP:
		return fieldInfo{"ip6 dscp", TypeDSCP, Load{
			Origin: FromPayload, Base: NetworkHeader, Mask: 0x0fc0, Shift: 6, Size: 2,
		}}
	case ArpOperation:
		return fieldInfo{"arp operation", TypeArpOp, payload(NetworkHeader, 6)}
	case ArpSaddrEther:
		return fieldInfo{"arp saddr ether", TypeEther, payload(NetworkHeader, 8)}
	case ArpSaddrIP:
		return fieldInfo{"arp saddr ip", TypeIPv4, payload(NetworkHeader, 14)}
	case ArpDaddrEther:
		return fieldInfo{"arp daddr ether", TypeEther, payload(NetworkHeader, 18)}
	case ArpDaddrIP:
		return fieldInfo{"arp daddr ip", TypeIPv4, payload(NetworkHeader, 24)}
	default:
		return fieldInfo{}
	}
}

func transportField(f Field) fieldInfo {
	switch f {
	case Sport:
		return fieldInfo{"th sport", TypeService, payload(TransportHeader, 0)}
	case Dport:
		return fieldInfo{"th dport", TypeService, payload(TransportHeader, 2)}
	case ICMPType:
		return fieldInfo{"icmp type", TypeICMP, payload(TransportHeader, 0)}
	case ICMPCode:
		return fieldInfo{"icmp code", TypeICMPCode, payload(TransportHeader, 1)}
	case ICMPv6Type:
		return fieldInfo{"icmpv6 type", TypeICMPv6, payload(TransportHeader, 0)}
	case ICMPv6Code:
		return fieldInfo{"icmpv6 code", TypeICMPv6Code, payload(TransportHeader, 1)}
	case TCPFlags:
		return fieldInfo{"tcp flags", TypeTCPFlag, payload(TransportHeader, 13)}
	case FragmentHeader:
		return fieldInfo{"exthdr frag", TypeBool, Load{Origin: FromExthdr, Key: extensionFragment}}
	default:
		return fieldInfo{}
	}
}

func ctField(f Field) fieldInfo {
	switch f {
	case CtState:
		return fieldInfo{"ct state", TypeCtState, ct(0, DirectionNone)}
	case CtDirection:
		return fieldInfo{"ct direction", TypeCtDir, ct(1, DirectionNone)}
	case CtStatus:
		return fieldInfo{"ct status", TypeCtStatus, ct(2, DirectionNone)}
	case CtMark:
		return fieldInfo{"ct mark", TypeMark, ct(3, DirectionNone)}
	case CtL3Proto:
		return fieldInfo{"ct l3proto", TypeNFProto, ct(7, DirectionNone)}
	case CtProtocol:
		return fieldInfo{"ct protocol", TypeProto, ct(10, DirectionNone)}
	case CtLabel:
		return fieldInfo{"ct label", TypeUint8, ct(13, DirectionNone)}
	case CtZone:
		return fieldInfo{"ct zone", TypeHost16, ct(17, DirectionNone)}
	case CtOriginalSaddr, CtReplySaddr:
		return tuple(f == CtReplySaddr, "ip saddr", TypeIPv4, 19)
	case CtOriginalDaddr, CtReplyDaddr:
		return tuple(f == CtReplyDaddr, "ip daddr", TypeIPv4, 20)
	case CtOriginalSaddr6, CtReplySaddr6:
		return tuple(f == CtReplySaddr6, "ip6 saddr", TypeIPv6, 21)
	case CtOriginalDaddr6, CtReplyDaddr6:
		return tuple(f == CtReplyDaddr6, "ip6 daddr", TypeIPv6, 22)
	case CtOriginalSport, CtReplySport:
		return tuple(f == CtReplySport, "proto-src", TypeService, 11)
	case CtOriginalDport, CtReplyDport:
		return tuple(f == CtReplyDport, "proto-dst", TypeService, 12)
	default:
		return fieldInfo{}
	}
}

// tuple describes a part of a connection's tuple in one direction.
func tuple(reply bool, name string, typ Type, key uint32) fieldInfo {
	if reply {
		return fieldInfo{"ct reply " + name, typ, ct(key, DirectionReply)}
	}
	return fieldInfo{"ct original " + name, typ, ct(key, DirectionOriginal)}
}

func routeField(f Field) fieldInfo {
	switch f {
	case FibSource:
		return fieldInfo{"fib saddr . iif oif", TypeBool, fib(FibResultOIF, FibSaddr|FibIIF|FibPresent)}
	case FibSourceMark:
		return fieldInfo{"fib saddr . mark . iif oif", TypeBool, fib(FibResultOIF, FibSaddr|FibMark|FibIIF|FibPresent)}
	case FibSourceAny:
		return fieldInfo{"fib saddr oif", TypeBool, fib(FibResultOIF, FibSaddr|FibPresent)}
	case FibSaddrType:
		return fieldInfo{"fib saddr type", TypeFibAddr, fib(FibResultAddrType, FibSaddr)}
	case FibDaddrType:
		return fieldInfo{"fib daddr type", TypeFibAddr, fib(FibResultAddrType, FibDaddr)}
	case FibDaddrIIFType:
		return fieldInfo{"fib daddr . iif type", TypeFibAddr, fib(FibResultAddrType, FibDaddr|FibIIF)}
	case RtNexthop:
		return fieldInfo{"rt ip nexthop", TypeIPv4, Load{Origin: FromRt, Key: 1}}
	case RtNexthop6:
		return fieldInfo{"rt ip6 nexthop", TypeIPv6, Load{Origin: FromRt, Key: 2}}
	case RtMTU:
		return fieldInfo{"rt mtu", TypeHost16, Load{Origin: FromRt, Key: 3}}
	default:
		return fieldInfo{}
	}
}

func linkField(f Field) fieldInfo {
	switch f {
	case EtherDaddr:
		return fieldInfo{"ether daddr", TypeEther, payload(LinkHeader, 0)}
	case EtherSaddr:
		return fieldInfo{"ether saddr", TypeEther, payload(LinkHeader, 6)}
	case EtherType:
		return fieldInfo{"ether type", TypeEtherType, payload(LinkHeader, 12)}
	case VLANID:
		return fieldInfo{"vlan id", TypeUint16, Load{Origin: FromPayload, Base: LinkHeader, Offset: 14, Mask: 0x0fff}}
	case VLANType:
		return fieldInfo{"vlan type", TypeEtherType, payload(LinkHeader, 16)}
	default:
		return fieldInfo{}
	}
}
