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
	lastType       = TypeUint16
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

// info returns the description of the type. For an unknown type, its size is zero. The array is
// written like that of Field.info.
func (t Type) info() typeInfo {
	if t > lastType {
		return typeInfo{}
	}
	return [lastType + 1]typeInfo{
		TypeIPv4:       {name: "ipv4_addr", size: 4, number: 7},
		TypeIPv6:       {name: "ipv6_addr", size: 16, number: 8},
		TypeProto:      {name: "inet_proto", size: 1, number: 12},
		TypeService:    {name: "inet_service", size: 2, number: 13},
		TypeIfname:     {name: "ifname", size: IfnameSize, number: 41, host: true},
		TypeICMP:       {name: "icmp_type", size: 1, number: 14},
		TypeICMPv6:     {name: "icmpv6_type", size: 1, number: 29},
		TypeICMPCode:   {name: "icmp_code", size: 1, number: 32},
		TypeICMPv6Code: {name: "icmpv6_code", size: 1, number: 33},
		TypeNFProto:    {name: "nf_proto", size: 1, number: 2},
		TypeCtState:    {name: "ct_state", size: 4, number: 26, host: true, bits: true},
		TypeCtStatus:   {name: "ct_status", size: 4, number: 28, host: true, bits: true},
		TypeCtDir:      {name: "ct_dir", size: 1, number: 27},
		TypeMark:       {name: "mark", size: 4, number: 19, host: true},
		TypeClassID:    {name: "classid", size: 4, number: 23, host: true},
		TypeEtherType:  {name: "ether_type", size: 2, number: 10},
		TypeTCPFlag:    {name: "tcp_flag", size: 1, number: 15, bits: true},
		TypeDSCP:       {name: "dscp", size: 1, number: 36, most: 63},
		TypeFibAddr:    {name: "fib_addrtype", size: 4, number: 38, host: true},
		TypeBool:       {name: "boolean", size: 1, number: 39, host: true},
		TypeEtherAddr:  {name: "ether_addr", size: 6, number: 9},
		TypeUint8:      {name: "integer", size: 1, number: 4, noSet: true},
		TypeUint16:     {name: "integer", size: 2, number: 4, noSet: true},
	}[t]
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
