// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"net/netip"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/nflog"
	"github.com/wayleave/wayleave/policy"
)

// Key identifies a flow: all connections from a source to a port of a destination that one rule decides about. It is
// comparable.
type Key struct {
	// Source and Destination are names, as in "shop/web", or addresses.
	Source, Destination string
	Protocol            policy.Protocol
	// Port of the destination, after destination NAT. Zero for protocols without ports.
	Port uint16
	Decision
}

// Decision is a verdict and its reason. It is comparable.
type Decision struct {
	Allowed bool
	// Policy is the policy or profile whose rule decided. The zero Key means that no rule did.
	Policy policy.Key
	// Direction of the rule. Empty if no rule decided.
	Direction policy.Type
	// Rule is the index of the rule in that direction, from 0.
	Rule int
	// Reason is why the packet was allowed or denied, if no rule decided.
	Reason string
}

// Counts are the counters of a flow or decision. Packets of a connection are counted only if connection tracking counts
// them.
type Counts struct {
	// Connections that were allowed.
	Connections uint64
	// Packets and Bytes from the source; of a denied flow, those that were dropped. Bytes are those of IP packets.
	Packets, Bytes uint64
	// ReplyPackets and ReplyBytes from the destination.
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
	// First and Last are the times of the first and the last verdict or count.
	First, Last time.Time
}

// Tuple is what policy sees of a connection: after destination NAT and before source NAT. It is comparable. The ports
// are zero for protocols without ports. Several connections may have one Tuple at a time: those of ICMP between two
// addresses, those from one port to two services with the same backend, and those of different conntrack zones.
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

// tupleOf returns the tuple of a conntrack entry. Its ports may be GRE keys, which the verdict log does not have.
func tupleOf(f *conntrack.Flow) Tuple {
	t := Tuple{Source: f.Source(), Destination: f.Destination(), Protocol: policy.Protocol(f.Protocol())}
	if !t.Protocol.HasPorts() {
		t.Source, t.Destination = netip.AddrPortFrom(t.Source.Addr(), 0), netip.AddrPortFrom(t.Destination.Addr(), 0)
	}
	return t
}

// Verdict is a verdict about a packet. Policy decides about each packet of a connection until there is a reply, so a
// connection may have any number of verdicts.
type Verdict struct {
	Key
	// Tuple of the connection.
	Tuple Tuple
	// Length of the IP packet in bytes.
	Length int
}
