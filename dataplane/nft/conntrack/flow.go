// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"fmt"
	"net/netip"
	"time"
)

// The protocols whose tuples have ICMP fields instead of ports.
const (
	protocolICMP   = 1
	protocolICMPv6 = 58
)

// Tuple identifies the packets of one direction of a flow. It is comparable. The zero Tuple means
// "no tuple": for example, Flow.Master is the zero Tuple in a flow that has no master.
type Tuple struct {
	// Source and Destination of the packets in this direction. The ports are zero if the protocol
	// has none. For GRE, they are the keys.
	Source, Destination netip.AddrPort
	// Protocol is the IP protocol number.
	Protocol uint8
	// ICMPType, ICMPCode and ICMPID are those of an ICMP or ICMPv6 query. For other packets they
	// are zero.
	ICMPType, ICMPCode uint8
	ICMPID             uint16
	// Zone is the connection tracking zone if it applies only to this direction. Otherwise it is
	// zero.
	Zone uint16
}

// String returns the tuple as in "6 10.0.0.1:4711 > 10.0.0.2:80" or "1 10.0.0.1 > 10.0.0.2 type 8
// code 0 id 7".
func (t Tuple) String() string {
	switch {
	case !t.Source.IsValid():
		return "none"
	case t.icmp():
		return fmt.Sprintf(
			"%d %s > %s type %d code %d id %d", t.Protocol, t.Source.Addr(), t.Destination.Addr(), t.ICMPType,
			t.ICMPCode, t.ICMPID,
		)
	}
	return fmt.Sprintf("%d %s > %s", t.Protocol, t.Source, t.Destination)
}

func (t Tuple) icmp() bool { return t.Protocol == protocolICMP || t.Protocol == protocolICMPv6 }

// reverse returns the tuple of the opposite direction, if no address is translated.
func (t Tuple) reverse() Tuple {
	t.Source, t.Destination = t.Destination, t.Source
	return t
}

// Status is a set of the kernel's flags of a flow (IPS_...).
type Status uint32

// The flags that users of the package need.
const (
	// StatusExpected: the kernel expected this flow because of another flow, its master. For
	// example, an FTP control connection is the master of its data connections.
	StatusExpected Status = 1 << 0
	// StatusSeenReply: there were packets in both directions.
	StatusSeenReply Status = 1 << 1
	// StatusAssured: the kernel keeps the flow when the table is full.
	StatusAssured Status = 1 << 2
	// StatusSourceNAT: the source of the original direction is translated.
	StatusSourceNAT Status = 1 << 4
	// StatusDestinationNAT: the destination of the original direction is translated.
	StatusDestinationNAT Status = 1 << 5
	// StatusOffload: the flow is in a flowtable, and the kernel does not report its Timeout.
	StatusOffload Status = 1 << 14
)

// Flow is one entry of the connection tracking table. It is comparable.
//
// Original is the tuple that the first packet has on arrival, before any translation. Reply is the
// tuple that replies have on arrival. Without translation, Reply is Original with source and
// destination exchanged. With translation, the two have different addresses:
//
//	client 10.0.0.1:4711 ──▶ service 10.96.0.1:80, translated to 10.0.0.2:8080, masqueraded as 192.0.2.1:61000
//	Original  10.0.0.1:4711 > 10.96.0.1:80        Source()         Requested()
//	Reply     10.0.0.2:8080 > 192.0.2.1:61000     Destination()    Translated()
type Flow struct {
	Original, Reply Tuple
	// Master is the original tuple of the master, if Status has StatusExpected. Otherwise it is
	// zero.
	Master Tuple
	// Zone is the connection tracking zone of both directions; zero is the default zone.
	Zone uint16
	// Mark of the connection.
	Mark uint32
	// Status flags.
	Status Status
	// ID usually distinguishes the flow from other flows with the same tuples. The kernel computes
	// it from the tuple and the memory address of the entry, so a later entry may have the same ID.
	ID uint32
	// Timeout is the time after which the entry ends if there are no more packets, in whole
	// seconds. With StatusOffload it is zero.
	Timeout time.Duration
}

// Source returns the source of the first packet. Policy matches this address.
func (f *Flow) Source() netip.AddrPort { return f.Original.Source }

// Destination returns the destination that the first packet has after destination NAT. Normal
// policy matches this address.
func (f *Flow) Destination() netip.AddrPort { return f.Reply.Source }

// Requested returns the destination that the first packet has before destination NAT. Untracked and
// pre-DNAT policy match this address.
func (f *Flow) Requested() netip.AddrPort { return f.Original.Destination }

// Translated returns the source that the first packet has after source NAT.
func (f *Flow) Translated() netip.AddrPort { return f.Reply.Destination }

// Protocol returns the IP protocol number.
func (f *Flow) Protocol() uint8 { return f.Original.Protocol }

// Is4 reports whether the flow is an IPv4 flow.
func (f *Flow) Is4() bool { return f.Original.Source.Addr().Is4() }

// String returns the original tuple. If addresses are translated, it also has the reply tuple.
func (f *Flow) String() string {
	text := f.Original.String()
	if f.Reply.Source != f.Original.Destination || f.Reply.Destination != f.Original.Source {
		text += ", answered by " + f.Reply.String()
	}
	if f.Zone != 0 {
		text += fmt.Sprintf(" in zone %d", f.Zone)
	}
	return text
}
