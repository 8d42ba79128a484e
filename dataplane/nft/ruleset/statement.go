// SPDX-License-Identifier: Apache-2.0

package ruleset

import "time"

// Statement is an action of a rule: a Verdict, VMap, Reject, NAT, Log, Limit, Counter, Notrack,
// Assign, FlowAdd or Raw. Other packages cannot define statements.
type Statement interface{ statement() }

// VMap looks up the fields in a verdict map. The field Map is the name of this map. If Map is
// empty, the map is anonymous, and the field Elements has its elements. If no element matches,
// evaluation continues with the next rule.
type VMap struct {
	Fields   []Field
	Map      string
	Elements []Element
}

// Log writes a line to the kernel log. If Group is set, it sends the packet to the listeners of an
// nflog group instead.
type Log struct {
	// Prefix of the line or message, at most 127 bytes.
	Prefix string
	// Group is the number of the nflog group.
	Group *uint16
}

// Limit limits the rate of packets to which the rest of the rule applies: at most Rate packets in
// each period Per. If Over is set, the rest of the rule applies only to packets beyond that rate.
type Limit struct {
	// Rate is the number of packets in each period Per.
	Rate uint64
	// Per is one second, minute, hour, day or week. Zero means a second.
	Per time.Duration
	// Burst is the number of packets that may exceed the rate at once. Zero means nft's default, 5.
	Burst uint32
	Over  bool
}

// Counter counts packets and bytes.
type Counter struct{}

// Reject drops the packet and sends an error to the packet's source.
type Reject struct {
	Kind RejectKind
	// Code is the kernel's number of the ICMP error of RejectICMPX: 0 no route, 1 port unreachable,
	// 2 host unreachable, 3 administratively prohibited.
	Code uint8
}

// RejectKind is the kind of error that Reject sends.
type RejectKind uint8

// The kinds of rejection.
const (
	// RejectDefault sends "port unreachable" of the packet's family (icmpx 1).
	RejectDefault  RejectKind = iota
	RejectTCPReset            // only in rules that match TCP
	RejectICMPX               // an ICMP message of the packet's family
)

// Notrack excludes the packet from connection tracking. It has an effect only in a base chain
// before connection tracking (priority raw).
type Notrack struct{}

// NAT translates the packet's connection. It is for base chains of type nat.
//
// The new address is Addr. The new port is Port, or a port from Port to PortLast. If Map is set,
// the rule looks up Fields in this map instead. The data that the rule finds is the new address, or
// the new address and port.
//
// Masquerade and Redirect use the address of an interface. They may have ports, but no Addr.
type NAT struct {
	Kind NATKind
	// Family is needed if SNAT or DNAT sets an address in a table of family inet. Then it is the
	// family of this address, FamilyIPv4 or FamilyIPv6. In all other cases, leave the zero value,
	// FamilyINet.
	Family         Family
	Addr           Value
	Port, PortLast uint16
	Fields         []Field
	Map            string
}

// NATKind identifies the address that is translated, source or destination, and where the new
// address comes from.
type NATKind uint8

// The kinds of translation.
const (
	SNAT       NATKind = iota + 1 // the source
	DNAT                          // the destination
	Masquerade                    // the source, to the address of the outgoing interface
	Redirect                      // the destination, to this machine
)

// Assign sets a property of the packet or of its connection: Mark, Priority or CtMark. If Map is
// set, the rule looks up Fields in this map, and the data that it finds is the new value. If From
// is set, the new value is copied from the field From. If neither is set, the new value is Value.
type Assign struct {
	Field Field
	Value uint32
	// Mask selects the bits of Field that are replaced by the same bits of Value. The other bits of
	// Field stay as they are; in Value, they must be zero. A Mask of zero means all bits. With Map
	// or From, Mask must be zero.
	Mask uint32
	// From is zero, Mark, Priority or CtMark.
	From   Field
	Fields []Field
	Map    string
}

func (Verdict) statement() {}
func (VMap) statement()    {}
func (Log) statement()     {}
func (Limit) statement()   {}
func (Counter) statement() {}
func (Reject) statement()  {}
func (Notrack) statement() {}
func (NAT) statement()     {}
func (Assign) statement()  {}
func (Raw) statement()     {}
