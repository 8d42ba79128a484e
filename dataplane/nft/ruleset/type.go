// SPDX-License-Identifier: Apache-2.0

package ruleset

import "cmp"

// Type is the data type of a key, or of one part of a concatenation.
type Type uint8

// The types, with their nft names.
const (
	TypeIPv4       Type = iota + 1 // ipv4_addr
	TypeIPv6                       // ipv6_addr
	TypeProto                      // inet_proto
	TypeService                    // inet_service
	TypeIfname                     // ifname
	TypeICMP                       // icmp_type
	TypeICMPv6                     // icmpv6_type
	TypeICMPCode                   // icmp_code
	TypeICMPv6Code                 // icmpv6_code
	TypeNFProto                    // nf_proto
	TypeCtState                    // ct_state
	TypeCtStatus                   // ct_status
	TypeCtDir                      // ct_dir
	TypeMark                       // mark
	TypeClassID                    // classid: a priority
	TypeEtherType                  // ether_type
	TypeTCPFlag                    // tcp_flag
	TypeDSCP                       // dscp
	TypeFibAddr                    // fib_addrtype
	TypeBool                       // boolean
	TypeEtherAddr                  // ether_addr
	TypeUint8                      // integer of one byte; not for sets
	TypeUint16                     // integer of two bytes; not for sets
)

// typeInfo describes a type.
type typeInfo struct {
	name string
	size int
	// number is nft's number of the type (enum datatypes). nft uses it to print sets.
	number uint32
	host   bool
	bits   bool
	most   uint16 // the largest value; 0 means all bits set
	// noSet is set if nft has no sets of the type.
	noSet bool
}

// info returns the description of the type. For an unknown type, its size is zero.
func (t Type) info() typeInfo {
	switch t {
	case TypeIPv4:
		return typeInfo{name: "ipv4_addr", size: 4, number: 7}
	case TypeIPv6:
		return typeInfo{name: "ipv6_addr", size: 16, number: 8}
	case TypeProto:
		return typeInfo{name: "inet_proto", size: 1, number: 12}
	case TypeService:
		return typeInfo{name: "inet_service", size: 2, number: 13}
	case TypeIfname:
		return typeInfo{name: "ifname", size: IfnameSize, number: 41, host: true}
	case TypeICMP:
		return typeInfo{name: "icmp_type", size: 1, number: 14}
	case TypeICMPv6:
		return typeInfo{name: "icmpv6_type", size: 1, number: 29}
	case TypeICMPCode:
		return typeInfo{name: "icmp_code", size: 1, number: 32}
	case TypeICMPv6Code:
		return typeInfo{name: "icmpv6_code", size: 1, number: 33}
	case TypeNFProto:
		return typeInfo{name: "nf_proto", size: 1, number: 2}
	case TypeCtState:
		return typeInfo{name: "ct_state", size: 4, number: 26, host: true, bits: true}
	case TypeCtStatus:
		return typeInfo{name: "ct_status", size: 4, number: 28, host: true, bits: true}
	case TypeCtDir:
		return typeInfo{name: "ct_dir", size: 1, number: 27}
	case TypeMark:
		return typeInfo{name: "mark", size: 4, number: 19, host: true}
	case TypeClassID:
		return typeInfo{name: "classid", size: 4, number: 23, host: true}
	case TypeEtherType:
		return typeInfo{name: "ether_type", size: 2, number: 10}
	case TypeTCPFlag:
		return typeInfo{name: "tcp_flag", size: 1, number: 15, bits: true}
	case TypeDSCP:
		return typeInfo{name: "dscp", size: 1, number: 36, most: 63}
	case TypeFibAddr:
		return typeInfo{name: "fib_addrtype", size: 4, number: 38, host: true}
	case TypeBool:
		return typeInfo{name: "boolean", size: 1, number: 39, host: true}
	case TypeEtherAddr:
		return typeInfo{name: "ether_addr", size: 6, number: 9}
	case TypeUint8:
		return typeInfo{name: "integer", size: 1, number: 4, noSet: true}
	case TypeUint16:
		return typeInfo{name: "integer", size: 2, number: 4, noSet: true}
	default:
		return typeInfo{}
	}
}

// String returns the type's nft name.
func (t Type) String() string { return cmp.Or(t.info().name, "?") }

// Size returns the length of a value of the type in bytes, without the padding of concatenations.
// It is zero for an unknown type.
func (t Type) Size() int { return t.info().size }

// Number returns nft's number of the type. nft uses it to print the elements of sets.
func (t Type) Number() uint32 { return t.info().number }

// HostOrder reports whether values of the type are in host byte order.
func (t Type) HostOrder() bool { return t.info().host }

// Bits reports whether values of the type consist of bits with names; see Compare.
func (t Type) Bits() bool { return t.info().bits }

// Address reports whether values of the type are IP addresses.
func (t Type) Address() bool { return t == TypeIPv4 || t == TypeIPv6 }
