// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// countingConfigs returns the configurations in which each rule counts or logs.
func countingConfigs() []render.Config {
	log := render.VerdictLog{Enabled: true, Group: 5}
	return []render.Config{
		{LogRate: -1, Counters: true},
		{LogRate: -1, VerdictLog: log},
		{LogRate: -1, Counters: true, VerdictLog: log},
	}
}

// The verdict log names the same rules with lookups and with chains, and neither the log nor
// counters change a verdict. Chains have the rules one after the other, so they are the reference.
func TestVerdictsOfCountedRules(t *testing.T) {
	decided := map[string]int{}
	for _, seed := range worldFlags.Seeds(300, 40) {
		w := nfttest.NewWorld(seed, 31)
		before, state := w.State(), w.State()
		for _, cfg := range countingConfigs() {
			var forms []*simTable
			for _, classes := range nfttest.Forms() {
				cfg.Classes = classes
				table, errs := nfttest.Rendered(t, cfg, nfttest.Transition(state))
				require.Empty(t, errs)
				again, _ := nfttest.Rendered(t, cfg, nfttest.Transition(before), dptest.Transition(before, state))
				require.Equal(t, table.String(), again.String(), "S100: the table depends on earlier states")
				requireOneChainEach(t, table)
				forms = append(forms, newSimTable(t, table))
			}
			for range 40 {
				p, sp := randomPacket(w)
				want := state.Judge(p).Allowed()
				lookups := sp.Run(t, forms[0].after, ruleset.Forward)
				chains := sp.Run(t, forms[1].after, ruleset.Forward)
				require.Equal(t, want, lookups.Allowed, "seed %d\npacket %+v\n%s", seed, p, state)
				require.Equal(t, want, chains.Allowed, "seed %d\npacket %+v\n%s", seed, p, state)
				require.Equal(t, chains.Logs, lookups.Logs, "seed %d\npacket %+v\n%s", seed, p, state)
				for _, line := range lookups.Logs {
					word, _, _ := strings.Cut(line, " ")
					decided[word]++
				}
			}
		}
	}
	require.Greater(t, min(decided["allow"], decided["deny"], decided["wayleave"]), 50, decided)
}

// requireOneChainEach requires that each chain of a rule has one rule with its id, which counts or
// logs. No other rule with this id may count or log.
func requireOneChainEach(t *testing.T, table *ruleset.Table) {
	t.Helper()
	accounts := func(s ruleset.Statement) bool {
		_, counts := s.(ruleset.Counter)
		log, logs := s.(ruleset.Log)
		return counts || logs && log.Group != nil
	}
	ids := map[string]string{} // of rules that decide, by the comment of their rule
	for _, c := range table.Chains {
		word, id, ok := strings.Cut(c.Name, "/")
		if ok && slices.Contains([]string{"allow", "deny", "pass"}, word) {
			require.Len(t, c.Rules, 1)
			require.Equal(t, id, c.Rules[0].Comment)
			require.True(t, accounts(c.Rules[0].Statements[0]))
			ids[id] = c.Name
		}
	}
	for _, c := range table.Chains {
		for _, r := range c.Rules {
			if ids[r.Comment] != "" && ids[r.Comment] != c.Name {
				require.False(t, slices.ContainsFunc(r.Statements, accounts), "%s: %s", c.Name, r)
			}
		}
	}
}

// Rules of several policies are one lookup of the rule that decides, with and without counters.
func TestCountedRulesAreMerged(t *testing.T) {
	var rules []dataplane.Rule
	for i := range uint16(100) {
		rules = append(rules, dataplane.Rule{
			ID: string(rune('a'+i/10)) + string(rune('0'+i%10)), Action: policy.Allow, Protocol: policy.ProtocolTCP,
			Destination: dataplane.Match{Ports: nfttest.PortList(policy.PortNumber(1000 + 2*i))},
		})
	}
	for _, cfg := range countingConfigs() {
		table, errs := nfttest.Rendered(t, cfg, nfttest.Transition(nfttest.RulesState(rules...)))
		require.Empty(t, errs)
		outcomes := 0
		for _, c := range table.Chains {
			if !strings.HasPrefix(c.Name, "outcome-ingress/") {
				continue
			}
			outcomes++
			require.Len(t, c.Rules, 2, "%s: a lookup, and the end of the tier", c.Name)
			lookup := c.Rules[0].Statements[0].(ruleset.VMap)
			require.Len(t, lookup.Elements, len(rules))
			require.Equal(t, build.Goto("allow/a1"), *lookup.Elements[1].Verdict)
		}
		require.Equal(t, 1, outcomes)
	}
}

// The chain of a rule exists as long as the rule, whatever leads to it, and does not change.
func TestChainOfCountedRule(t *testing.T) { nfttest.EachForm(t, testChainOfCountedRule) }

func testChainOfCountedRule(t *testing.T, classes render.ClassesConfig) {
	p := newPlayer(t, render.Config{Counters: true, Classes: classes})
	state := nfttest.RulesState(nfttest.CountedRules()...)
	p.flush(nfttest.Transition(state).Events...)
	find := func(name string) *ruleset.Chain {
		for _, c := range p.kernel.Chains() {
			if c.Name == name {
				return c
			}
		}
		return nil
	}
	web := find("allow/web")
	require.NotNil(t, web)

	// Another policy before it decides about its packets: another outcome.
	other := classPolicy("before")
	tiers := state.Endpoints[nfttest.EndpointKey("web1")].Ingress[0]
	tiers.Policies = []policy.Key{other, tiers.Policies[0]}
	e := *state.Endpoints[nfttest.EndpointKey("web1")]
	e.Ingress = []dataplane.TierPolicies{tiers}
	p.flush(&dataplane.PolicyUpdate{Key: other, Policy: &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
		{ID: "none", Action: policy.Deny},
	}}}, &dataplane.EndpointUpdate{Key: nfttest.EndpointKey("web1"), Endpoint: &e})
	require.Same(t, web, find("allow/web"))
	require.NotNil(t, find("deny/none"))

	// Without the endpoint nothing leads to it.
	p.flush(&dataplane.EndpointRemove{Key: nfttest.EndpointKey("web1")})
	require.Same(t, web, find("allow/web"))

	rules := slices.Clone(nfttest.CountedRules())
	rules[0].Action = policy.Deny
	changed := &dataplane.Policy{Tier: "default", Ingress: rules[:5]}
	p.flush(&dataplane.PolicyUpdate{Key: nfttest.PolicyKey("rules"), Policy: changed})
	require.Nil(t, find("allow/web"))
	require.NotNil(t, find("deny/web"))
	require.NotNil(t, find("allow/dns"))
	p.flush(&dataplane.PolicyUpdate{Key: nfttest.PolicyKey("rules"), Policy: &dataplane.Policy{
		Tier: "default", Ingress: rules[:4],
	}})
	require.NotNil(t, find("allow/dns"), "of one of two rules with the id")
	p.flush(&dataplane.PolicyRemove{Key: nfttest.PolicyKey("rules")}, &dataplane.PolicyRemove{Key: other})
	for _, c := range p.kernel.Chains() {
		require.NotContains(t, c.Name, "allow/")
		require.NotContains(t, c.Name, "deny/")
	}
}

// If an id cannot be part of a chain's name, the name has a hash. The comment and the log have the
// id.
func TestChainOfRuleWithAnyID(t *testing.T) {
	for _, id := range []string{"", "a/b", "ü \"x\"", strings.Repeat("long", 60)} {
		state := nfttest.RulesState(
			dataplane.Rule{ID: id, Action: policy.Allow}, dataplane.Rule{ID: "x", Action: policy.Pass},
		)
		table, errs := nfttest.Rendered(t, countingConfigs()[2], nfttest.Transition(state))
		require.Empty(t, errs)
		require.NoError(t, table.Validate())
		c := chainOf(table, sets.ObjectName("allow", id))
		require.NotNil(t, c)
		require.Equal(t, sets.Comment(id), c.Rules[0].Comment)
		require.Contains(t, c.Name, "allow//")
	}
}

// For a refused chain of a rule, Affected returns its policy and the endpoints whose outcomes lead
// there.
func TestAffectedByRuleChain(t *testing.T) { nfttest.EachForm(t, testAffectedByRuleChain) }

func testAffectedByRuleChain(t *testing.T, classes render.ClassesConfig) {
	r, err := render.New(render.Config{Counters: true, Classes: classes})
	require.NoError(t, err)
	r.Update(nfttest.Transition(tiersState()))
	_, errs := r.Table()
	require.Empty(t, errs)
	require.Contains(t, r.Affected("allow/web-1"), nfttest.PolicyKey("web"))
	require.Contains(t, r.Affected("allow/web-1"), nfttest.EndpointKey("web1"))
	require.NotContains(t, r.Affected("allow/web-1"), nfttest.EndpointKey("web2"))
	guard := policy.Key{Kind: policy.KindPolicy, Name: "guard"}
	require.Contains(t, r.Affected("pass/guard-2"), guard)
	require.Contains(t, r.Affected("pass/guard-2"), nfttest.EndpointKey("web1"))
}

// Chains that repeat policy of another stage neither count nor log, and do not lead to chains that
// do. Untracked policy of translated packets has counters, and looks up the original destination
// port.
func TestRepeatedPolicyIsNotCounted(t *testing.T) {
	nfttest.EachForm(t, testRepeatedPolicyIsNotCounted)
}

func testRepeatedPolicyIsNotCounted(t *testing.T, classes render.ClassesConfig) {
	cfg := countingConfigs()[2]
	cfg.Classes = classes
	table, errs := nfttest.Rendered(t, cfg, withPlainHostRules(classes))
	require.Empty(t, errs)
	rechecks, counts, originals := 0, 0, 0
	for _, c := range table.Chains {
		recheck := strings.HasPrefix(c.Name, "recheck-")
		for _, r := range c.Rules {
			text := r.String()
			leads := strings.Contains(text, "goto allow/") || strings.Contains(text, "goto deny/")
			switch {
			case recheck:
				rechecks++
				require.False(t, leads || strings.Contains(text, "counter") || strings.Contains(text, "log"), text)
			case leads:
				counts++
			}
			if leads && strings.HasPrefix(c.Name, "dnat-raw-") && strings.Contains(text, "plain") {
				originals++
				require.Contains(t, text, "ct original proto-dst")
			}
		}
	}
	require.Greater(t, min(rechecks, counts), 3)
	require.Positive(t, originals)
}

// withPlainHostRules returns the state of host endpoints with rules on destination ports in each
// untracked and pre-DNAT policy.
func withPlainHostRules(classes render.ClassesConfig) dataplane.Batch {
	scenarios := scenarios(classes)
	hosts := scenarios[slices.IndexFunc(scenarios, func(s scenario) bool { return s.Name == "hosts" })]
	batch := hosts.Batches[0]
	batch.Events = slices.Clone(batch.Events)
	for i, e := range batch.Events {
		u, ok := e.(*dataplane.PolicyUpdate)
		if !ok || !u.Policy.Untracked && !u.Policy.PreDNAT {
			continue
		}
		p := *u.Policy
		for port, action := range []policy.Action{policy.Allow, policy.Deny} {
			rule := dataplane.Rule{ID: "plain-" + string(action), Action: action, Protocol: policy.ProtocolTCP}
			rule.Destination.Ports = nfttest.PortList(policy.PortNumber(uint16(port)))
			p.Ingress = append([]dataplane.Rule{rule}, p.Ingress...)
			p.Egress = append([]dataplane.Rule{rule}, p.Egress...)
		}
		batch.Events[i] = &dataplane.PolicyUpdate{Key: u.Key, Policy: &p}
	}
	return batch
}

// Rules on protocol and port that count or log are not equal, so classes with different rules have
// different outcomes. An outcome costs nothing as long as it needs no more memory than the rules.
func TestCostOfCountedRules(t *testing.T) {
	cost := func(cfg render.Config, events ...dataplane.Event) int {
		p := newPlayer(t, cfg)
		p.flush(events...)
		return p.r.ClassStats().Cost
	}
	from := fromIPSet("p", "s:1")
	from.Policy.Ingress[0].Protocol = policy.ProtocolTCP
	for i := range uint16(4) {
		rule := from.Policy.Ingress[0]
		rule.ID += "x"
		rule.Destination.Ports = nfttest.PortList(policy.PortNumber(i))
		from.Policy.Ingress = append([]dataplane.Rule{rule}, from.Policy.Ingress...)
	}
	one := []dataplane.Event{prefixSet("s:1", "10.0.0.1/32"), from, classSubject("way0", "p")}
	equal := nfttest.BitWorld(3, func(int) uint16 { return 1000 })
	require.Equal(t, 1+2, cost(render.Config{}, one...))
	require.Equal(t, 7+7*2, cost(render.Config{}, equal...))
	for _, cfg := range countingConfigs() {
		require.Equal(t, 1+2, cost(cfg, one...))
		require.Equal(t, 7+7*2+3*4+3*(4+32+2)+(4+32+3)-3*4, cost(cfg, equal...))
	}
}

// A rule that allows some protocols matches them, although the other rules decide about all other
// protocols. The rule does not apply to a packet whose protocol cannot be read.
func TestCountedRuleForSomeProtocols(t *testing.T) {
	state, key := nfttest.InSync(), nfttest.PolicyKey("p")
	state.Policies[key] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
		{ID: "x", Action: policy.Allow, NotProtocol: policy.ProtocolTCP},
		{ID: "y", Action: policy.Deny, Protocol: policy.ProtocolTCP},
	}}
	state.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "eth0"}] = &dataplane.HostEndpoint{
		Interface: "eth0", Ingress: []dataplane.TierPolicies{{
			Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key},
		}},
	}
	table, errs := nfttest.Rendered(t, render.Config{Counters: true}, nfttest.Transition(state))
	require.Empty(t, errs)
	require.True(t, strings.Contains(table.String(), "meta l4proto != tcp goto allow/x"), "%s", table)
}

// S21: a rule for all packets decides about one whose port cannot be read, although rules before it
// have all ports. Otherwise, the packet would return without a decision, and a host endpoint for
// all interfaces would pass it.
func TestCountedRuleForUnreadablePorts(t *testing.T) {
	key := nfttest.PolicyKey("p")
	allow := func(id string, ports policy.Port) dataplane.Rule {
		return dataplane.Rule{ID: id, Action: policy.Allow, Protocol: policy.ProtocolTCP, Destination: dataplane.Match{
			Ports: nfttest.PortList(ports),
		}}
	}
	tiers := []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key}}}
	short := simPacket{
		IIF: "eth0", Src: nfttest.Addresses("10.0.1.1")[0], Dst: nfttest.Addresses("10.0.0.1")[0],
		Proto: uint8(policy.ProtocolTCP), Transport: []byte{0}, CT: ruleset.CtInvalid,
	}
	for hook, h := range map[ruleset.HookPoint]dataplane.HostEndpoint{
		ruleset.Input:      {Ingress: tiers},
		ruleset.Forward:    {ForwardIngress: tiers},
		ruleset.Prerouting: {UntrackedIngress: tiers},
	} {
		h.Interface = policy.AllInterfaces
		state := nfttest.InSync()
		state.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "all"}] = &h
		state.Policies[key] = &dataplane.Policy{
			Forward: hook != ruleset.Input, Untracked: hook == ruleset.Prerouting, Ingress: []dataplane.Rule{
				allow("a", policy.PortRange(0, 1000)), allow("b", policy.PortRange(1001, 65535)),
				{ID: "z", Action: policy.Deny},
			},
		}
		for _, cfg := range countingConfigs() {
			cfg.Host.KeepInvalid = true
			for _, cfg.Classes = range nfttest.Forms() {
				table, errs := nfttest.Rendered(t, cfg, nfttest.Transition(state))
				require.Empty(t, errs)
				allowed, logs := judgePacket(t, table, hook, short)
				require.False(t, allowed, "%v\n%s", hook, table)
				if cfg.VerdictLog.Enabled {
					require.Equal(t, []string{"deny z"}, logs)
				}
			}
		}
	}
}
