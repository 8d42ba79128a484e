// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
)

// Rules distinguish each code point from all others in both families, and the result has the values
// up to which it is the same.
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
				p.Header[ruleset.DSCP] = dscp
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
				require.Equal(t, want, r.UpTo[ruleset.DSCP], "%s %d of %d", f, dscp, value)
			}
		}
	}
	for _, m := range []ruleset.Match{
		ruleset.In{Fields: []ruleset.Field{ruleset.IPDSCP}, Elements: []ruleset.Element{one(ruleset.Byte(1))}},
		ruleset.Compare{Field: ruleset.IP6DSCP, Value: ruleset.Byte(1)}, // of the other family
	} {
		p := packet4()
		p.Header[ruleset.DSCP] = 5
		r := trace(t, table(base("b", ruleset.Forward, 0, rule(drop, m))), ruleset.Forward, p, simulate.Conn{})
		require.Equal(t, uint16(5), r.UpTo[ruleset.DSCP])
	}
	r := trace(t, table(base("b", ruleset.Forward, 0)), ruleset.Forward, packet4(), simulate.Conn{})
	require.Equal(t, uint16(63), r.UpTo[ruleset.DSCP])
}

// Each header field has a field of each family, of one type, and packets have its value there.
func TestHeaderFields(t *testing.T) {
	for h := range ruleset.HeaderField(ruleset.HeaderFields) {
		v4, v6 := h.Field(false), h.Field(true)
		require.NotZero(t, v4.Type())
		require.Equal(t, v4.Type(), v6.Type())
		for f, pair := range map[ruleset.Field][2]string{v4: {"10.0.0.1", "10.0.0.2"}, v6: {"fd00::1", "fd00::2"}} {
			for _, value := range []uint16{0, 1, h.Max() / 2, h.Max()} {
				p := simulate.Packet{Src: netip.MustParseAddr(pair[0]), Dst: netip.MustParseAddr(pair[1]), Protocol: 6}
				p.Header[h] = value
				x := table(base("b", ruleset.Forward, 0, rule(accept, is(f, h.Value(value))), rule(drop)))
				r := trace(t, x, ruleset.Forward, p, simulate.Conn{})
				require.Equal(t, ruleset.Accept, r.Verdict, "%s %d", f, value)
			}
		}
	}
}
