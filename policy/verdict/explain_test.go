// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// blocked is a small cluster with all kinds of objects, in which be may not reach web.
func blocked(t *testing.T) verdict.World {
	t.Helper()
	noted := allowTo(policy.ProtocolTCP, policy.EntityRule{
		Ports: []policy.Port{policy.PortName("http"), policy.PortRange(8000, 8010)},
	})
	noted.Source = policy.EntityRule{Selector: `role == "fe"`}
	noted.Metadata = &policy.RuleMetadata{Annotations: map[string]string{"why": "the shop", "by": "ops"}}
	return worldOf(
		profile("kns.shop", "pcns.env=prod", policy.Rule{Action: policy.Deny, Protocol: policy.ProtocolUDP}, allow()),
		profile("kns.lab", "pcns.env=test"),
		withPorts(t, wep("shop/web", "10.0.0.1", "app=web", "kns.shop"), "http/tcp/80"),
		wep("shop/be", "10.0.0.2", "role=be", "kns.shop"), wep("lab/x", "10.0.0.3", "role=fe", "kns.lab"),
		set("bad", "10.9.0.0/16", "reputation=bad"),
		tierOf("security", 1, policy.Pass),
		in("security", 1, ingress("no-bad",
			log(),
			policy.Rule{Action: policy.Deny, Source: policy.EntityRule{Selector: `reputation == "bad"`}},
			policy.Rule{Action: policy.Deny, Source: policy.EntityRule{Nets: netsOf("192.0.2.0/24 198.51.100.0/24")}},
			policy.Rule{Action: policy.Deny, IPVersion: 6})),
		in("", 1, ingress("shop/web", noted,
			allowFrom(policy.EntityRule{NamespaceSelector: `env == "lab"`}))),
		in("", 2, staged(ingress("shop/soon", allowFrom(policy.EntityRule{Selector: `role == "be"`})))),
	)
}

func TestExplainText(t *testing.T) {
	e := verdict.New(blocked(t))
	require.Empty(t, e.Rejected())
	golden(t, "blocked.txt", e.Explain(flowOf(t, "tcp 10.0.0.2 10.0.0.1:80")).String())
	golden(t, "blocked-outside.txt", e.Explain(flowOf(t, "icmp 192.0.2.1 10.0.0.1 8/0")).String())
	golden(t, "blocked-profile.txt", e.Explain(flowOf(t, "udp 10.0.0.1 10.0.0.3:53")).String())
}

// The text has the origins of the rules that have one, beside the rules and in the decisions.
func TestExplainTextWithOrigins(t *testing.T) {
	x := verdict.Explain(blocked(t), flowOf(t, "tcp 10.0.0.2 10.0.0.1:80"))
	require.Equal(t, x.String(), x.Text(verdict.Origins{Rule: func(string) string { return "" }}))
	decided := x.Ingress.IfStagedDecision.RuleID
	first := x.Ingress.Tiers[1].Policies[0].Rules[0].ID
	text := x.Text(verdict.Origins{Rule: func(id string) string {
		return map[string]string{decided: "soon.yaml:7: ingress[0]", first: "web.yaml:9: ingress[0].from[1]"}[id]
	}})
	require.Contains(t, text, `rule 1 Allow [by="ops" why="the shop"] (web.yaml:9: ingress[0].from[1]): no: `)
	require.Contains(t, text, "rule 1 Allow (soon.yaml:7: ingress[0]): matches\n")
	require.Contains(t, text, "of StagedPolicy/shop/soon in tier default, soon.yaml:7: ingress[0]\n")
	require.Contains(t, text, "rule 2 Allow: no: ")
}

// A policy without rules has its own origin in the text. A policy with rules has only those of its
// rules.
func TestExplainTextWithOriginsOfPolicies(t *testing.T) {
	w := blocked(t)
	w.Set(in("", 3, ingress("shop/default-deny")))
	x := verdict.Explain(w, flowOf(t, "tcp 10.0.0.2 10.0.0.1:80"))
	text := x.Text(verdict.Origins{Policy: func(key policy.Key) string { return key.Name + ".yaml:1" }})
	require.Contains(t, text, "    Policy/shop/default-deny: nothing matches (default-deny.yaml:1)\n")
	require.Contains(t, text, "    Policy/shop/web: nothing matches\n")
	require.Contains(t, x.String(), "    Policy/shop/default-deny: nothing matches\n")
}

func TestExplainJSON(t *testing.T) {
	x := verdict.Explain(blocked(t), flowOf(t, "tcp 10.0.0.2 10.0.0.1:80"))
	data, err := json.MarshalIndent(x, "", "  ")
	require.NoError(t, err)
	golden(t, "blocked.json", string(data)+"\n")
	var back verdict.Explanation
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, x, &back)
}

// A decision has the ID of the rule, and its annotations.
func TestExplainDecision(t *testing.T) {
	w := blocked(t)
	w.Set(wep("shop/fe", "10.0.0.4", "role=fe", "kns.shop"))
	x := verdict.Explain(w, flowOf(t, "tcp 10.0.0.4 10.0.0.1:80"))
	p := w[policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "web"}].(*policy.Policy)
	require.Equal(t, verdict.Decision{
		By: verdict.ByRule, Tier: "default", Policy: p.Key(),
		RuleID:      policy.RuleIDs(p.Key(), policy.Ingress, p.Ingress)[0],
		Annotations: map[string]string{"why": "the shop", "by": "ops"},
	}, x.Ingress.Decision)
	require.Equal(t, "kns.shop", x.Egress.Decision.Profile)
	require.Equal(t, verdict.Allow, x.Result.Combined)
}

// A mismatch has the path of the field, for every field.
func TestExplainMismatch(t *testing.T) {
	sel := func(s string) policy.EntityRule { return policy.EntityRule{Selector: s} }
	for _, c := range []struct {
		field string
		rule  policy.Rule
	}{
		{"ipVersion", policy.Rule{IPVersion: 6}},
		{"protocol", policy.Rule{Protocol: 17}},
		{"notProtocol", policy.Rule{NotProtocol: 6}},
		{"source.nets", policy.Rule{Source: policy.EntityRule{Nets: netsOf("1.1.1.1/32")}}},
		{"source.notNets", policy.Rule{Source: policy.EntityRule{NotNets: netsOf("10.0.0.0/8")}}},
		{"source.selector", policy.Rule{Source: sel("has(x)")}},
		{"source.notSelector", policy.Rule{Source: policy.EntityRule{NotSelector: "!has(x)"}}},
		{"source.notSelector", policy.Rule{Source: policy.EntityRule{Selector: "all()", NotSelector: "!has(x)"}}},
		{"source.namespaceSelector", policy.Rule{Source: policy.EntityRule{NamespaceSelector: "global()"}}},
		{"source.serviceAccounts.names", policy.Rule{
			Source: policy.EntityRule{ServiceAccounts: &policy.ServiceAccounts{Names: []string{"x"}}},
		}},
		{"source.serviceAccounts.selector", policy.Rule{
			Source: policy.EntityRule{ServiceAccounts: &policy.ServiceAccounts{Selector: "has(x)"}},
		}},
		{"destination.ports", allowTo(6, policy.EntityRule{Ports: []policy.Port{policy.PortNumber(81)}})},
		{"destination.notPorts", allowTo(6, policy.EntityRule{NotPorts: []policy.Port{policy.PortNumber(80)}})},
	} {
		c.rule.Action = policy.Allow
		w := worldOf(wep("n/web", "10.0.0.1", "app=web"), wep("m/peer", "10.0.0.9", ""), ingress("p", c.rule))
		x := verdict.Explain(w, flowOf(t, in80))
		require.Equal(t, c.field, x.Ingress.Tiers[0].Policies[0].Rules[0].Mismatch.Field)
		require.NotEmpty(t, x.Ingress.Tiers[0].Policies[0].Rules[0].Mismatch.Reason)
	}
	// The limit to the policy's own namespace and an address without an object also have a
	// mismatch.
	w := worldOf(wep("n/web", "10.0.0.1", "app=web"), wep("m/peer", "10.0.0.9", ""),
		ingress("n/p", allowFrom(sel("all()"))))
	require.Equal(t, &verdict.Mismatch{
		Field: "source.namespace", Reason: `10.0.0.9 is WorkloadEndpoint/m/peer, where namespace == "n" is false`,
	}, verdict.Explain(w, flowOf(t, in80)).Ingress.Tiers[0].Policies[0].Rules[0].Mismatch)
	require.Equal(t, &verdict.Mismatch{
		Field: "source.selector", Reason: `9.9.9.9 belongs to no endpoint and no network set`,
	}, verdict.Explain(w, flowOf(t, "tcp 9.9.9.9 10.0.0.1")).Ingress.Tiers[0].Policies[0].Rules[0].Mismatch)
}

func TestStagedExplained(t *testing.T) { // S20
	web := wep("n/web", "10.0.0.1", "app=web")
	for _, c := range []struct {
		name        string
		world       []policy.Resource
		now, wouldB verdict.Outcome
	}{
		{
			"beside",
			[]policy.Resource{web, in("", 1, staged(ingress("new", deny()))), in("", 2, ingress("old", allow()))},
			verdict.Allow, verdict.Deny,
		},
		{
			"too late",
			[]policy.Resource{web, in("", 3, staged(ingress("new", deny()))), in("", 2, ingress("old", allow()))},
			verdict.Allow, verdict.Allow,
		},
		{
			"instead of its namesake",
			[]policy.Resource{web, in("", 1, ingress("p", allow())), in("", 2, staged(ingress("p", deny())))},
			verdict.Allow, verdict.Deny,
		},
		{"end of tier", []policy.Resource{web, staged(ingress("p"))}, verdict.Deny, verdict.Deny},
		{"none", []policy.Resource{web, ingress("p", allow())}, verdict.Allow, ""},
		{"its namesake is for the endpoint no more", []policy.Resource{web, ingress("p",
			allow()), elsewhere(staged(ingress("p", deny())))}, verdict.Allow, verdict.Deny},
		{
			"for another endpoint",
			[]policy.Resource{web, ingress("p", allow()), elsewhere(staged(ingress("q", deny())))},
			verdict.Allow, "",
		},
		{
			"for the other direction",
			[]policy.Resource{web, ingress("p", allow()), staged(egress("q", deny()))},
			verdict.Allow, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := verdict.Explain(worldOf(c.world...), flowOf(t, in80))
			require.Equal(t, c.now, x.Ingress.Outcome, "%s", x)
			require.Equal(t, c.wouldB, x.Ingress.IfStagedEnforced, "%s", x)
			require.Equal(t, c.wouldB == "", x.Ingress.IfStagedDecision.By == "", "%s", x)
		})
	}
}

func elsewhere(p *policy.Policy) *policy.Policy {
	p.Selector = "has(elsewhere)"
	return p
}

// IfStagedDecision is set also if the enforced policy decides before the staged one is evaluated.
func TestStagedDecision(t *testing.T) {
	for _, order := range []float64{1, 5} {
		noted := deny()
		noted.Metadata = &policy.RuleMetadata{Annotations: map[string]string{"why": "soon"}}
		next := in("", order, staged(ingress("p", noted)))
		x := verdict.Explain(worldOf(wep("n/web", "10.0.0.1", "app=web"), in("", 1, ingress("p", allow())), next),
			flowOf(t, in80))
		require.Equal(t, "Policy/p", x.Ingress.Decision.Policy.String())
		require.Equal(t, verdict.Decision{
			By: verdict.ByRule, Tier: "default", Policy: next.Key(),
			RuleID:      policy.RuleIDs(next.Key(), policy.Ingress, next.Ingress)[0],
			Annotations: map[string]string{"why": "soon"},
		}, x.Ingress.IfStagedDecision)
		require.Contains(t, x.String(), "if the staged policies were enforced: Deny: "+
			x.Ingress.IfStagedDecision.String())
		data, err := json.Marshal(x)
		require.NoError(t, err)
		require.Contains(t, string(data),
			`"ifStagedDecision":{"by":"Rule","tier":"default","policy":{"kind":"StagedPolicy","name":"p"}`)
	}
}

// The endpoint of a side is the one with the smallest key that has the address, or the one in the
// flow.
func TestEndpointsOfFlow(t *testing.T) {
	w := worldOf(wep("n/b", "10.0.0.1", "app=web"), wep("n/a", "10.0.0.1", "app=db"), ingress("p", allow()),
		&policy.Policy{Name: "q", Selector: `app == "db"`})
	f := flowOf(t, in80)
	require.Equal(t, "a", verdict.Explain(w, f).Ingress.Endpoint.Name)
	require.Equal(t, verdict.Deny, verdict.Evaluate(w, f).Ingress)
	f.DstEndpoint = wep("n/b", "", "").Key()
	require.Equal(t, verdict.Allow, verdict.Evaluate(w, f).Ingress)
	f.DstEndpoint.Name = "gone"
	require.Equal(t, verdict.NotApplicable, verdict.Evaluate(w, f).Combined)
	f = verdict.Flow{Src: f.Dst, Dst: f.Src, Protocol: policy.ProtocolTCP, SrcEndpoint: wep("n/b", "", "").Key()}
	require.Equal(t, "b", verdict.Explain(w, f).Egress.Endpoint.Name)
}

func TestInvalidFlow(t *testing.T) {
	w := blocked(t)
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	const tcp = policy.ProtocolTCP
	for _, c := range []struct {
		flow verdict.Flow
		why  string
	}{
		{verdict.Flow{}, "no source address"},
		{verdict.Flow{Dst: v4, Protocol: tcp}, "no source address"},
		{verdict.Flow{Src: v4, Protocol: tcp}, "no destination address"},
		{verdict.Flow{Src: v4, Dst: v6, Protocol: tcp}, "addresses of two families"},
		{verdict.Flow{Src: v4, Dst: v4, SrcPort: 1, DstPort: 80}, "no protocol"},
		{verdict.Flow{Src: v4, Dst: v4, Node: "n"}, "no protocol"},
	} {
		f := c.flow
		require.ErrorContains(t, f.Validate(), c.why)
		require.Contains(t, verdict.Explain(w, f).Ingress.Decision.Detail, c.why)
		require.Equal(t, verdict.Result{Egress: verdict.Deny, Ingress: verdict.Deny, Combined: verdict.Deny},
			verdict.Evaluate(w, f))
		require.Equal(t, verdict.ByInvalidFlow, verdict.Explain(w, f).Egress.Decision.By)
		require.NotEmpty(t, verdict.Explain(w, f).String())
	}
	require.NoError(t, verdict.Flow{Src: v4, Dst: v4, Protocol: tcp}.Validate())
}

func TestWorldApply(t *testing.T) {
	w := verdict.World{}
	p := ingress("p", allow())
	w.Apply(policy.Update{Key: p.Key(), Resource: p})
	require.Equal(t, verdict.World{p.Key(): p}, w)
	w.Apply(policy.Update{Key: p.Key()}, policy.Update{Key: policy.Key{Kind: policy.KindTier, Name: "x"}})
	require.Empty(t, w)
	w[p.Key()] = nil // the same as absent
	require.Empty(t, verdict.New(w).Rejected())
	require.Equal(t, verdict.Result{
		Egress: verdict.NotApplicable, Ingress: verdict.NotApplicable, Combined: verdict.NotApplicable,
	},
		verdict.Evaluate(nil, flowOf(t, in80)))
}
