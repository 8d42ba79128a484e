// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// ErrPacket is the error of Run for an impossible packet: no addresses, or addresses of two families.
var ErrPacket = errors.New("simulate: packet: addresses missing or of different families")

// Packet has the fields of a packet that rules can test. A zero field is zero in the packet, unless
// the field's comment differs.
type Packet struct {
	// IIFName and OIFName are the input and the output interface; empty where the hook has none. The
	// kernel compares a missing one as the empty name.
	IIFName, OIFName string
	// Src and Dst are both IPv4 or both IPv6 addresses.
	Src, Dst netip.Addr
	// Protocol is the transport protocol, behind all extension headers.
	Protocol uint8
	// SrcPort and DstPort are those of TCP, UDP, UDP-Lite, DCCP and SCTP.
	SrcPort, DstPort uint16
	// Transport, unless nil, is the packet behind its IP header, and replaces ports and the fields
	// of transport headers. Rules that load ports without a match on the protocol read these bytes.
	Transport []byte
	// Fragment is the offset of a fragment in units of eight bytes. Unless it is 0 there is no
	// transport header. The kernel ignores that when it loads four bytes or fewer: rules on ports
	// read the payload of an IPv4 fragment (Transport), and the IP header of an IPv6 fragment.
	// Connection tracking reassembles fragments before.
	Fragment uint16
	// MoreFragments is set for a fragment that is not the last; with Fragment 0 it is the first.
	// Transport may then be shorter than the transport header.
	MoreFragments bool
	// Header has the fields of the IP header and of transport headers. A field of a transport header
	// counts if packets of Protocol have it (HeaderField.In). Values above Max of the field are
	// truncated.
	Header [ruleset.HeaderFields]uint16
	// Mark and Priority are those of the kernel's packet buffer.
	Mark, Priority uint32
	// Facts has values that are not in the packet, by field: the results of routing lookups
	// (FromFib). A rule with such a field does not match if the fact is missing. Facts do not change
	// within a hook, even if the packet is translated.
	Facts map[ruleset.Field]ruleset.Value
	// Frame, unless nil, is a frame as a port of a bridge receives it, from the Ethernet header on and
	// with its VLAN tags, for a table of family bridge. It need not be one of IP. It replaces all fields
	// above but those of interfaces, Mark, Priority and Facts; IP and transport headers count up to 192 bytes.
	Frame []byte
	// OverLimit is set if the packet exceeds all limits of rules; otherwise it exceeds none.
	OverLimit bool
}

// fragmented reports whether the packet is a fragment.
func (p *Packet) fragmented() bool { return p.Fragment != 0 || p.MoreFragments }

// Conn is the state that connection tracking has of a packet. The zero value is a new connection that
// begins with the packet.
type Conn struct {
	// State is one of CtNew, CtEstablished, CtRelated, CtInvalid and CtUntracked; 0 is CtNew.
	// Invalid and untracked packets have no connection: the fields below are ignored for them.
	State uint32
	// Status are the bits of the connection's status.
	Status uint32
	// Reply is set if the packet has the opposite direction of the connection's first packet.
	Reply bool
	// Mark is the connection's.
	Mark uint32
	// Original is the tuple of the connection's first packet, Answer that of replies. If Original
	// has no addresses, it is the packet's own, reversed for a reply; if Answer has none, it is
	// Original reversed.
	Original, Answer Tuple
}

// Tuple is one direction of a connection. For ICMP, SrcPort is the identifier, and DstPort type and
// code.
type Tuple struct {
	Src, Dst         netip.Addr
	SrcPort, DstPort uint16
}

// Result is the result of a packet in one hook.
type Result struct {
	// Verdict is Accept or Drop.
	Verdict ruleset.VerdictKind
	// Chain and Rule are where the verdict was reached: Rule is the rule's number from 0, or -1 for a
	// base chain's policy. Chain is empty if the hook has no base chain for the packet.
	Chain string
	Rule  int
	// Packet and Conn are the state after the hook: marks, priority and tracking as set by rules, and
	// addresses translated unless the kernel chooses the new ones.
	Packet Packet
	Conn   Conn
	// Rejected is the reject statement that dropped the packet, or nil.
	Rejected *ruleset.Reject
	// Limited is set if a rule with a limit was evaluated: the result may depend on Packet.OverLimit.
	Limited bool
	// UpTo limits Packet.Header: the result is the same for all packets whose fields are at least
	// the packet's and at most these.
	UpTo [ruleset.HeaderFields]uint16
	// Translations has the NAT statements that were reached, in order.
	Translations []Translation
	// Logs has the log statements that were reached, in order.
	Logs []ruleset.Log
	// Trace has the steps; Run leaves it nil.
	Trace []Step
}

// Translation is a NAT statement that a packet reached.
type Translation struct {
	NAT ruleset.NAT
	// Addr is the new address; not valid if the kernel chooses it, or the address stays.
	Addr netip.Addr
	// Port is the new port; 0 if the kernel chooses it, or the port stays if it can.
	Port uint16
}

// Step is a rule of which the packet reached the end or a verdict, as in the kernel's own trace. A
// rule that does not match is no step.
type Step struct {
	// Chain and Rule are as in Result.
	Chain string
	Rule  int
	// Comment is the rule's.
	Comment string
	// Verdict has the kind 0 if the rule gave none.
	Verdict ruleset.Verdict
}

// Run runs a packet through the table's base chains of a hook, in the order of their priorities: an
// accepted packet continues in the next, a dropped one does not. Chains of type nat run only for new
// connections, at the priority of translation. The cost is in proportion to the rules evaluated. Run
// allocates nothing unless a rule logs or translates, or the packet is a frame. Errors: ErrPacket, ErrFrame.
//
// c counts for all chains after priority -200 of Prerouting and Output. Before that the packet has no
// connection yet: its state is CtInvalid. Elements with a timeout are taken as not expired.
//
// Chains of equal priority run in the reverse order of their names. So it is in the kernel if they
// were created in the order of their names, as the operations of package ruleset do.
func (s *Simulator) Run(point ruleset.HookPoint, p Packet, c Conn) (Result, error) {
	return s.run(point, p, c, false)
}

// Trace is Run, and records the steps in the result.
func (s *Simulator) Trace(point ruleset.HookPoint, p Packet, c Conn) (Result, error) {
	return s.run(point, p, c, true)
}
