// SPDX-License-Identifier: Apache-2.0

package simulate

import "github.com/wayleave/wayleave/dataplane/nft/ruleset"

// Bits of a connection's status that exclude further translation: the connection is confirmed, or
// its translation at some hooks is decided.
const (
	statusConfirmed       uint32 = 1 << 3
	statusSourceDone      uint32 = 1 << 7
	statusDestinationDone uint32 = 1 << 8
)

// ctState returns the state of the packet's connection. Before connection tracking, it is
// CtInvalid.
func (r *run) ctState() uint32 {
	switch {
	case r.Conn.State == ruleset.CtUntracked && (r.tracked || r.notrack):
		return ruleset.CtUntracked
	case !r.tracked:
		return ruleset.CtInvalid
	case r.Conn.State == 0:
		return ruleset.CtNew
	default:
		return r.Conn.State
	}
}

// connected reports whether the packet has a connection.
func (r *run) connected() bool {
	return r.tracked && r.Conn.State != ruleset.CtInvalid && r.Conn.State != ruleset.CtUntracked
}

// original returns the tuple of the connection's first packet.
func (r *run) original() Tuple {
	t := r.Conn.Original
	if t.Src.IsValid() {
		return t
	}
	if r.Conn.Reply {
		return r.turned(r.arrived)
	}
	return r.arrived
}

// answer returns the tuple of packets in the direction of replies.
func (r *run) answer() Tuple {
	if r.Conn.Answer.Src.IsValid() {
		return r.Conn.Answer
	}
	return r.turned(r.original())
}

// turned returns the tuple of the opposite direction. For ICMP, it replaces the type instead of
// swapping ports.
func (r *run) turned(t Tuple) Tuple {
	t.Src, t.Dst = t.Dst, t.Src
	if p := r.Packet.Protocol; p == protoICMP || p == protoICMPv6 {
		t.DstPort = t.DstPort&0xff | uint16(opposite(uint8(t.DstPort>>8)))<<8
	} else {
		t.SrcPort, t.DstPort = t.DstPort, t.SrcPort
	}
	return t
}

// opposite returns the ICMP type of the answers to a type.
func opposite(typ uint8) uint8 {
	switch typ {
	case 8, 0:
		return 8 - typ
	case 13, 15, 17, 128, 139:
		return typ + 1
	case 14, 16, 18, 129, 140:
		return typ - 1
	default:
		return typ
	}
}

// translates reports whether a chain of type nat sees the packet. It does if the packet begins a
// connection, and the connection's translation at this hook is not decided yet.
func (r *run) translates() bool {
	state := r.ctState()
	begins := state == ruleset.CtNew || state == ruleset.CtRelated
	return begins && r.connected() && r.Conn.Status&r.translationBit() == 0
}

// translationBit returns the bit of the status that is set once translation at the hook is decided.
func (r *run) translationBit() uint32 {
	if r.point == ruleset.Postrouting || r.point == ruleset.Input {
		return statusSourceDone
	}
	return statusDestinationDone
}

// nat translates the packet, unless the kernel would choose the new address or port.
func (r *run) nat(op *operation) (v verdict, goesOn bool) {
	n := op.nat
	t := Translation{NAT: *n}
	switch {
	case n.Map != "":
		data, _, ok := r.lookup(op)
		if !ok {
			return v, false
		}
		size := len(data) &^ 3 // of the address; a port of two bytes may follow
		t.Addr, t.Port = addrOf(data[:size]), numberOf(data[size:])
	default:
		t.Addr = addrOf(n.Addr)
		if n.PortLast == 0 || n.PortLast == n.Port {
			t.Port = n.Port
		}
	}
	r.Translations = append(r.Translations, t)
	if r.Conn.Status&statusConfirmed == 0 { // once the connection is confirmed, it is too late
		r.translate(t)
	}
	return verdict{kind: ruleset.Accept}, true
}

// translate changes the packet, and the tuple of its replies. An address or port that stays the
// same does not count as translated, unless the kernel chooses it.
func (r *run) translate(t Translation) {
	before, answer := r.Packet, r.answer()
	r.Conn.Original = r.original()
	addr, port := &r.Packet.Dst, &r.Packet.DstPort
	back, backPort := &answer.Src, &answer.SrcPort
	translated := ruleset.CtDNAT
	if t.NAT.Kind == ruleset.SNAT || t.NAT.Kind == ruleset.Masquerade {
		translated = ruleset.CtSNAT
		addr, port = &r.Packet.Src, &r.Packet.SrcPort
		back, backPort = &answer.Dst, &answer.DstPort
	}
	if t.Addr.IsValid() {
		*addr, *back = t.Addr, t.Addr
	}
	if t.Port != 0 {
		*port, *backPort = t.Port, t.Port
	}
	open := !t.Addr.IsValid() && t.Port == 0
	same := before.Src == r.Packet.Src && before.Dst == r.Packet.Dst && before.SrcPort == r.Packet.SrcPort &&
		before.DstPort == r.Packet.DstPort
	if open || !same {
		r.Conn.Status |= translated
	}
	r.Conn.Status |= r.translationBit()
	r.Conn.Answer = answer
	r.header.rewrite(&r.Packet)
}
