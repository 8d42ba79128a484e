// SPDX-License-Identifier: Apache-2.0

package ruleset

import "time"

// Statement is what a rule does: Verdict, VMap, Reject, NAT, Log, Limit, Counter, Notrack, Assign,
// FlowAdd or Raw. The set is closed.
type Statement interface{ statement() }

// VMap looks the fields up in a verdict map: the named one, or an anonymous one of Elements. If no
// element matches, the next rule follows.
type VMap struct {
	Fields   []Field
	Map      string
	Elements []Element
}

// Log writes a line to the kernel log or, where Group is set, hands the packet to the listeners of
// nflog.
type Log struct {
	// Prefix is at most 127 bytes.
	Prefix string
	// Group of nflog.
	Group *uint16
}

// Limit lets the rest of the rule apply at most Rate times in each Per; with Over, only beyond
// that.
type Limit struct {
	// Rate is the number of packets in each Per.
	Rate uint64
	// Per is one second, minute, hour, day or week. Zero is a second.
	Per time.Duration
	// Burst is how many packets may come at once. Zero is nft's default, 5.
	Burst uint32
	Over  bool
}

// Counter counts packets and bytes.
type Counter struct{}

// Reject drops the packet and sends an error to its sender.
type Reject struct {
	Kind RejectKind
	// Code of RejectICMPX is the kernel's number for both families: 0 no route, 1 port unreachable,
	// 2 host unreachable, 3 administratively prohibited.
	Code uint8
}

// RejectKind is how a packet is rejected.
type RejectKind uint8

// The kinds of rejection.
const (
	// RejectDefault is "port unreachable" of the packet's family (icmpx 1).
	RejectDefault  RejectKind = iota
	RejectTCPReset            // the rule must match TCP
	RejectICMPX               // an ICMP message of the packet's family
)

// Notrack keeps the packet out of connection tracking. It has an effect only in a base chain before
// connection tracking (priority raw).
type Notrack struct{}

// NAT translates the connection, in a base chain of type nat.
//
// Addr and Port (to PortLast) are the new address and port. Or Fields are looked up in Map, whose
// data is an address, or an address and a port. Masquerade and Redirect use the address of the
// interface, and have ports at most.
type NAT struct {
	Kind NATKind
	// Family of the address in a table of family inet: FamilyIPv4 or FamilyIPv6. It is FamilyINet
	// in other tables, and for Masquerade and Redirect.
	Family         Family
	Addr           Value
	Port, PortLast uint16
	Fields         []Field
	Map            string
}

// NATKind is the side of the connection that is translated, and the source of the new address.
type NATKind uint8

// The kinds of translation.
const (
	SNAT       NATKind = iota + 1 // the source
	DNAT                          // the destination
	Masquerade                    // the source, to the address of the interface it leaves by
	Redirect                      // the destination, to this machine
)

// Assign sets a property of the packet or of its connection: Mark, Priority or CtMark. The new
// value is Value; or, if From is set, that field's value; or, if Map is set, its value for Fields.
type Assign struct {
	Field Field
	Value uint32
	// Mask selects the bits of Value that are set; the others stay. Zero means all.
	Mask uint32
	// From is Mark, Priority or CtMark.
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
