// SPDX-License-Identifier: Apache-2.0

package revoke

import (
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
	"github.com/wayleave/wayleave/policy"
)

// natDone has the status bits of a connection whose translation is complete (IPS_SRC_NAT_DONE,
// IPS_DST_NAT_DONE). Chains of type nat do not see its packets any more.
const natDone = 1<<7 | 1<<8

// traversal is a packet that traverses the hooks, with the verdict so far.
type traversal struct {
	evaluator *Evaluator
	packet    simulate.Packet
	conn      simulate.Conn
	verdict   conntrack.Verdict
}

// fromHost returns the verdict on a packet that a process of the node sends. Before the packet is
// routed again, rules see the output interface of the destination before translation.
func (t *traversal) fromHost(f *conntrack.Flow, to Side) conntrack.Verdict {
	out := to
	if f.Requested() != f.Destination() {
		sides := t.evaluator.endpointSides(f.Requested().Addr())
		if len(sides) == 0 {
			sides = t.evaluator.cfg.Finder.Find(f.Requested().Addr())
		}
		// Untracked policy would see the packet before translation.
		if len(sides) != 1 || t.evaluator.untrackedOut {
			return conntrack.Unknown
		}
		out = sides[0]
	}
	t.packet.OIFName = out.Interface
	t.setDestination(f.Destination()).evaluate(ruleset.Output)
	t.packet.OIFName = to.Interface
	t.evaluate(ruleset.Postrouting)
	return t.verdict
}

// setLocal sets the results of route lookups. They depend on which of the two addresses belong to
// the node.
func (t *traversal) setLocal(source, destination bool) {
	i := 0
	if source {
		i |= 1
	}
	if destination {
		i |= 2
	}
	t.packet.Facts = t.evaluator.routeFacts[i]
}

// setDestination sets the destination of the packet.
func (t *traversal) setDestination(a netip.AddrPort) *traversal {
	t.packet.Dst, t.packet.DstPort = a.Addr(), a.Port()
	return t
}

// evaluate runs the packet through a hook, unless an earlier hook dropped it. If the result depends
// on a value that conntrack does not record, the verdict becomes Unknown.
func (t *traversal) evaluate(point ruleset.HookPoint) {
	if t.verdict != conntrack.Allowed {
		return
	}
	switch r, ok := t.runEachHeader(point, t.packet, 0); {
	case !ok:
		t.verdict = conntrack.Unknown
	case r.Verdict != ruleset.Accept:
		t.verdict = conntrack.Denied
	case r.Conn.State == ruleset.CtUntracked:
		t.conn.State = ruleset.CtUntracked
	}
}

// runEachHeader runs a hook for all values that the packet's header fields from h on may have had,
// because conntrack does not record these values. If the results differ, ok is false.
func (t *traversal) runEachHeader(
	point ruleset.HookPoint, p simulate.Packet, h ruleset.HeaderField,
) (first simulate.Result, ok bool) {
	if h == ruleset.HeaderFields {
		return t.runBothLimits(point, p)
	}
	if known(h) || !h.In(p.Protocol) {
		return t.runEachHeader(point, p, h+1)
	}
	for p.Header[h] = 0; ; p.Header[h]++ {
		r, ok := t.runEachHeader(point, p, h+1)
		if p.Header[h] == 0 {
			first = r
		}
		if !ok || r.Verdict != first.Verdict || r.Conn.State != first.Conn.State {
			return r, false
		}
		smaller(&first, &r)
		if p.Header[h] = r.UpTo[h]; p.Header[h] == h.Max() {
			return first, true
		}
	}
}

// known reports whether firstPacket has the original value of the field.
func known(h ruleset.HeaderField) bool {
	return h == ruleset.HeaderICMPType || h == ruleset.HeaderICMPCode || h == ruleset.HeaderTCPFlags
}

// smaller reduces r.UpTo to the values for which o holds, too.
func smaller(r, o *simulate.Result) {
	for h := range r.UpTo {
		r.UpTo[h] = min(r.UpTo[h], o.UpTo[h])
	}
}

// runBothLimits runs a hook. If the verdict depends on a rate limit of a rule, ok is false.
func (t *traversal) runBothLimits(point ruleset.HookPoint, p simulate.Packet) (r simulate.Result, ok bool) {
	r, err := t.evaluator.simulator.Run(point, p, t.conn)
	if err != nil || !r.Limited {
		return r, err == nil
	}
	p.OverLimit = true
	over, err := t.evaluator.simulator.Run(point, p, t.conn)
	smaller(&r, &over)
	return r, err == nil && over.Verdict == r.Verdict
}

// firstPacket returns the first packet of a flow. It leaves out the destination.
func firstPacket(f *conntrack.Flow) simulate.Packet {
	p := simulate.Packet{
		Src: f.Source().Addr(), SrcPort: f.Source().Port(), Protocol: f.Protocol(),
	}
	p.Header[ruleset.HeaderICMPType] = uint16(f.Original.ICMPType)
	p.Header[ruleset.HeaderICMPCode] = uint16(f.Original.ICMPCode)
	p.Header[ruleset.HeaderTCPFlags] = uint16(ruleset.TCPSyn)
	return p
}

// firstConn returns the conntrack entry as it was for the first packet, after destination NAT.
func firstConn(f *conntrack.Flow) simulate.Conn {
	tuple := func(t conntrack.Tuple) simulate.Tuple {
		out := simulate.Tuple{
			Src: t.Source.Addr(), Dst: t.Destination.Addr(),
			SrcPort: t.Source.Port(), DstPort: t.Destination.Port(),
		}
		if t.Protocol == uint8(policy.ProtocolICMP) || t.Protocol == uint8(policy.ProtocolICMPv6) {
			out.SrcPort, out.DstPort = t.ICMPID, uint16(t.ICMPType)<<8|uint16(t.ICMPCode)
		}
		return out
	}
	return simulate.Conn{
		State: ruleset.CtNew, Status: natDone | uint32(f.Status&conntrack.StatusDestinationNAT),
		Mark:     f.Mark,
		Original: tuple(f.Original), Answer: tuple(f.Reply),
	}
}
