// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// S176: code points of a list are alternatives, and those of a negated list are all excluded.
// Packets of every protocol have a code point.
func TestDSCP(t *testing.T) {
	const tcp4, tcp6 = "tcp 10.0.0.9 10.0.0.1", "tcp fd00::9 fd00::1"
	runRule(t, "S176 one", policy.Rule{HeaderMatch: ofDSCP(46)},
		tcp4+" dscp=46 = Allow", tcp4+" = Deny", tcp4+" dscp=47 = Deny", tcp6+" dscp=46 = Allow", tcp6+" = Deny")
	runRule(t, "S176 zero is a value", policy.Rule{HeaderMatch: ofDSCP(0)}, tcp4+" = Allow", tcp6+" dscp=1 = Deny")
	runRule(t, "S176 any of a list", policy.Rule{HeaderMatch: ofDSCP(10, 63)},
		tcp4+" dscp=10 = Allow", tcp4+" dscp=63 = Allow", tcp4+" dscp=11 = Deny")
	runRule(t, "S176 none of a list", policy.Rule{HeaderMatch: notDSCP(10, 46)},
		tcp4+" = Allow", tcp4+" dscp=10 = Deny", tcp6+" dscp=46 = Deny", tcp6+" dscp=45 = Allow")
	both := policy.HeaderMatch{DSCP: []policy.DSCP{10, 46}, NotDSCP: []policy.DSCP{10}}
	runRule(t, "S176 in both lists", policy.Rule{HeaderMatch: both},
		tcp4+" dscp=10 = Deny", tcp4+" dscp=46 = Allow")
	runRule(t, "S176 without ports", policy.Rule{HeaderMatch: ofDSCP(46)},
		"icmp 10.0.0.9 10.0.0.1 8/0 dscp=46 = Allow", "icmp 10.0.0.9 10.0.0.1 8/0 = Deny",
		"253 10.0.0.9 10.0.0.1 dscp=46 = Allow", "253 10.0.0.9 10.0.0.1 = Deny")
	runRule(t, "S176 with other fields", policy.Rule{Protocol: policy.ProtocolTCP, HeaderMatch: ofDSCP(46)},
		tcp4+" dscp=46 = Allow", "udp 10.0.0.9 10.0.0.1 dscp=46 = Deny")
}

// An explanation has the code points. A flow with a code point that does not exist is invalid.
func TestDSCPExplained(t *testing.T) {
	w := verdict.World{}
	w.Set(wep("n/web", "10.0.0.1", "app=web"))
	w.Set(ingress("p",
		policy.Rule{Action: policy.Allow, HeaderMatch: ofDSCP(46, 10)},
		policy.Rule{Action: policy.Allow, HeaderMatch: notDSCP(8)}))
	f := verdict.Flow{
		Src: netip.MustParseAddr("10.0.0.9"), Dst: netip.MustParseAddr("10.0.0.1"), Protocol: policy.ProtocolTCP,
		DstPort: 80, Header: policy.Header{DSCP: 8},
	}
	x := verdict.New(w).Explain(f)
	rules := x.Ingress.Tiers[0].Policies[0].Rules
	require.Equal(t, verdict.Mismatch{Field: "dscp", Reason: "the packet has DSCP 8, none of 46, 10"},
		*rules[0].Mismatch)
	require.Equal(t, verdict.Mismatch{Field: "notDSCP", Reason: "the packet has DSCP 8, one of 8"}, *rules[1].Mismatch)
	require.Equal(t, "TCP 10.0.0.9:0 -> 10.0.0.1:80 (DSCP 8)", f.String())
	data, err := json.Marshal(f)
	require.NoError(t, err)
	require.Contains(t, string(data), `"dscp":8`)
	f.DSCP = 64
	require.ErrorContains(t, f.Validate(), "DSCP 64")
}

func ofDSCP(list ...policy.DSCP) policy.HeaderMatch  { return policy.HeaderMatch{DSCP: list} }
func notDSCP(list ...policy.DSCP) policy.HeaderMatch { return policy.HeaderMatch{NotDSCP: list} }
