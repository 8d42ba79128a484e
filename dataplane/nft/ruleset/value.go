// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

// IfnameSize is the kernel's size of an interface name, the terminating zero included.
const IfnameSize = 16

// The connection states, as bits of a CtState value.
const (
	CtInvalid     uint32 = 1
	CtEstablished uint32 = 2
	CtRelated     uint32 = 4
	CtNew         uint32 = 8
	CtUntracked   uint32 = 64
)

// The values of NFProto.
const (
	NFProtoIPv4 uint8 = 2
	NFProtoIPv6 uint8 = 10
)

// Addr returns an address in the kernel's form: 4 or 16 bytes.
func Addr(a netip.Addr) Value { return a.AsSlice() }

// Port returns a port in network byte order.
func Port(p uint16) Value { return binary.BigEndian.AppendUint16(nil, p) }

// Byte returns a value of one byte: a protocol, an ICMP type or code, an NFProto.
func Byte(b uint8) Value { return Value{b} }

// Ifname returns an interface name, filled with zeros to its full size. At most 15 bytes of name count.
func Ifname(name string) Value {
	v := make(Value, IfnameSize)
	copy(v[:IfnameSize-1], name)
	return v
}

// IfnamePrefix returns a value that, in a Compare, matches every interface whose
// name begins with prefix: nft's "prefix*".
func IfnamePrefix(prefix string) Value { return Value(prefix) }

// CtStates returns a set of connection states: any of the bits matches.
func CtStates(bits uint32) Value { return binary.NativeEndian.AppendUint32(nil, bits) }

// compareValues orders values by length, then bytewise.
func compareValues(a, b Value) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return bytes.Compare(a, b)
}

// typeInfo is what there is to know about a type.
type typeInfo struct {
	name string
	size int
}

// info describes the type; unknown types have no name.
func (t Type) info() typeInfo {
	switch t {
	case TypeIPv4:
		return typeInfo{"ipv4_addr", 4}
	case TypeIPv6:
		return typeInfo{"ipv6_addr", 16}
	case TypeProto:
		return typeInfo{"inet_proto", 1}
	case TypeService:
		return typeInfo{"inet_service", 2}
	case TypeIfname:
		return typeInfo{"ifname", IfnameSize}
	case TypeICMP:
		return typeInfo{"icmp_type", 1}
	case TypeICMPv6:
		return typeInfo{"icmpv6_type", 1}
	case TypeICMPCode:
		return typeInfo{"icmp_code", 1}
	case TypeICMPv6Code:
		return typeInfo{"icmpv6_code", 1}
	case TypeNFProto:
		return typeInfo{"nf_proto", 1}
	case TypeCtState:
		return typeInfo{"ct_state", 4}
	default:
		return typeInfo{}
	}
}

// String returns the type's nft name.
func (t Type) String() string { return t.info().name }

// Size returns the length of a value of the type in bytes, without the padding that a concatenation adds.
func (t Type) Size() int { return t.info().size }

// fieldInfo is what there is to know about a field.
type fieldInfo struct {
	name string
	typ  Type
}

// info describes the field; unknown fields have no name.
func (f Field) info() fieldInfo {
	switch f {
	case IIFName:
		return fieldInfo{"iifname", TypeIfname}
	case OIFName:
		return fieldInfo{"oifname", TypeIfname}
	case NFProto:
		return fieldInfo{"meta nfproto", TypeNFProto}
	case L4Proto:
		return fieldInfo{"meta l4proto", TypeProto}
	case IPSaddr:
		return fieldInfo{"ip saddr", TypeIPv4}
	case IPDaddr:
		return fieldInfo{"ip daddr", TypeIPv4}
	case IP6Saddr:
		return fieldInfo{"ip6 saddr", TypeIPv6}
	case IP6Daddr:
		return fieldInfo{"ip6 daddr", TypeIPv6}
	case Sport:
		return fieldInfo{"th sport", TypeService}
	case Dport:
		return fieldInfo{"th dport", TypeService}
	case ICMPType:
		return fieldInfo{"icmp type", TypeICMP}
	case ICMPCode:
		return fieldInfo{"icmp code", TypeICMPCode}
	case ICMPv6Type:
		return fieldInfo{"icmpv6 type", TypeICMPv6}
	case ICMPv6Code:
		return fieldInfo{"icmpv6 code", TypeICMPv6Code}
	case CtState:
		return fieldInfo{"ct state", TypeCtState}
	default:
		return fieldInfo{}
	}
}

// String returns the field's nft name.
func (f Field) String() string { return f.info().name }

// Type returns the type of the field's values.
func (f Field) Type() Type { return f.info().typ }
