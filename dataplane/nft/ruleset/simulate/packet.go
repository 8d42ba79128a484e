// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// ErrPacket is what Run returns for a packet that cannot be: no addresses, or addresses of two families.
var ErrPacket = errors.New("simulate: packet: addresses missing or of different families")

// Packet is what rules can see of a packet. Its zero fields mean what they would mean in the packet, unless a
// field says otherwise. It is a plain value.
type Packet struct {
	// IIFName and OIFName are the interfaces that the packet came in by and is about to leave by; empty where
	// the hook has none. The kernel takes a missing one for the empty name.
	IIFName, OIFName string
	// Src and Dst are both IPv4 or both IPv6 addresses.
	Src, Dst netip.Addr
	// Protocol is the transport protocol, behind all extension headers.
	Protocol uint8
	// SrcPort and DstPort are those of TCP, UDP, UDP-Lite, DCCP and SCTP.
	SrcPort, DstPort uint16
	// ICMPType and ICMPCode are those of ICMP and ICMPv6.
	ICMPType, ICMPCode uint8
	// TCPFlags are the flags in the TCP header's byte 13: FIN is 1, SYN 2, RST 4, ACK 16.
	TCPFlags uint8
	// Transport, unless nil, is the packet behind its IP header, and stands instead of ports, ICMP
	// and TCPFlags. Rules that take bytes for ports whatever the protocol see them here.
	Transport []byte
	// Fragment is the offset of a fragment in units of eight bytes. Unless it is 0 there is no
	// transport header. The kernel does not care when it loads four bytes or fewer: rules on ports
	// see the payload of an IPv4 fragment (Transport), and of an IPv6 fragment the IP header.
	// Connection tracking puts fragments together before all that.
	Fragment uint16
	// MoreFragments is set for a fragment that is not the last; with Fragment 0 it is the first.
	// Transport may then be shorter than the transport header.
	MoreFragments bool
	// Header are the fields of the IP header. Values above Max of the field are cut.
	Header [ruleset.HeaderFields]uint16
	// Mark and Priority are those of the kernel's packet buffer.
	Mark, Priority uint32
	// Facts are values that the packet itself does not tell, by the field that asks for them: the
	// results of routing lookups (FromFib). A rule with such a field does not match if the fact is
	// missing. Within a hook they do not change, even if the packet is translated.
	Facts map[ruleset.Field]ruleset.Value
	// OverLimit says that the limits of rules are used up; otherwise the packet is within all of them.
	OverLimit bool
}

// fragmented reports whether the packet is a fragment.
func (p *Packet) fragmented() bool { return p.Fragment != 0 || p.MoreFragments }

// Conn is what connection tracking knows of a packet. The zero value is a new connection that begins with
// the packet. It is a plain value.
type Conn struct {
	// State is one of CtNew, CtEstablished, CtRelated, CtInvalid and CtUntracked; 0 is CtNew. Invalid and untracked
	// packets have no connection, and what follows does not count for them.
	State uint32
	// Status are the bits of the connection's status.
	Status uint32
	// Reply says that the packet goes against the direction of the first.
	Reply bool
	// Mark is the connection's.
	Mark uint32
	// Original is the tuple of the connection's first packet, Answer that of what comes back. If
	// Original has no addresses, it is the packet's own, turned round for a reply; if Answer has
	// none, it is Original turned round.
	Original, Answer Tuple
}

// Tuple is one direction of a connection. Of ICMP, SrcPort is the identifier, and DstPort type and
// code. It is a plain value.
type Tuple struct {
	Src, Dst         netip.Addr
	SrcPort, DstPort uint16
}

// Result is what became of a packet in one hook. It is a plain value.
type Result struct {
	// Verdict is Accept or Drop.
	Verdict ruleset.VerdictKind
	// Chain and Rule say where that was decided: Rule is the rule's number from 0, or -1 for a base
	// chain's policy. Chain is empty if no base chain saw the packet.
	Chain string
	Rule  int
	// Packet and Conn are as they leave the hook: with marks and priority set, addresses translated where it is certain
	// to what, and tracking taken off.
	Packet Packet
	Conn   Conn
	// Rejected is the statement that dropped the packet and told its sender, if one did.
	Rejected *ruleset.Reject
	// Limited says that a limit was asked on the way: with another Packet.OverLimit, the result may be another.
	Limited bool
	// UpTo limits Packet.Header: the result is the same for all packets whose fields are at least
	// the packet's and at most these.
	UpTo [ruleset.HeaderFields]uint16
	// Translations are the NAT statements that were reached, in order.
	Translations []Translation
	// Logs are the log statements that were reached, in order.
	Logs []ruleset.Log
	// Trace are the steps, if asked for.
	Trace []Step
}

// Translation is a NAT statement that a packet reached. It is a plain value.
type Translation struct {
	NAT ruleset.NAT
	// Addr is what the address becomes; not valid if that is for the kernel to choose, or the address stays.
	Addr netip.Addr
	// Port is what the port becomes; 0 if that is for the kernel to choose, or the port stays if it can.
	Port uint16
}

// Step is a rule that the packet went through to the end, or to a verdict: what nftables' own
// trace shows. Rules that do not match leave none. It is a plain value.
type Step struct {
	// Chain and Rule are as in Result.
	Chain string
	Rule  int
	// Comment is the rule's.
	Comment string
	// Verdict has the kind 0 if the rule gave none.
	Verdict ruleset.Verdict
}

// Run runs a packet through the table's base chains of a hook, in the order of their priorities: an accepted packet
// goes on to the next, a dropped one does not. Chains of type nat
// see new connections alone, and come at the priority of translation. It costs in proportion to the rules
// that are looked at, and allocates nothing unless a rule logs or translates. Errors: ErrPacket.
//
// What connection tracking knows is taken from c, for all chains behind priority -200 of Prerouting and
// Output; before that the packet has no connection yet, which is CtInvalid to rules. Elements with a
// timeout count as there.
//
// Of chains with equal priority the last by name comes first, as it is in the kernel when they are
// created in the order of their names, which ruleset's operations do.
func (s *Simulator) Run(point ruleset.HookPoint, p Packet, c Conn) (Result, error) {
	return s.run(point, p, c, false)
}

// Trace is Run with the steps noted in the result.
func (s *Simulator) Trace(point ruleset.HookPoint, p Packet, c Conn) (Result, error) {
	return s.run(point, p, c, true)
}
