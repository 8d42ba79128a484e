// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"encoding/json"
	"net/netip"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// nodeAddr returns an address of the node that random flows pass through.
func (g gen) nodeAddr(like netip.Addr) netip.Addr {
	if like.Is4() {
		return netip.MustParseAddr("192.0.2.1")
	}
	return netip.MustParseAddr("fd00:ff::1")
}

// forHosts makes a global policy one of the kinds for host endpoints, possibly with a service.
func (g gen) forHosts(p *policy.Policy) {
	if len(p.Egress) > 0 && g.chance(20) {
		p.Egress[0].Destination = policy.EntityRule{Services: &policy.ServiceMatch{Name: "web", Namespace: "n"}}
	}
	switch g.IntN(5) {
	case 0:
		p.ApplyOnForward = true
	case 1:
		p.ApplyOnForward, p.DoNotTrack = true, true
	case 2:
		p.ApplyOnForward, p.PreDNAT = true, true
		p.Types, p.Egress = []policy.Type{policy.Ingress}, nil
	}
}

// hosts adds a node with host endpoints, and services.
func (g gen) hosts(w verdict.World) {
	w.Set(&policy.Node{Name: "node", Addresses: []netip.Prefix{
		netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("fd00:ff::1/64"),
	}})
	for i, iface := range []string{"eth0", "eth1", "*", "*", ""} {
		if !g.chance(50) {
			continue
		}
		h := &policy.HostEndpoint{
			Name: pick(g, "h", "i") + strconv.Itoa(i), Node: pick(g, "node", "node", "node", "other"),
			InterfaceName: iface, Labels: g.labels("", "pcsa."),
			Profiles: pick(g, nil, []string{"p1"}, []string{"p2", "p1"}, []string{"p3"}),
		}
		if iface == "" || g.chance(50) {
			h.ExpectedIPs = []netip.Addr{netip.MustParseAddr(pick(g, "192.0.2.1", "192.0.2.9", "fd00:ff::1"))}
		}
		w.Set(h)
	}
	for i := range g.IntN(3) {
		w.Set(&policy.ServiceBackends{
			Namespace: "n", Name: "s" + strconv.Itoa(i), Service: "web", Addresses: []netip.Addr{g.addr()},
			Ports: pick(g, nil, []policy.ServicePort{{Protocol: policy.ProtocolTCP, Port: 80}}),
		})
	}
}

func (g gen) config() verdict.Config {
	cfg := verdict.Config{Host: policy.HostConfig{
		EndpointToHostAction: pick(g, "", policy.HostAccept, policy.HostReturn), KeepInvalid: g.chance(30),
		HostToEndpointAction: pick(g, "", policy.HostDrop, policy.HostReturn),
		FailsafeInbound:      pick(g, nil, []policy.Failsafe{{Protocol: policy.ProtocolTCP, Port: 80}}),
		FailsafeOutbound: pick(g, nil, []policy.Failsafe{
			{Protocol: policy.ProtocolTCP, Port: 81, Net: netip.MustParsePrefix("10.0.0.0/24")},
		}),
	}}
	cfg.Interfaces = map[string]map[string][]netip.Addr{"node": {
		"eth0": {netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fd00:ff::1")},
	}}
	if g.chance(80) {
		cfg.Interfaces["node"]["eth1"] = []netip.Addr{netip.MustParseAddr("192.0.2.9")}
	}
	return cfg
}

// atNode makes a flow pass through the node.
func (g gen) atNode(f *verdict.Flow) {
	f.Node = "node"
	f.State = pick(g, "", "", "", verdict.StateNew, verdict.StateEstablished, verdict.StateRelated,
		verdict.StateInvalid)
	if f.State == verdict.StateRelated && g.chance(50) {
		f.ConnSrc, f.ConnDst = f.Dst, g.nodeAddr(f.Src)
	}
	switch g.IntN(4) {
	case 0:
		f.Src = g.nodeAddr(f.Src)
	case 1:
		f.InInterface = "cali" + strconv.Itoa(g.IntN(10))
	case 2:
		f.InInterface = pick(g, "eth0", "eth1", "eth2")
	}
	switch g.IntN(4) {
	case 0:
		f.Dst = g.nodeAddr(f.Dst)
	case 1, 2:
		f.OutInterface = pick(g, "eth0", "eth1", "eth2")
	}
	if g.chance(25) {
		f.OrigDst, f.OrigDstPort = g.nodeAddr(f.Dst), pick[uint16](g, 0, 80, 81)
	}
}

// checkStages checks properties that every explanation of a flow through a node has.
func checkStages(t *testing.T, x *verdict.Explanation, seed uint64) {
	t.Helper()
	require.NotEmpty(t, x.String())
	data, err := json.Marshal(x)
	require.NoError(t, err)
	var back verdict.Explanation
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, x, &back, "seed %d", seed)
	if x.Egress.Decision.By == verdict.ByInvalidFlow {
		require.Equal(t, verdict.Deny, x.Result.Combined)
		return
	}
	want := map[policy.Type]verdict.Outcome{policy.Egress: verdict.NotApplicable, policy.Ingress: verdict.NotApplicable}
	untracked := false
	for i, d := range x.Stages {
		if d.Outcome == verdict.Deny || d.Outcome == verdict.Allow && want[d.Type] != verdict.Deny {
			want[d.Type] = d.Outcome
		}
		by := d.Decision.By
		if x.Flow.State == verdict.StateEstablished && d.Outcome == verdict.Deny && !untracked { // S116, S118
			require.True(t, d.Stage == verdict.StageUntracked || by == verdict.ByFalseSource ||
				by == verdict.ByAdminState, "seed %d\n%s", seed, x)
		}
		if d.Outcome == verdict.Allow && d.Stage == verdict.StageUntracked {
			untracked = true
		}
		// S122
		if d.Outcome == verdict.Allow && (d.Stage == verdict.StageUntracked || d.Stage == verdict.StagePreDNAT) {
			for _, later := range x.Stages[i+1:] {
				same := later.Endpoint == d.Endpoint && later.Type == d.Type
				require.False(t, same && later.Stage != verdict.StageUntracked, "seed %d\n%s", seed, x)
			}
		}
		if d.Stage == verdict.StageUntracked || d.Stage == verdict.StagePreDNAT { // S36
			require.NotEqual(t, verdict.ByEndOfTier, by, "seed %d\n%s", seed, x)
		}
		if d.Stage != verdict.StageHost && d.Stage != verdict.StageWorkload { // S37
			require.Empty(t, d.Profiles, "seed %d\n%s", seed, x)
		}
	}
	require.Equal(t, want[policy.Egress], x.Result.Egress, "seed %d\n%s", seed, x)
	require.Equal(t, want[policy.Ingress], x.Result.Ingress, "seed %d\n%s", seed, x)
	require.Equal(t, x.Result.Egress, x.Egress.Outcome)
	require.Equal(t, x.Result.Ingress, x.Ingress.Outcome)
}
