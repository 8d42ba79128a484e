// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// ofClass is a state in which way2 receives TCP with code point 46, UDP with 10 and 12, and pings
// with any except 0. The workload way3 sends only code point 46.
func ofClass() dptest.State {
	s := shop()
	in, out := policy.Key{Kind: policy.KindPolicy, Name: "in"}, policy.Key{Kind: policy.KindPolicy, Name: "out"}
	s.Policies[in] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
		{ID: "voice", Action: policy.Allow, Protocol: policy.ProtocolTCP, HeaderMatch: ofDSCP(46)},
		{
			ID: "data", Action: policy.Allow, Protocol: policy.ProtocolUDP,
			HeaderMatch: policy.HeaderMatch{DSCP: []policy.DSCP{10, 11, 12}, NotDSCP: []policy.DSCP{11}},
		},
		{ID: "ping4", Action: policy.Allow, Protocol: policy.ProtocolICMP, HeaderMatch: notDSCP(0)},
		{ID: "ping6", Action: policy.Allow, Protocol: policy.ProtocolICMPv6, HeaderMatch: notDSCP(0)},
	}}
	s.Policies[out] = &dataplane.Policy{Tier: "default", Egress: []dataplane.Rule{
		{ID: "voice", Action: policy.Allow, HeaderMatch: ofDSCP(46)},
	}}
	tier := func(key policy.Key) []dataplane.TierPolicies {
		return []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key}}}
	}
	s = edit(s, "way2", func(e *dataplane.Endpoint) { e.Ingress = tier(in) })
	return edit(s, "way3", func(e *dataplane.Endpoint) { e.Egress = tier(out) })
}

// S176: packets of sockets with a code point get the verdict of rules on code points: TCP, UDP and
// ICMP, over both families.
func TestDSCPOfSockets(t *testing.T) { nfttest.EachForm(t, testDSCPOfSockets) }

func testDSCPOfSockets(t *testing.T, classes render.ClassesConfig) {
	n := newNetwork(t)
	d := open(t, n.node, render.Config{Classes: classes})
	at := dptest.NewState()
	sent, allowed := 0, 0
	for _, step := range []struct {
		name string
		to   dptest.State
	}{{"no policy", shop()}, {"by code point", ofClass()}} {
		require.NoError(t, d.Apply(t.Context(), dptest.Transition(at, step.to)), step.name)
		at = step.to
		var probes []*probe
		for _, dscp := range []policy.DSCP{0, 10, 11, 12, 46, 63} {
			for _, p := range n.probes() {
				if p.port == 81 || p.to == 2 {
					continue
				}
				p.dscp = dscp
				probes = append(probes, p)
				sent++
				if at.Judge(p.packet()).Allowed() {
					allowed++
				}
			}
		}
		n.requireVerdicts(t, at, step.name, probes)
	}
	t.Logf("2 changes, %d first packets, %d of them allowed", sent, allowed)
	require.Greater(t, min(allowed, sent-allowed), 30)
}

func ofDSCP(list ...policy.DSCP) policy.HeaderMatch  { return policy.HeaderMatch{DSCP: list} }
func notDSCP(list ...policy.DSCP) policy.HeaderMatch { return policy.HeaderMatch{NotDSCP: list} }
