// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

const in80 = "tcp 10.0.0.9 10.0.0.1:80"

func TestSelection(t *testing.T) {
	web := wep("n/web", "10.0.0.1", "app=web")
	selects := func(selector string) *policy.Policy {
		p := ingress("p", allow())
		p.Selector = selector
		return p
	}
	run(t, []scenario{
		{"S1 empty selector", []policy.Resource{web, selects("")}, []string{in80 + " = Allow"}},
		{"S1 white space", []policy.Resource{web, selects(" \t")}, []string{in80 + " = Allow"}},
		{"S2 global", []policy.Resource{web, selects("global()")}, []string{in80 + " = Allow"}},
		{"S3 != without the label", []policy.Resource{web, selects(`x != "y"`)}, []string{in80 + " = Allow"}},
		{"S3 not in without the label", []policy.Resource{web, selects(`x not in {"y"}`)}, []string{in80 + " = Allow"}},
		{"S3 == without the label", []policy.Resource{web, selects(`x == "y"`)}, []string{in80 + " = Deny"}},
		{"S4 in nothing", []policy.Resource{web, selects(`app in {}`)}, []string{in80 + " = Deny"}},
		{"S4 not in nothing", []policy.Resource{web, selects(`app not in {}`)}, []string{in80 + " = Allow"}},
		{"namespaced policy selects in its namespace alone", []policy.Resource{
			web, ingress("n/p", allow()), ingress("m/q", deny()),
		}, []string{in80 + " = Allow"}},
		{
			"namespaced policy of another namespace",
			[]policy.Resource{web, ingress("m/p", allow())},
			[]string{in80 + " = Deny"},
		},
		{"S12 types default to egress", []policy.Resource{
			wep("n/web", "10.0.0.1", "app=web", "open"), profile("open", "", allow()),
			&policy.Policy{Name: "p", Egress: []policy.Rule{deny()}},
		}, []string{in80 + " = Allow", "tcp 10.0.0.1 10.0.0.9:80 = Deny"}},
		{"S12 types default to ingress", []policy.Resource{
			wep("n/web", "10.0.0.1", "app=web", "open"), profile("open", "", allow()), &policy.Policy{Name: "p"},
		}, []string{in80 + " = Deny", "tcp 10.0.0.1 10.0.0.9:80 = Allow"}},
		{"S12 types without regard to case", []policy.Resource{
			wep("n/web", "10.0.0.1", "app=web", "open"), profile("open", "", allow()),
			&policy.Policy{Name: "p", Types: []policy.Type{"egress"}},
		}, []string{in80 + " = Allow", "tcp 10.0.0.1 10.0.0.9:80 = Deny"}},
	})
}

func TestPolicySelectsByNamespaceAndAccount(t *testing.T) {
	by := func(namespaceSelector, accountSelector string) *policy.Policy {
		p := ingress("p", allow())
		p.Selector, p.NamespaceSelector, p.ServiceAccountSelector = "", namespaceSelector, accountSelector
		return p
	}
	objects := []policy.Resource{
		profile("kns.prod", "pcns.env=prod"), profile("ksa.prod.bot", "pcsa.role=bot"),
		wep("prod/a", "10.0.0.1", "", "kns.prod", "ksa.prod.bot"),
		wep("test/b", "10.0.0.2", ""),
		wep("host", "10.0.0.3", ""),
	}
	for _, c := range []struct{ namespaces, accounts, a, b, host string }{
		{`env == "prod"`, "", "Allow", "Deny", "Deny"},
		{`env != "prod"`, "", "Deny", "Allow", "Allow"},
		{`all()`, "", "Allow", "Allow", "Deny"},
		{`global()`, "", "Deny", "Deny", "Allow"},
		{`!all() || has(env)`, "", "Allow", "Deny", "Allow"},
		{`all() && !has(env)`, "", "Deny", "Allow", "Deny"},
		{"", `role == "bot"`, "Allow", "Deny", "Deny"},
		{`all() && env != "prod"`, "", "Deny", "Allow", "Deny"},
		{"", `all()`, "Allow", "Allow", "Allow"},
		{"", `role != "bot"`, "Deny", "Allow", "Allow"},
		{`global()`, `role == "bot"`, "Deny", "Deny", "Deny"},
		{`pcns.env == "prod"`, "", "Deny", "Deny", "Deny"},
	} {
		run(t, []scenario{{
			c.namespaces + " / " + c.accounts, append(objects[:5:5], by(c.namespaces, c.accounts)),
			[]string{in80 + " = " + c.a, "tcp 10.0.0.9 10.0.0.2:80 = " + c.b, "tcp 10.0.0.9 10.0.0.3:80 = " + c.host},
		}})
	}
}

func TestOrder(t *testing.T) {
	web := wep("n/web", "10.0.0.1", "app=web")
	without := func(p *policy.Policy) *policy.Policy { p.Order = nil; return p }
	run(t, []scenario{
		{"S5 no order is last", []policy.Resource{
			web, without(ingress("a", deny())), in("", 1e9, ingress("b", allow())),
		}, []string{in80 + " = Allow"}},
		{"S6 ties by name", []policy.Resource{
			web, in("", 10, ingress("pol-2", deny())), in("", 10, ingress("pol-1", allow())),
		}, []string{in80 + " = Allow"}},
		{"S6 ties by name, then namespace", []policy.Resource{
			web, in("", 10, ingress("n/pol", deny())), in("", 10, ingress("pol", allow())),
		}, []string{in80 + " = Allow"}},
		{"S7 order beats name", []policy.Resource{
			web, in("", 30, ingress("pol-1", deny())), in("", 10, ingress("pol-3", allow())),
		}, []string{in80 + " = Allow"}},
		{"S8 negative and fractional orders", []policy.Resource{
			web, in("", 0.25, ingress("a", deny())), in("", -0.5, ingress("b", allow())),
		}, []string{in80 + " = Allow"}},
		{"S9 tiers by order, then name", []policy.Resource{
			web, tierOf("z", 1, policy.Deny), tierOf("a", 2, policy.Deny), tierOf("b", 2, policy.Deny),
			in("z", 9, ingress("1", pass())), in("b", 1, ingress("2", deny())), in("a", 8, ingress("3", allow())),
		}, []string{in80 + " = Allow"}},
		{"S9 a tier without order is last", []policy.Resource{
			web, &policy.Tier{Name: "a"}, tierOf("b", 2e9, policy.Deny),
			in("a", 1, ingress("1", deny())), in("b", 1, ingress("2", allow())),
		}, []string{in80 + " = Allow"}},
		{"S10 tiers without a resource come last, by name", []policy.Resource{
			web, &policy.Tier{Name: "z"},
			in("a", 1, ingress("1", allow())), in("b", 1, ingress("2", deny())), in("z", 1, ingress("3", pass())),
		}, []string{in80 + " = Allow"}},
		{"the built-in tiers exist without a resource", []policy.Resource{
			wep("n/web", "10.0.0.1", "app=web", "open"), profile("open", "", allow()),
			in(policy.KubeBaselineTier, 1, ingress("1", deny())), in("a", 1, ingress("2", deny())),
			in(policy.DefaultTier, 1, ingress("3", pass())), in(policy.KubeAdminTier, 1, ingress("4")),
		}, []string{in80 + " = Deny"}},
	})

	t.Run("S11 a deleted tier goes to the end and denies", func(t *testing.T) {
		w := worldOf(wep("n/web", "10.0.0.1", "app=web", "open"), profile("open", "", allow()),
			tierOf("a", 1, policy.Pass), tierOf("b", 2, policy.Pass),
			in("a", 1, ingress("1")), in("b", 1, ingress("2")))
		x := verdict.Explain(w, flowOf(t, in80))
		require.Equal(t, verdict.Allow, x.Ingress.Outcome)
		delete(w, tierOf("a", 1, policy.Pass).Key())
		x = verdict.Explain(w, flowOf(t, in80))
		require.Equal(t, verdict.Decision{By: verdict.ByEndOfTier, Tier: "a"}, x.Ingress.Decision)
		require.Len(t, x.Ingress.Tiers, 2)
		require.True(t, x.Ingress.Tiers[1].Missing)
	})
}

// S101: an invalid tier is absent, and a built-in one keeps its settings.
func TestInvalidTiers(t *testing.T) {
	for _, c := range []struct {
		tier    *policy.Tier
		missing bool
	}{
		{tierOf("a", math.NaN(), policy.Pass), true},
		{tierOf(policy.DefaultTier, 1_000_000, policy.Pass), false},
	} {
		e := verdict.New(worldOf(wep("n/web", "10.0.0.1", "app=web", "open"), profile("open", "", allow()), c.tier,
			in(c.tier.Name, 1, ingress("p"))))
		require.Contains(t, e.Rejected(), c.tier.Key())
		x := e.Explain(flowOf(t, in80))
		require.Equal(t, verdict.Decision{By: verdict.ByEndOfTier, Tier: c.tier.Name}, x.Ingress.Decision, "%s", x)
		require.Equal(t, verdict.Deny, e.Evaluate(flowOf(t, in80)).Ingress)
		require.Equal(t, c.missing, x.Ingress.Tiers[0].Missing)
	}
}

// A verdict does not depend on earlier states of the world.
func TestPolicyChanges(t *testing.T) {
	w := worldOf(wep("n/web", "10.0.0.1", "app=web"), tierOf("first", 1, policy.Deny),
		in("first", 1, ingress("p", allow())))
	explain := func() *verdict.Direction { return verdict.Explain(w, flowOf(t, in80)).Ingress }
	w.Set(in("", 1, ingress("p", deny()))) // S16: a policy is in one tier at a time
	require.Len(t, explain().Tiers, 1)
	require.Equal(t, "default", explain().Decision.Tier)

	q := in("", 5, ingress("q", allow()))
	q.Selector = "has(later)"
	w.Set(q)
	require.Equal(t, verdict.Deny, explain().Outcome)
	q = policy.Clone(q).(*policy.Policy)
	*q.Order = -5
	w.Set(q)
	w.Set(wep("n/web", "10.0.0.1", "app=web later=")) // S17: the new order applies
	require.Equal(t, verdict.Allow, explain().Outcome)
	delete(w, q.Key()) // S18
	require.Equal(t, verdict.Deny, explain().Outcome)

	p := in("", 1, ingress("p", allow()))
	p.PerformanceHints = []policy.PerformanceHint{policy.AssumeNeededOnEveryNode} // S19: it has no effect on verdicts
	p.Selector = "has(none)"
	w.Set(p)
	require.Equal(t, verdict.ByEndOfProfiles, explain().Decision.By)
}

func TestTiers(t *testing.T) {
	web := wep("n/web", "10.0.0.1", "app=web")
	open := wep("n/web", "10.0.0.1", "app=web", "open")
	first, second := tierOf("first", 1, policy.Deny), tierOf("second", 2, policy.Deny)
	const out = "tcp 10.0.0.1 10.0.0.9:80"
	run(t, []scenario{
		{"S13 S15 ingress policy does not apply to egress", []policy.Resource{
			open, profile("open", "", allow()), ingress("p"),
		}, []string{in80 + " = Deny", out + " = Allow"}},
		{"S14 a tier that selects others", []policy.Resource{
			open, profile("open", "", allow()), first,
			in("first", 1, &policy.Policy{Name: "p", Selector: `app == "db"`}),
		}, []string{in80 + " = Allow"}},
		{"S20 staged policies decide nothing", []policy.Resource{
			open, profile("open", "", allow()), first, in("first", 1, staged(ingress("p", deny()))),
		}, []string{in80 + " = Allow"}},
		{"S21 first rule, first policy", []policy.Resource{
			web, in("", 1, ingress("a", allow(), deny())), in("", 2, ingress("b", deny())),
		}, []string{in80 + " = Allow"}},
		{"S22 allow is final", []policy.Resource{
			web, first, second, in("first", 1, ingress("a", allow())), in("second", 1, ingress("b", deny())),
		}, []string{in80 + " = Allow"}},
		{"S23 deny is final", []policy.Resource{
			web, first, second, in("first", 1, ingress("a", deny())), in("second", 1, ingress("b", allow())),
		}, []string{in80 + " = Deny"}},
		{"S24 pass leaves policy and tier", []policy.Resource{
			web, first, second, in("first", 1, ingress("a", pass(), deny())), in("first", 2, ingress("b", deny())),
			in("second", 1, ingress("c", allow())),
		}, []string{in80 + " = Allow"}},
		{
			"S25 pass to profiles",
			[]policy.Resource{open, profile("open", "", allow()), ingress("p", pass())},
			[]string{in80 + " = Allow"},
		},
		{"S25 pass to nowhere", []policy.Resource{web, ingress("p", pass())}, []string{in80 + " = Deny"}},
		{"S26 end of tier denies", []policy.Resource{
			open, profile("open", "", allow()), first,
			in("first", 1, ingress("p", allowFrom(policy.EntityRule{Nets: netsOf("1.1.1.1/32")}))),
		}, []string{in80 + " = Deny", "tcp 1.1.1.1 10.0.0.1:80 = Allow"}},
		{"S26 end of tier passes", []policy.Resource{
			open, profile("open", "", allow()), tierOf("first", 1, policy.Pass), in("first", 1, ingress("p")),
		}, []string{in80 + " = Allow"}},
		{
			"S27 no rules at all",
			[]policy.Resource{open, profile("open", "", allow()), ingress("p")},
			[]string{in80 + " = Deny"},
		},
		{"S28 log continues", []policy.Resource{web, ingress("p", log(), allow())}, []string{in80 + " = Allow"}},
		{"S28 log alone is no verdict", []policy.Resource{web, ingress("p", log())}, []string{in80 + " = Deny"}},
		{
			"S30 profiles where no tier applies",
			[]policy.Resource{open, profile("open", "", allow())},
			[]string{in80 + " = Allow", out + " = Allow"},
		},
		{"S31 profiles in order", []policy.Resource{
			wep("n/web", "10.0.0.1", "", "none", "shut", "open"), profile("none", "", log()),
			profile("shut", "", deny()), profile("open", "", allow()),
		}, []string{in80 + " = Deny"}},
		{
			"S31 end of profiles",
			[]policy.Resource{wep("n/web", "10.0.0.1", "", "none"), profile("none", "")},
			[]string{in80 + " = Deny"},
		},
		{"S32 pass in a profile denies", []policy.Resource{
			wep("n/web", "10.0.0.1", "", "pass", "open"), profile("pass", "", pass()), profile("open", "", allow()),
		}, []string{in80 + " = Deny"}},
		{"S33 nothing", []policy.Resource{web}, []string{in80 + " = Deny", out + " = Deny"}},
		{"S34 a missing profile denies, also what a later one allows", []policy.Resource{
			wep("n/web", "10.0.0.1", "", "gone", "open"), profile("open", "", allow()),
		}, []string{in80 + " = Deny", out + " = Deny"}},
		{"S34 what an earlier profile allows does not get there", []policy.Resource{
			wep("n/web", "10.0.0.1", "", "open", "gone"), profile("open", "", allow()),
		}, []string{in80 + " = Allow"}},
		{"S34 the built-in profile", []policy.Resource{
			wep("n/web", "10.0.0.1", "", policy.DefaultAllowProfile),
		}, []string{in80 + " = Allow", out + " = Allow"}},
		{"S34 a resource replaces the built-in profile", []policy.Resource{
			wep("n/web", "10.0.0.1", "", policy.DefaultAllowProfile), profile(policy.DefaultAllowProfile, ""),
		}, []string{in80 + " = Deny", out + " = Deny"}},
		{"S34 an invalid resource with the name of the built-in profile denies", []policy.Resource{
			wep("n/web", "10.0.0.1", "", policy.DefaultAllowProfile),
			profile(policy.DefaultAllowProfile, "", policy.Rule{}),
		}, []string{in80 + " = Deny", out + " = Deny"}},
		{"no endpoint, no verdict", []policy.Resource{web}, []string{"tcp 10.0.0.8 10.0.0.9:80 = NotApplicable"}},
		{"S142 both sides must allow", []policy.Resource{
			web, wep("n/db", "10.0.0.2", ""), ingress("i", allow()),
			&policy.Policy{Name: "e", Selector: "!has(app)", Types: []policy.Type{policy.Egress}},
		}, []string{"tcp 10.0.0.2 10.0.0.1:80 = Deny", in80 + " = Allow"}},
	})
}

func TestAdminDown(t *testing.T) { // S35
	web := wep("n/web", "10.0.0.1", "app=web")
	web.AdminState = policy.AdminDown
	r := verdict.Evaluate(worldOf(web, ingress("p", allow()), egress("q", allow())), flowOf(t, in80))
	require.Equal(t, verdict.Result{Egress: verdict.NotApplicable, Ingress: verdict.Deny, Combined: verdict.Deny}, r)
}

// S101: an invalid resource is absent, and reported.
func TestInvalidResourceIsAbsent(t *testing.T) {
	t.Run("scope of a policy, S167", func(t *testing.T) {
		p := ingress("p", allow())
		p.Selector = "a =="
		e := verdict.New(worldOf(wep("n/web", "10.0.0.1", "app=web"), p))
		require.Contains(t, e.Rejected(), p.Key())
		require.Empty(t, e.Doubts())
		x := e.Explain(flowOf(t, in80))
		require.Equal(t, verdict.Decision{By: verdict.ByEndOfProfiles}, x.Ingress.Decision)
	})
	t.Run("key of another object", func(t *testing.T) {
		w := worldOf(wep("n/web", "10.0.0.1", "app=web"))
		key := policy.Key{Kind: policy.KindPolicy, Name: "q"}
		w[key] = ingress("p", allow())
		e := verdict.New(w)
		require.Contains(t, e.Rejected(), key)
		require.Equal(t, verdict.Deny, e.Evaluate(flowOf(t, in80)).Ingress)
	})
	t.Run("a profile that is invalid denies like one that is missing", func(t *testing.T) {
		w := worldOf(wep("n/web", "10.0.0.1", "", "open"), profile("open", "", allow(), policy.Rule{}))
		require.Equal(t, verdict.ByMissingProfile, verdict.Explain(w, flowOf(t, in80)).Ingress.Decision.By)
	})
}
