// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// wireFlow is a flow for which a test can send real packets.
type wireFlow struct {
	verdict.Flow
	from, to nfttest.FlowEnd
	// reply is set if the flow replies to a connection of the other side, related if it is an ICMP
	// error about one.
	reply, related bool
}

// wireFlows has flows that can be tested together: no two belong to one connection.
type wireFlows struct {
	used  map[string]bool
	flows []wireFlow
}

// add adds a flow, changed so that it can be sent, unless it conflicts with another. The parameter
// choice decides whether the flow is a reply or opens a connection.
func (l *wireFlows) add(f verdict.Flow, from, to nfttest.FlowEnd, choice int) {
	w := wireFlow{Flow: f, from: from, to: to}
	w.possible()
	if from.Iface != "" && from.Iface == to.Iface && !w.OrigDst.IsValid() || f.Src == f.Dst {
		return // the packet does not leave the workload
	}
	if w.State == verdict.StateEstablished && !w.OrigDst.IsValid() {
		w.answer(choice)
	}
	before := w.before()
	keys := []string{
		tuple(w.Protocol, w.Src, before.Addr(), w.SrcPort, before.Port()),
		tuple(w.Protocol, w.Dst, w.Src, w.DstPort, w.SrcPort),
	}
	if w.related {
		keys = append(
			keys, tuple(policy.ProtocolUDP, w.Src, w.Dst, relatedPort, relatedPort),
			tuple(policy.ProtocolUDP, w.Dst, w.Src, relatedPort, relatedPort),
		)
	}
	for _, k := range append(
		keys, tuple(w.Protocol, w.Src, w.Dst, w.SrcPort, w.DstPort),
		tuple(w.Protocol, before.Addr(), w.Src, before.Port(), w.SrcPort),
	) {
		if l.used[k] {
			return
		}
	}
	for _, k := range keys {
		l.used[k] = true
	}
	l.flows = append(l.flows, w)
}

// relatedPort is both ports of the packets in ICMP errors.
const relatedPort = 9

func tuple(proto policy.Protocol, src, dst netip.Addr, sport, dport uint16) string {
	if !proto.HasPorts() {
		sport, dport = 0, 0
	}
	return fmt.Sprintf("%d %s:%d %s:%d", proto, src, sport, dst, dport)
}

// before returns the destination before NAT.
func (w *wireFlow) before() netip.AddrPort {
	addr, port := w.Dst, w.DstPort
	if w.OrigDst.IsValid() {
		addr = w.OrigDst
	}
	if w.OrigDstPort != 0 {
		port = w.OrigDstPort
	}
	return netip.AddrPortFrom(addr, port)
}

// possible gives the flow the state that connection tracking assigns to such a packet, or the
// packet a form for the state.
func (w *wireFlow) possible() {
	is4 := w.Src.Is4()
	request := uint8(8)
	switch {
	case w.Protocol == policy.ProtocolICMP && !is4:
		w.Protocol = policy.ProtocolICMPv6
	case w.Protocol == policy.ProtocolICMPv6 && is4:
		w.Protocol = policy.ProtocolICMP
	}
	if !is4 {
		request = 128
	}
	switch {
	case w.Protocol.HasPorts():
	case w.Protocol != policy.ProtocolICMP && w.Protocol != policy.ProtocolICMPv6:
		w.ICMPType, w.ICMPCode = 0, 0
		if w.State == verdict.StateInvalid { // no related packet is possible
			w.State = ""
		}
	case w.State == verdict.StateInvalid && w.ICMPType == request:
		w.ICMPType = 3
	case w.State == verdict.StateEstablished && w.OrigDst.IsValid():
		w.ICMPType = request
	case w.State != verdict.StateEstablished && w.ICMPType != request: // a reply or an error without a connection
		w.State = verdict.StateInvalid
	}
	if w.State == verdict.StateInvalid {
		w.OrigDst, w.OrigDstPort = netip.Addr{}, 0 // not translated
	}
}

// answer makes the flow an answer or an error, as choice decides.
func (w *wireFlow) answer(choice int) {
	icmp := w.Protocol == policy.ProtocolICMP || w.Protocol == policy.ProtocolICMPv6
	request, answer := uint8(8), uint8(0)
	if w.Src.Is6() {
		request, answer = 128, 129
	}
	switch {
	case !icmp:
		w.reply = choice%2 == 0
	case choice%3 == 0:
		w.ICMPType = request
	case choice%3 == 1:
		w.ICMPType, w.reply = answer, true
	default:
		w.ICMPType, w.reply, w.related, w.State = 3, true, true, verdict.StateRelated
	}
}

// frame returns the packet that tests whether the flow passes.
func (w *wireFlow) frame() frame {
	before := w.before()
	f := frame{
		src: w.Src, dst: before.Addr(), sport: w.SrcPort, dport: before.Port(), proto: w.Protocol,
		typ: w.ICMPType, code: w.ICMPCode, echo: w.SrcPort, dscp: w.DSCP,
	}
	switch w.State {
	case verdict.StateInvalid:
		f.broken, f.tag, f.chunk = true, openerTag, sctpInit
	case verdict.StateEstablished, verdict.StateRelated:
		return w.later(f)
	default:
		f = opening(f)
	}
	return f
}

// later returns a packet of an open connection.
func (w *wireFlow) later(f frame) frame {
	f.flags, f.seq, f.ack = tcpACK, openerSeq+1, answererSeq+1
	f.chunk, f.tag = sctpCookieEcho, answererTag
	if w.reply {
		f.seq, f.ack = answererSeq+1, openerSeq+1
		f.chunk, f.tag = sctpInitAck, openerTag
	}
	if w.related {
		f.inner = frame{
			src: w.Dst, dst: w.Src, proto: policy.ProtocolUDP, sport: relatedPort, dport: relatedPort,
		}.bytes()
	}
	return f
}

// establish opens the flow's connection, and bypasses policy.
func (w *wireFlow) establish(t *testing.T, b *wire) {
	t.Helper()
	through := func(f frame, from, to nfttest.FlowEnd) {
		require.True(t, b.pass(t, f, from, to), "%s: %+v without policy", w.Flow, f)
	}
	if w.related {
		through(
			frame{src: w.Dst, dst: w.Src, proto: policy.ProtocolUDP, sport: relatedPort, dport: relatedPort}, w.to,
			w.from,
		)
		return
	}
	before := w.before()
	there := frame{
		src: w.Src, dst: before.Addr(), sport: w.SrcPort, dport: before.Port(), proto: w.Protocol, code: w.ICMPCode,
		echo: w.SrcPort,
	}
	back := frame{
		src: w.Dst, dst: w.Src, sport: w.DstPort, dport: w.SrcPort, proto: w.Protocol, code: w.ICMPCode,
		echo: w.SrcPort,
	}
	opener, answerer := w.from, w.to
	if w.reply {
		opener, answerer, there, back = answerer, opener, back, there
	}
	there.typ, back.typ = 8, 0
	if w.Src.Is6() {
		there.typ, back.typ = 128, 129
	}
	through(opening(there), opener, answerer)
	if w.reply && w.Protocol != policy.ProtocolTCP {
		return // the answer is the flow itself
	}
	back.flags, back.seq, back.ack = tcpSYN|tcpACK, answererSeq, openerSeq+1
	back.chunk, back.tag = sctpInitAck, openerTag
	through(back, answerer, opener)
	if w.Protocol == policy.ProtocolTCP {
		there.flags, there.seq, there.ack = tcpACK, openerSeq+1, answererSeq+1
		through(there, opener, answerer)
	}
}

// passes sends the packet of frame and reports whether it arrives.
func (w *wireFlow) passes(t *testing.T, b *wire) bool {
	t.Helper()
	return b.pass(t, w.frame(), w.from, w.to)
}

// foreignNAT loads a table of another program that translates the flows.
func foreignNAT(flows []wireFlow) string {
	var rules strings.Builder
	for _, w := range flows {
		if !w.OrigDst.IsValid() {
			continue
		}
		family, goal, match := "ip", w.Dst.String(), fmt.Sprintf("meta l4proto %d", w.Protocol)
		if w.Src.Is6() {
			family = "ip6"
		}
		before := w.before()
		if w.Protocol.HasPorts() {
			name := strings.ToLower(w.Protocol.String())
			match = fmt.Sprintf("%s sport %d %s dport %d", name, w.SrcPort, name, before.Port())
			goal = netip.AddrPortFrom(w.Dst, w.DstPort).String()
		}
		fmt.Fprintf(
			&rules, "%s saddr %s %s daddr %s %s dnat %s to %s\n", family, w.Src, family, before.Addr(), match, family,
			goal,
		)
	}
	text := "table inet services {}\ndelete table inet services\ntable inet services {\n"
	for _, hook := range []string{"prerouting", "output"} {
		text += "chain " + hook + " {\ntype nat hook " + hook + " priority -100\n" + rules.String() + "}\n"
	}
	return text + "}\n"
}
