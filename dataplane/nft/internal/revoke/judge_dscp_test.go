// SPDX-License-Identifier: Apache-2.0

package revoke_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/revoke"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// S176: the code point of a connection's first packet is unknown. If the verdict depends on the
// code point, Judge returns Unknown. Otherwise it returns the verdict for all code points.
func TestJudgeOfDSCP(t *testing.T) { nfttest.EachForm(t, testJudgeOfDSCP) }

func testJudgeOfDSCP(t *testing.T, classes render.ClassesConfig) {
	voice := []policy.DSCP{46}
	low, high := make([]policy.DSCP, 0, 32), make([]policy.DSCP, 0, 32)
	for n := range policy.DSCP(32) {
		low, high = append(low, n), append(high, n+32)
	}
	allow, deny := policy.Allow, policy.Deny
	for _, c := range []struct {
		name  string
		rules []dataplane.Rule
		want  conntrack.Verdict
	}{
		{"one is allowed", []dataplane.Rule{{Action: allow, HeaderMatch: ofDSCP(voice...)}}, conntrack.Unknown},
		{
			"all but one are allowed",
			[]dataplane.Rule{{Action: allow, HeaderMatch: notDSCP(voice...)}},
			conntrack.Unknown,
		},
		{
			"one is denied",
			[]dataplane.Rule{{Action: deny, HeaderMatch: ofDSCP(voice...)}, {Action: allow}},
			conntrack.Unknown,
		},
		{
			"zero is denied",
			[]dataplane.Rule{{Action: deny, HeaderMatch: ofDSCP(0)}, {Action: allow}},
			conntrack.Unknown,
		},
		{
			"one is allowed, and the others",
			[]dataplane.Rule{{Action: allow, HeaderMatch: ofDSCP(voice...)}, {Action: allow}},
			conntrack.Allowed,
		},
		{
			"each is in one of the rules",
			[]dataplane.Rule{
				{Action: allow, HeaderMatch: ofDSCP(low...)},
				{Action: allow, HeaderMatch: ofDSCP(high...)},
			},
			conntrack.Allowed,
		},
		{
			"each but one is",
			[]dataplane.Rule{
				{Action: allow, HeaderMatch: ofDSCP(low...)},
				{Action: allow, HeaderMatch: ofDSCP(high[1:]...)},
			},
			conntrack.Unknown,
		},
		{
			"another protocol",
			[]dataplane.Rule{{Action: allow, Protocol: policy.ProtocolUDP, HeaderMatch: ofDSCP(voice...)}},
			conntrack.Denied,
		},
		{
			"denied before",
			[]dataplane.Rule{{Action: deny}, {Action: allow, HeaderMatch: ofDSCP(voice...)}},
			conntrack.Denied,
		},
		{
			"contradiction",
			[]dataplane.Rule{{Action: allow, HeaderMatch: policy.HeaderMatch{DSCP: voice, NotDSCP: voice}}},
			conntrack.Denied,
		},
		{
			"one is logged",
			[]dataplane.Rule{{Action: policy.Log, HeaderMatch: ofDSCP(voice...)}, {Action: allow}},
			conntrack.Allowed,
		},
	} {
		key := nfttest.ObjectKey(policy.KindPolicy, "of-class")
		for i := range c.rules {
			c.rules[i].ID = string(rune('a' + i))
		}
		w := judgeAfter(t, render.Config{Classes: classes, LogRate: -1}, append(basics(),
			&dataplane.PolicyUpdate{Key: key, Policy: &dataplane.Policy{Tier: "default", Ingress: c.rules}},
			nfttest.EndpointUpdate("of-class", "way5", []policy.Key{key}, nil, "10.0.0.5", "fd00::5"))...)
		require.Equal(t, c.want, w.Judge(newFlow(protocolTCP, "10.0.0.3:4000", "10.0.0.5:80", "")), c.name)
		require.Equal(
			t, c.want, w.Judge(newFlow(protocolTCP, "[fd00::3]:4000", "[fd00::5]:80", "")), "%s: IPv6", c.name,
		)
	}
}

// The verdict is Unknown also if a limit follows a match on the code point.
func TestJudgeOfDSCPAndLimit(t *testing.T) {
	voice := ruleset.Compare{Field: ruleset.IPDSCP, Value: ruleset.Byte(46)}
	w := judgeAfter(t, render.Config{}, basics()...)
	table := w.State().Table()
	table.Chains = append(table.Chains, base("more", ruleset.Forward, 5,
		ruleset.Rule{
			Matches:    []ruleset.Match{match.OfFamily(sets.IPv4), voice},
			Statements: []ruleset.Statement{ruleset.Limit{Rate: 1, Burst: 1}, build.Drop()},
		}))
	table.Normalize()
	require.NoError(t, w.Apply(&revoke.Change{Table: table}))
	require.Equal(t, conntrack.Unknown, w.Judge(newFlow(protocolTCP, "10.0.0.3:4000", "10.0.0.1:80", "")))
	require.Equal(t, conntrack.Allowed, w.Judge(newFlow(protocolTCP, "[fd00::3]:4000", "[fd00::1]:80", "")))
}

func ofDSCP(list ...policy.DSCP) policy.HeaderMatch  { return policy.HeaderMatch{DSCP: list} }
func notDSCP(list ...policy.DSCP) policy.HeaderMatch { return policy.HeaderMatch{NotDSCP: list} }
