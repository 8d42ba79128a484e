// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// ErrPacket is the error of Run for a packet whose addresses are missing, or of different families.
var ErrPacket = errors.New("simulate: packet: addresses missing or of different families")

// Packet has the fields of a packet that rules can test. A field that is zero here is also zero in
// the packet, unless the comment of the field says otherwise.
type Packet struct {
	// IIFName and OIFName are the input and the output interface. If a hook has no such interface,
	// the name must be empty: the kernel, too, compares a missing interface as the empty name.
	IIFName, OIFName string
	// Src and Dst are both IPv4 or both IPv6 addresses.
	Src, Dst netip.Addr
	// Protocol is the transport protocol, after all extension headers.
	Protocol uint8
	// SrcPort and DstPort are the ports of TCP, UDP, UDP-Lite, DCCP and SCTP.
	SrcPort, DstPort uint16
	// Transport has the bytes after the IP header. If it is nil, the simulator builds the transport
	// header from Protocol, the ports and Header. Otherwise, all rules read the transport header
	// from Transport. A rule may load ports although it does not match the protocol. If the
	// protocol has no ports, such a rule reads the first four bytes of Transport.
	Transport []byte
	// Fragment is the offset of a fragment in units of eight bytes. If it is not 0, the packet has
	// no transport header. But the kernel does not check this when it loads one, two or four
	// aligned bytes of the header, such as a port. So rules on ports read other bytes. In an IPv4
	// fragment, they read the payload, which is in Transport. In an IPv6 fragment, they read the IP
	// header. Usually, connection tracking reassembles fragments before the chains see them.
	Fragment uint16
	// MoreFragments is set for a fragment that is not the last one. If MoreFragments is set and
	// Fragment is 0, the packet is the first fragment. Transport may then be shorter than the
	// transport header.
	MoreFragments bool
	// Header has fields of the IP header and of transport headers. A field of a transport header is
	// ignored if packets of Protocol do not have this field (HeaderField.In). If a value is above
	// the Max of its field, only its low bits are used.
	Header [ruleset.HeaderFields]uint16
	// Mark and Priority are those of the kernel's packet buffer (skb).
	Mark, Priority uint32
	// Facts has values that are not in the packet, by field: the results of routing lookups
	// (FromFib). If a rule needs a missing fact, it does not match. Facts do not change within a
	// hook, even if the packet is translated.
	Facts map[ruleset.Field]ruleset.Value
	// Frame is the frame that a port of a bridge receives, for a table of family bridge. It begins
	// with the Ethernet header, and has its VLAN tags. Its payload may be of any protocol. Unless
	// Frame is nil, it replaces all fields above except the interfaces, Mark, Priority and Facts.
	// Rules can load up to 192 bytes of its IP and transport headers.
	Frame []byte
	// OverLimit is set if the packet exceeds all limits in rules. Otherwise it exceeds none.
	OverLimit bool
}

// fragmented reports whether the packet is a fragment.
func (p *Packet) fragmented() bool { return p.Fragment != 0 || p.MoreFragments }

// Conn has the data of connection tracking about a packet. The zero value means that the packet
// begins a new connection.
type Conn struct {
	// State is one of CtNew, CtEstablished, CtRelated, CtInvalid and CtUntracked; 0 means CtNew.
	// Invalid and untracked packets have no connection: the fields below are ignored for them.
	State uint32
	// Status has the bits of the connection's status.
	Status uint32
	// Reply is set if the packet's direction is opposite to that of the connection's first packet.
	Reply bool
	// Mark is the mark of the connection.
	Mark uint32
	// Original is the tuple of the connection's first packet, and Answer the tuple of replies. A
	// zero Original means the packet's own tuple or, if Reply is set, the reverse of it. A zero
	// Answer means the reverse of Original.
	Original, Answer Tuple
}

// Tuple is one direction of a connection. For ICMP, SrcPort is the identifier, and DstPort has type
// and code.
type Tuple struct {
	Src, Dst         netip.Addr
	SrcPort, DstPort uint16
}

// Result is what happened to a packet at one hook.
type Result struct {
	// Verdict is Accept or Drop.
	Verdict ruleset.VerdictKind
	// Chain and Rule are the place where the verdict was reached. Rule is the number of the rule,
	// counted from 0, or -1 for the policy of a base chain. Chain is empty if the hook has no base
	// chain for the packet.
	Chain string
	Rule  int
	// Packet and Conn are the packet and its connection after the hook. They have the marks, the
	// priority and the state of connection tracking that rules set. Addresses are translated,
	// unless the kernel would choose the new addresses.
	Packet Packet
	Conn   Conn
	// Rejected is the Reject statement that dropped the packet, or nil.
	Rejected *ruleset.Reject
	// Limited is set if a rule with a limit was evaluated. Then the result may depend on
	// Packet.OverLimit.
	Limited bool
	// UpTo has an upper bound for each field of Packet.Header. The result stays the same if each of
	// these fields has any value from its value in the packet up to its bound.
	UpTo [ruleset.HeaderFields]uint16
	// Translations has the NAT statements that the packet reached, in order.
	Translations []Translation
	// Logs has the Log statements that the packet reached, in order.
	Logs []ruleset.Log
	// Trace has the steps. It is nil after Run.
	Trace []Step
}

// Translation is a NAT statement that a packet reached.
type Translation struct {
	NAT ruleset.NAT
	// Addr is the new address. It is not valid if the kernel chooses the address, or if the address
	// stays the same.
	Addr netip.Addr
	// Port is the new port. It is 0 if the kernel chooses the port, or if the kernel keeps the old
	// port where possible.
	Port uint16
}

// Step is a rule that the packet matched: the evaluation of the rule reached a verdict or the end
// of the rule. There is no Step for a rule that does not match. The kernel's own trace has the same
// steps.
type Step struct {
	// Chain and Rule are the place of the rule, as in Result.
	Chain string
	Rule  int
	// Comment is the comment of the rule.
	Comment string
	// Verdict is the verdict of the rule. Its kind is 0 if the rule gave none.
	Verdict ruleset.Verdict
}

// Run runs a packet through the base chains of one hook. Base chains run in the order of their
// priorities. If one accepts the packet, the next one runs. Base chains of type nat run at the
// priority of address translation (-100 or 100), whatever their own priority is. They run only for
// packets that begin a connection.
//
// c is the packet's connection. Connection tracking is at priority -200 of Prerouting and Output.
// In base chains before it, the packet has no connection, and its state is CtInvalid. Run treats
// elements with a timeout as not expired.
//
// Base chains of equal priority run in the reverse order of their names. The kernel does the same
// if the chains were created in the order of their names. The operations of package ruleset create
// them in this order.
//
// The time is proportional to the number of rules that are evaluated. Run allocates memory only if
// a rule logs or translates, or if the packet has a Frame. Errors: ErrPacket, ErrFrame.
func (s *Simulator) Run(point ruleset.HookPoint, p Packet, c Conn) (Result, error) {
	return s.run(point, p, c, false)
}

// Trace does what Run does, and records the steps in the result.
func (s *Simulator) Trace(point ruleset.HookPoint, p Packet, c Conn) (Result, error) {
	return s.run(point, p, c, true)
}
