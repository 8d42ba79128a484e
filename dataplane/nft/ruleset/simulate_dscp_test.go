// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Rules tell each code point from all others in both families, and the result has the ones that
// they compare with.
func TestSimulateDSCP(t *testing.T) {
	pairs := map[ruleset.Field][2]string{
		ruleset.IPDSCP: {"10.0.0.1", "10.0.0.2"}, ruleset.IP6DSCP: {"fd00::1", "fd00::2"},
	}
	for f, pair := range pairs {
		for value := range uint8(64) {
			span := ruleset.Compare{
				Field: f, Not: true, Value: ruleset.Byte(value), Last: ruleset.Byte(min(value+3, 63)),
			}
			x := table(base("b", ruleset.Forward, 0,
				rule(accept, is(f, ruleset.Byte(value))),
				rule(drop, span)))
			for dscp := range uint8(64) {
				p := ruleset.Packet{
					Src: netip.MustParseAddr(pair[0]), Dst: netip.MustParseAddr(pair[1]), Protocol: 6, DSCP: dscp,
				}
				r := simulate(t, x, ruleset.Forward, p, ruleset.Conn{})
				in := value <= dscp && dscp <= value+3
				require.Equal(t, in, r.Verdict == ruleset.Accept, "%s %d of %d", f, dscp, value)
				want := uint64(1) << value
				if dscp != value {
					for n := value; n <= min(value+3, 63); n++ {
						want |= 1 << n
					}
				}
				require.Equal(t, want, r.DSCPs, "%s %d of %d", f, dscp, value)
			}
		}
	}
	lookup := ruleset.In{Fields: []ruleset.Field{ruleset.IPDSCP}, Elements: []ruleset.Element{one(ruleset.Byte(1))}}
	r := simulate(
		t, table(base("b", ruleset.Forward, 0, rule(drop, lookup))), ruleset.Forward, packet4(), ruleset.Conn{},
	)
	require.Equal(t, ^uint64(0), r.DSCPs)
	r = simulate(t, table(base("b", ruleset.Forward, 0)), ruleset.Forward, packet4(), ruleset.Conn{})
	require.Zero(t, r.DSCPs)
}
