// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// guarded is a node whose outer interface has a host endpoint with every kind of policy.
func guarded(t *testing.T) *verdict.Evaluator {
	t.Helper()
	noted := tcpTo(policy.Deny, 30081)
	noted.Metadata = &policy.RuleMetadata{Annotations: map[string]string{"why": "inside only"}}
	w := worldOf(onNode(
		hep("node1-eth0", "eth0", "host=", "none"), hep("node1-all", "*", "all="),
		profile("none", "", tcpTo(policy.Deny, 1)), onHost("raw", bothWays(noTrack), tcpTo(policy.Deny, 7)),
		onHost("ports", beforeDNAT, noted),
		onHost("through", onForward, tcpTo(policy.Allow, 8055), tcpTo(policy.Allow, 80)),
		in("", 5, onHost("soon", stagedForward, deny())),
		&policy.Policy{Name: "out", Selector: "has(all)", ApplyOnForward: true, Egress: []policy.Rule{allow()}},
		ingress("n/web", tcpTo(policy.Allow, 8055)),
	)...)
	e := verdict.New(w)
	require.Empty(t, e.Rejected())
	return e
}

func TestExplainHostText(t *testing.T) {
	e := guarded(t)
	golden(t, "node-port.txt", e.Explain(flowOf(t, nodePort)).String())
	golden(t, "node-port-denied.txt",
		e.Explain(flowOf(t, "tcp 198.51.100.9 10.0.0.1:8055 @node1 in=eth0 was=192.0.2.1:30081")).String())
	golden(t, "node-ssh.txt", e.Explain(flowOf(t, "tcp 198.51.100.9 192.0.2.1:22 @node1 in=eth0")).String())
	golden(t, "node-to-host.txt", e.Explain(flowOf(t, podToHost)).String())
	golden(t, "node-from-host.txt", e.Explain(flowOf(t, hostToPod)).String())
	golden(t, "node-encapsulated.txt", e.Explain(flowOf(t, "udp 10.0.0.1 198.51.100.9:4789 @node1 out=eth0")).String())
	golden(t, "node-spoofed.txt",
		e.Explain(flowOf(t, "tcp 10.0.0.2 198.51.100.9:80 @node1 in=cali1 out=eth0 Established")).String())
	golden(t, "node-invalid.txt", e.Explain(flowOf(t, toPod+" Invalid")).String())
	golden(t, "node-nobody.txt", e.Explain(flowOf(t, "tcp 127.0.0.1 127.0.0.1:80 @node1")).String())
	golden(t, "node-unknown.txt", e.Explain(flowOf(t, "icmp 198.51.100.9 10.0.0.1 8/0 @node1 was=192.0.2.1")).String())
}

func TestExplainHostJSON(t *testing.T) {
	x := guarded(t).Explain(flowOf(t, nodePort))
	data, err := json.MarshalIndent(x, "", "  ")
	require.NoError(t, err)
	golden(t, "node-port.json", string(data)+"\n")
	var back verdict.Explanation
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, x, &back)
}

// A packet that untracked policy allows and NAT translates cannot exist. Staged policies do not
// change that.
func TestStagedUntracked(t *testing.T) {
	h, first := hep("h", "eth0", "host="), in("", -1, staged(onHost("s", noTrack, deny())))
	for _, c := range []struct {
		name   string
		world  []policy.Resource
		now    verdict.Outcome
		would  verdict.Outcome
		policy string
	}{
		{"staged for others", onNode(h, onHost("u", noTrack, allow()),
			elsewhere(staged(onHost("s", noTrack, deny())))), verdict.Deny, "", ""},
		{"staged for later", onNode(h, in("", 1, onHost("u", noTrack, allow())),
			in("", 9, staged(onHost("s", noTrack, deny())))), verdict.Deny, verdict.Deny, "Policy/u"},
		{
			"staged before", onNode(h, onHost("u", noTrack, allow()), first), verdict.Deny, verdict.Deny,
			"StagedPolicy/s",
		},
		{
			"only staged", onNode(h, staged(onHost("s", noTrack, allow()))), verdict.NotApplicable, verdict.Deny,
			"StagedPolicy/s",
		},
	} {
		x := verdict.Explain(worldOf(c.world...), flowOf(t, nodePort))
		require.Equal(t, c.now, x.Stages[0].Outcome, "%s\n%s", c.name, x)
		require.Equal(t, c.would, x.Stages[0].IfStagedEnforced, "%s\n%s", c.name, x)
		if c.policy != "" {
			require.Equal(t, c.policy, x.Stages[0].IfStagedDecision.Policy.String(), c.name)
		}
	}
}

// The stages of a packet, in order, and the decision of each.
func TestStages(t *testing.T) {
	e := guarded(t)
	for _, c := range []struct {
		flow string
		want []string
	}{
		{nodePort, []string{
			"Untracked Ingress EndOfTiers", "PreDNAT Ingress EndOfTiers", "Forward Ingress Rule", "Forward Egress Rule",
			"Workload Ingress Rule",
		}},
		{inHost, []string{"Untracked Ingress EndOfTiers", "PreDNAT Ingress EndOfTiers", "Host Ingress Rule"}},
		{outHost, []string{"Untracked Egress EndOfTiers", "Host Egress EndOfProfiles"}},
		{fromPod, []string{"Workload Egress Rule", "Forward Egress NoPolicy"}},
		{podToPod, []string{"Workload Egress Rule", "Forward Egress Rule", "Workload Ingress Rule"}},
		{podToHost, []string{"Workload Egress Rule", "EndpointToHost Ingress Setting"}},
		{hostToPod, []string{"HostToEndpoint Ingress Setting"}},
		{toPod + " Established", []string{
			"Untracked Ingress EndOfTiers", "Forward Ingress Established", "Forward Egress Established",
			"Workload Ingress Established",
		}},
		{"tcp 198.51.100.9 192.0.2.1:22 @node1 in=eth0", []string{
			"Untracked Ingress Failsafe", "PreDNAT Ingress Failsafe", "Host Ingress Failsafe",
		}},
		{"tcp 192.0.2.1 192.0.2.1 @node1", nil},
	} {
		x := e.Explain(flowOf(t, c.flow))
		var got []string
		for _, d := range x.Stages {
			got = append(got, string(d.Stage)+" "+string(d.Type)+" "+string(d.Decision.By))
		}
		require.Equal(t, c.want, got, "%s\n%s", c.flow, x)
	}
	// The summary has the decision without its steps.
	x := e.Explain(flowOf(t, "tcp 198.51.100.9 10.0.0.1:8055 @node1 in=eth0 was=192.0.2.1:30081"))
	require.Equal(t, verdict.StagePreDNAT, x.Ingress.Stage)
	require.Equal(t, "ports", x.Ingress.Decision.Policy.Name)
	require.Equal(t, map[string]string{"why": "inside only"}, x.Ingress.Decision.Annotations)
	require.Empty(t, x.Ingress.Tiers)
	require.Equal(t, verdict.Allow, x.Result.Egress)
	require.Len(t, x.Stages, 5, "stages after a denial are evaluated")
}
