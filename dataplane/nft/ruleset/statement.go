// SPDX-License-Identifier: Apache-2.0

package ruleset

import "time"

// Statement is what a rule does: Verdict, VMap, Reject, NAT, Log, Limit, Counter, Notrack, Assign
// or Raw. The set is closed.
type Statement interface{ statement() }

// VMap looks the fields up in a verdict map: the named one, or an anonymous one of Elements. No
// element, no verdict, and the next rule's turn. It is plain data.
type VMap struct {
	Fields   []Field
	Map      string
	Elements []Element
}

// Log writes a line to the kernel log or, where Group is set, hands the packet to the listeners of
// nflog. It is plain data.
type Log struct {
	// Prefix is at most 127 bytes.
	Prefix string
	// Level of the kernel log; the zero value is nft's default, warn. Not with a Group.
	Level LogLevel
	// Flags choose what the line says besides. Not with a Group.
	Flags LogFlags
	// Group of nflog.
	Group *uint16
	// Snaplen is how many bytes of the packet go to the group; zero is all.
	Snaplen uint32
	// QueueThreshold is how many packets wait before the listener is woken; zero is the kernel's default.
	QueueThreshold uint16
}

// LogLevel is a level of the kernel log. It is a plain value.
type LogLevel uint8

// The levels; the kernel's number is one less.
const (
	LogDefault LogLevel = iota // warn
	LogEmerg
	LogAlert
	LogCrit
	LogErr
	LogWarn
	LogNotice
	LogInfo
	LogDebug
)

// LogFlags are what a line of the kernel log says besides. It is a plain value.
type LogFlags uint8

// The flags, numbered as in the kernel (NF_LOG_...).
const (
	LogTCPSequence LogFlags = 1 << iota
	LogTCPOptions
	LogIPOptions
	LogUID
	_
	LogMACDecode
)

// Limit lets the rest of the rule happen so many times in a unit of time; with Over, what is beyond
// that. It is a plain value.
type Limit struct {
	// Rate is packets, or with Bytes bytes, a Per.
	Rate uint64
	// Per is one second, minute, hour, day or week. Zero is a second.
	Per time.Duration
	// Burst is how many packets (with Bytes: bytes) may come at once. Zero is nft's default, 5 packets or no byte.
	Burst uint32
	Over  bool
	Bytes bool
}

// Counter counts packets and bytes. It is a plain value.
type Counter struct{}

// Reject drops the packet and tells its sender. It is a plain value.
type Reject struct {
	Kind RejectKind
	// Code of the ICMP message. For RejectICMPX it is the kernel's common number: 0 no route, 1 port
	// unreachable, 2 host unreachable, 3 administratively prohibited.
	Code uint8
}

// RejectKind is how a packet is rejected. It is a plain value.
type RejectKind uint8

// The kinds of rejection.
const (
	// RejectDefault is "port unreachable" of the packet's family (icmpx 1).
	RejectDefault  RejectKind = iota
	RejectTCPReset            // the rule must match TCP
	RejectICMP                // the rule must match IPv4
	RejectICMPv6              // the rule must match IPv6
	RejectICMPX               // either family
)

// Notrack keeps the packet out of connection tracking. It works in a base chain before it (priority
// raw). It is a plain value.
type Notrack struct{}

// NAT translates the connection, in a base chain of type nat. It is plain data.
//
// Where the address and port come from: Addr (to AddrLast) and Port (to PortLast); or Fields looked
// up in Map, whose data is an address, or an address and a port. Masquerade and Redirect take their
// address from the interface and have ports at most.
type NAT struct {
	Kind NATKind
	// Family of the address in a table of family inet: FamilyIPv4 or FamilyIPv6. Other tables and
	// Masquerade and Redirect have no need of it; it is then FamilyINet.
	Family         Family
	Addr, AddrLast Value
	Port, PortLast uint16
	Fields         []Field
	Map            string
	Flags          NATFlags
}

// NATKind says which side of the connection is translated. It is a plain value.
type NATKind uint8

// The kinds of translation.
const (
	SNAT       NATKind = iota + 1 // the source
	DNAT                          // the destination
	Masquerade                    // the source, to the address of the interface it leaves by
	Redirect                      // the destination, to this machine
)

// NATFlags say how a port is chosen. It is a plain value.
type NATFlags uint8

// The flags, numbered as in the kernel (NF_NAT_RANGE_...).
const (
	NATRandom      NATFlags = 1 << 2
	NATPersistent  NATFlags = 1 << 3
	NATFullyRandom NATFlags = 1 << 4
)

// Assign sets a property of the packet or of its connection: one of the fields Mark, Priority,
// PktType, Nftrace, CtMark, CtZone and CtLabel. What it becomes is Value; or, where From is set,
// that field's value; or, where Map is set, what Fields are looked up to. It is plain data.
type Assign struct {
	Field Field
	// Value is a number, for CtLabel that of the label's bit (0 to 127).
	Value uint32
	// Mask selects the bits that are set; the others stay. Zero means all. It applies to Mark,
	// Priority and CtMark with a Value.
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
