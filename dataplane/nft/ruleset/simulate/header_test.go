// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"bytes"
	"cmp"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
)

// Rules distinguish each code point from all others in both families. UpTo has the largest values
// for which the result is the same.
func TestDSCP(t *testing.T) {
	pairs := map[ruleset.Field][2]string{
		ruleset.IPDSCP: {"10.0.0.1", "10.0.0.2"}, ruleset.IP6DSCP: {"fd00::1", "fd00::2"},
	}
	for f, pair := range pairs {
		for value := range uint16(64) {
			last := min(value+3, 63)
			x := table(base("b", ruleset.Forward, 0,
				rule(accept, is(f, ruleset.Byte(uint8(value)))),
				rule(drop, ruleset.Compare{
					Field: f, Not: true, Value: ruleset.Byte(uint8(value)), Last: ruleset.Byte(uint8(last)),
				})))
			for dscp := range uint16(64) {
				p := simulate.Packet{Src: netip.MustParseAddr(pair[0]), Dst: netip.MustParseAddr(pair[1]), Protocol: 6}
				p.Header[ruleset.HeaderDSCP] = dscp
				r := trace(t, x, ruleset.Forward, p, simulate.Conn{})
				in := value <= dscp && dscp <= last
				require.Equal(t, in, r.Verdict == ruleset.Accept, "%s %d of %d", f, dscp, value)
				want := uint16(63)
				switch {
				case dscp < value:
					want = value - 1
				case dscp == value:
					want = value
				case in:
					want = last
				}
				require.Equal(t, want, r.UpTo[ruleset.HeaderDSCP], "%s %d of %d", f, dscp, value)
			}
		}
	}
	for _, m := range []ruleset.Match{
		ruleset.In{Fields: []ruleset.Field{ruleset.IPDSCP}, Elements: []ruleset.Element{one(ruleset.Byte(1))}},
		ruleset.Compare{Field: ruleset.IP6DSCP, Value: ruleset.Byte(1)}, // of the other family
	} {
		p := packet4()
		p.Header[ruleset.HeaderDSCP] = 5
		r := trace(t, table(base("b", ruleset.Forward, 0, rule(drop, m))), ruleset.Forward, p, simulate.Conn{})
		require.Equal(t, uint16(5), r.UpTo[ruleset.HeaderDSCP])
	}
	r := trace(t, table(base("b", ruleset.Forward, 0)), ruleset.Forward, packet4(), simulate.Conn{})
	require.Equal(t, uint16(63), r.UpTo[ruleset.HeaderDSCP])
}

// packetOf returns a packet of a family and protocol with a header field.
func packetOf(v6 bool, protocol uint8, h ruleset.HeaderField, value uint16) simulate.Packet {
	p := simulate.Packet{
		Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), Protocol: protocol,
		SrcPort: 0x1234, DstPort: 0x5678,
	}
	if v6 {
		p.Src, p.Dst = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	}
	p.Header[h] = value
	return p
}

// Each header field is a field of one family, or of both with the same values. A field of a
// transport header has a value in packets of its protocol, with or without other fields. It has
// no value in packets of other protocols.
func TestHeaderFields(t *testing.T) {
	for h := range ruleset.HeaderField(ruleset.HeaderFields) {
		require.False(t, h.Field(false) == 0 && h.Field(true) == 0)
		for _, v6 := range []bool{false, true} {
			f := h.Field(v6)
			if f == 0 {
				continue
			}
			require.Equal(t, h.Value(0), make(ruleset.Value, f.Type().Size()))
			require.Equal(t, h.Field(false).Type().Bits(), f.Type().Bits())
			require.False(t, f.Type().HostOrder())
			protocol := cmp.Or(f.Load().Protocol, 17)
			require.True(t, h.In(protocol))
			require.Equal(t, f.Load().Protocol == 0, h.In(253))
			all := bytes.Repeat([]byte{0xff}, f.Type().Size())
			for _, value := range []uint16{0, 1, h.Max() / 2, h.Max()} {
				p := packetOf(v6, protocol, h, value)
				x := table(base("b", ruleset.Forward, 0,
					rule(accept, ruleset.Compare{Field: f, Value: h.Value(value), Mask: all}), rule(drop)))
				if !f.Type().Bits() {
					x = table(base("b", ruleset.Forward, 0, rule(accept, is(f, h.Value(value))), rule(drop)))
				}
				r := trace(t, x, ruleset.Forward, p, simulate.Conn{})
				require.Equal(t, ruleset.Accept, r.Verdict, "%s %d", f, value)
				for _, other := range []uint8{17, 253} {
					if value != 0 && !h.In(other) {
						p.Protocol = other
						r = trace(t, x, ruleset.Forward, p, simulate.Conn{})
						require.Equal(t, ruleset.Drop, r.Verdict, "%s %d", f, value)
					}
				}
			}
		}
	}
}

// UpTo includes no values with another result, also if a rule reads the bytes as another field.
func TestUpTo(t *testing.T) {
	icmp, code := ruleset.HeaderICMPType, ruleset.HeaderICMPCode
	dscp, flags := ruleset.HeaderDSCP, ruleset.HeaderTCPFlags
	part := func(p simulate.Packet) simulate.Packet {
		p.Fragment = 1
		return p
	}
	ofICMP4, ofICMP6 := packetOf(false, 1, icmp, 8), packetOf(true, 58, icmp, 8)
	port := ruleset.Port(1)
	for _, c := range []struct {
		name  string
		match ruleset.Match
		p     simulate.Packet
		h     ruleset.HeaderField
		want  uint16
	}{
		{"itself", is(ruleset.ICMPType, ruleset.Byte(200)), ofICMP4, icmp, 199},
		{"itself, IPv6", is(ruleset.ICMPv6Type, ruleset.Byte(200)), ofICMP6, icmp, 199},
		{"another field", is(ruleset.ICMPType, ruleset.Byte(200)), ofICMP4, code, 255},
		{"of the other family", is(ruleset.ICMPv6Type, ruleset.Byte(200)), ofICMP4, icmp, 8},
		{"as a source port", is(ruleset.Sport, port), ofICMP4, icmp, 8},
		{"as a source port, code", is(ruleset.Sport, port), ofICMP4, code, 0},
		{"as a destination port", is(ruleset.Dport, port), ofICMP4, icmp, 255},
		{"as a port of the connection", is(ruleset.CtOriginalDport, port), ofICMP6, icmp, 8},
		{"a port of TCP", is(ruleset.CtOriginalDport, port), packetOf(true, 6, dscp, 5), dscp, 63},
		{"bits", is(ruleset.TCPFlags, ruleset.Byte(2)), packetOf(false, 6, flags, 1), flags, 1},
		{"in a fragment", is(ruleset.Sport, port), part(packetOf(true, 17, dscp, 5)), dscp, 5},
	} {
		r := trace(t, table(base("b", ruleset.Forward, 0, rule(drop, c.match))), ruleset.Forward, c.p, simulate.Conn{})
		require.Equal(t, ruleset.Accept, r.Verdict, c.name)
		require.Equal(t, c.want, r.UpTo[c.h], c.name)
	}
}
