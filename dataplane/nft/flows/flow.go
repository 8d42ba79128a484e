// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"net/netip"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/nflog"
	"github.com/wayleave/wayleave/policy"
)

// Key identifies a flow. A flow is all connections with the same source, destination, protocol and
// destination port for which the same rule decides. A Key is comparable.
type Key struct {
	// Source and Destination are names, such as "shop/web", or addresses.
	Source, Destination string
	Protocol            policy.Protocol
	// Port is the destination port after destination NAT. Zero for protocols without ports.
	Port uint16
	Decision
}

// Decision is a verdict with its reason. It is comparable.
type Decision struct {
	Allowed bool
	// Policy is the policy or profile whose rule decided. It is the zero Key if no rule decided.
	Policy policy.Key
	// Direction of the rule. Empty if no rule decided.
	Direction policy.Type
	// Rule is the index of the rule, from 0, among the rules of Policy for this Direction.
	Rule int
	// Reason is the reason for the verdict if no rule decided.
	Reason string
}

// Counts has the counters of a flow, or of all flows with one Decision. Packets of allowed
// connections are counted only if connection tracking counts them.
type Counts struct {
	// Connections is the number of connections that were allowed.
	Connections uint64
	// Packets and Bytes count the packets from the source. For a denied flow, they count the
	// dropped packets. Bytes is the sum of the lengths of IP packets.
	Packets, Bytes uint64
	// ReplyPackets and ReplyBytes count the packets from the destination.
	ReplyPackets, ReplyBytes uint64
}

func (c *Counts) add(o Counts) {
	c.Connections += o.Connections
	c.Packets += o.Packets
	c.Bytes += o.Bytes
	c.ReplyPackets += o.ReplyPackets
	c.ReplyBytes += o.ReplyBytes
}

// Flow is a flow with its counts.
type Flow struct {
	Key
	Counts
	// First and Last are the times of the first and the last change of the counters.
	First, Last time.Time
}

// Tuple has the addresses and ports of a connection as policy sees them: after destination NAT and
// before source NAT. It is comparable. The ports are zero for protocols without ports. Several
// connections may have the same Tuple at a time:
//
//   - ICMP connections between two addresses;
//   - connections from one port to two services with the same backend;
//   - connections in different conntrack zones.
type Tuple struct {
	Source, Destination netip.AddrPort
	Protocol            policy.Protocol
}

// TupleOf returns the tuple of a logged packet.
func TupleOf(e nflog.Entry) Tuple {
	return Tuple{
		Source: netip.AddrPortFrom(e.Src, e.SrcPort), Destination: netip.AddrPortFrom(e.Dst, e.DstPort),
		Protocol: e.Protocol,
	}
}

// tupleOf returns the tuple of a conntrack entry. It leaves out GRE keys, because the verdict log
// does not have them.
func tupleOf(f *conntrack.Flow) Tuple {
	t := Tuple{Source: f.Source(), Destination: f.Destination(), Protocol: policy.Protocol(f.Protocol())}
	if !t.Protocol.HasPorts() {
		t.Source, t.Destination = netip.AddrPortFrom(t.Source.Addr(), 0), netip.AddrPortFrom(t.Destination.Addr(), 0)
	}
	return t
}

// Verdict is an entry of the verdict log: what one policy decided about one packet. Policy decides
// about each packet of a connection until there is a reply, so a connection may have any number of
// verdicts.
type Verdict struct {
	Key
	// Tuple of the connection.
	Tuple Tuple
	// Length of the IP packet in bytes.
	Length int
}
