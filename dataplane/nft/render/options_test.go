// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// comments returns the comments of the rules of a chain.
func comments(t *testing.T, table *ruleset.Table, chain string) (out []string) {
	t.Helper()
	for _, c := range table.Chains {
		if c.Name == chain {
			for _, r := range c.Rules {
				out = append(out, r.Comment)
			}
		}
	}
	return out
}

// TestMerge: neighbours with one action that differ in one list are merged into one rule, unless
// each rule counts or logs.
func TestMerge(t *testing.T) {
	s := nfttest.RulesState(mergeableRules()...)
	chains := nfttest.Chains()
	table, errs := nfttest.Rendered(t, render.Config{Classes: chains}, nfttest.Transition(s))
	require.Empty(t, errs)
	require.Equal(
		t, []string{"a80 a81 a82", "d1 d2", "n1 n2", "n1 n2", "n3", "any", "l1", "l2", "last"},
		comments(t, table, "pol-ingress/shop/rules"),
	)
	for _, cfg := range []render.Config{{Counters: true, Classes: chains}, {
		VerdictLog: render.VerdictLog{Enabled: true}, Classes: chains,
	}} {
		table, errs = nfttest.Rendered(t, cfg, nfttest.Transition(s))
		require.Empty(t, errs)
		require.Equal(
			t, []string{"a80", "a81", "a82", "d1", "d2", "n1", "n2", "n2", "n3", "any", "l1", "l2", "last"},
			comments(t, table, "pol-ingress/shop/rules"),
		)
	}
}

// dropsMiddle is the rule for TCP packets in the middle of a connection that is not tracked.
const dropsMiddle = "\t\tct state == new tcp flags & (fin|syn|rst|ack) != (syn) " +
	`drop comment "TCP in the middle of a connection"`

// TestOptions compares the tables of one policy with options of logging, counting and rejecting,
// with lookups and with chains.
func TestOptions(t *testing.T) { nfttest.EachForm(t, testOptions) }

func testOptions(t *testing.T, classes render.ClassesConfig) {
	s := nfttest.RulesState(
		dataplane.Rule{ID: "log", Action: policy.Log},
		dataplane.Rule{ID: "yes", Action: policy.Allow, Protocol: policy.ProtocolTCP},
		dataplane.Rule{ID: "no", Action: policy.Deny, Protocol: policy.ProtocolUDP},
	)
	for _, c := range []struct {
		name                  string
		cfg                   render.Config
		both, chains, classes []string // the text of both, and the additional text of one
	}{
		{
			"plain",
			render.Config{},
			[]string{
				`limit rate 10/second burst 50 packets log prefix "wayleave log: " comment "log"`,
				`goto denied comment "end of tier default"`,
			},
			[]string{
				`tcp meta priority set bfff:fffc return comment "yes"`,
				`udp goto denied comment "no"`,
			},
			[]string{"tcp meta priority set bfff:fffc return\n\t\tgoto denied comment \"end of tier default\""},
		},
		{
			"another rate",
			render.Config{LogRate: 1, LogPrefix: "x"},
			[]string{`limit rate 1/second burst 5 packets log prefix "x log: "`},
			nil, nil,
		},
		{
			"any rate",
			render.Config{LogRate: -1},
			[]string{"log prefix \"wayleave log: \" comment \"log\""},
			nil, nil,
		},
		{
			"counters",
			render.Config{Counters: true},
			[]string{
				"chain deny/no {\n\t\tcounter meta priority set ffff:fffc return comment \"no\"",
				`counter limit rate`,
				`counter goto denied comment "end of tier`,
				`counter goto denied comment "no tier or profile allowed it"`,
				"chain allow/yes {\n\t\tcounter meta priority set bfff:fffc return comment \"yes\"",
			},
			[]string{`tcp goto allow/yes comment "yes"`, `udp goto deny/no comment "no"`},
			[]string{`meta l4proto vmap { tcp : goto allow/yes, udp : goto deny/no }`},
		},
		{
			"verdicts",
			render.Config{VerdictLog: render.VerdictLog{Enabled: true, Group: 7}},
			[]string{
				`log prefix "deny no" group 7 meta priority set ffff:fffc return comment "no"`,
				`log prefix "deny end of tier default" group 7 goto denied`,
				`log prefix "deny no such endpoint" group 7 drop`,
				`log prefix "allow yes" group 7 meta priority set bfff:fffc return comment "yes"`,
			},
			[]string{`tcp goto allow/yes comment "yes"`, `udp goto deny/no comment "no"`},
			[]string{`meta l4proto vmap { tcp : goto allow/yes, udp : goto deny/no }`},
		},
		{
			"reject",
			render.Config{Reject: true},
			[]string{
				`reject with icmpx`, `goto refused comment "no such endpoint"`, `goto denied comment "end`,
				"chain rejected {\n\t\tmeta priority ffff:fffd drop\n\t\tmeta priority set none\n" +
					"\t\tmeta l4proto tcp reject",
			},
			[]string{`goto denied comment "no"`},
			nil,
		},
		{"TCP from the beginning", render.Config{TCPFromSYN: true}, []string{
			"\tchain workload-sends {\n" + dropsMiddle,
			"ct state vmap @ct-state\n\t\tmeta priority bfff:fffc return\n" + dropsMiddle,
		}, nil, nil},
		{
			"reverse path",
			render.Config{ReversePath: true},
			[]string{`iifname @endpoints fib saddr . iif oif missing drop comment "false way back"`},
			nil, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Classes = classes
			table, errs := nfttest.Rendered(t, c.cfg, nfttest.Transition(s))
			require.Empty(t, errs)
			has, hasNot := c.classes, c.chains
			if classes.TestHook.HasChains() {
				has, hasNot = c.chains, c.classes
			}
			for _, want := range append(c.both, has...) {
				require.Contains(t, table.String(), want)
			}
			for _, other := range hasNot {
				require.NotContains(t, table.String(), other)
			}
		})
	}
}

// blockOf returns one set or chain of a table's text.
func blockOf(table *ruleset.Table, head string) string {
	for _, b := range strings.Split(table.String(), "\n\n") {
		if strings.Contains(b, "\t"+head+" {") {
			return b
		}
	}
	return ""
}

// TestNAT checks the translation of pools and floating addresses.
func TestNAT(t *testing.T) {
	table, errs := nfttest.Rendered(t, render.Config{}, nfttest.Transition(natState()))
	require.Empty(t, errs)
	require.Contains(t, blockOf(table, "set pools4"), "elements = { 10.0.0.0/16,\n\t\t\t     10.1.0.0/16 }")
	require.Contains(t, blockOf(table, "set pools-out4"), "elements = { 10.0.0.0/16 }")
	require.Contains(
		t, blockOf(table, "map floating4"), "elements = { 203.0.113.1 : 10.0.0.1 }", "the first of two endpoints",
	)
	require.Contains(t, blockOf(table, "map floating-out4"), "10.0.0.2 : 203.0.113.1")
	require.Contains(t, blockOf(table, "chain nat-prerouting"), "type nat hook prerouting priority -99")
	post := blockOf(table, "chain nat-postrouting")
	require.Contains(t, post, "ip saddr @pools-out4 ip daddr != @pools4 masquerade")
	require.Contains(t, post, "ip6 saddr @pools-out6 ip6 daddr != @pools6 masquerade")

	table, errs = nfttest.Rendered(t, natOptions(), nfttest.Transition(natState()))
	require.Empty(t, errs)
	post = blockOf(table, "chain nat-postrouting")
	require.Contains(t, post, "ip daddr != @nodes4 meta l4proto { tcp, udp, sctp } snat ip to 192.0.2.77:10000-20000")
	require.Contains(t, post, "masquerade to :10000-20000")
	require.Contains(t, blockOf(table, "set pools4"), "172.16.0.0/12")
	require.Contains(t, blockOf(table, "set nodes4"), "192.0.2.1")

	none, errs := nfttest.Rendered(
		t, render.Config{NAT: render.NATConfig{Disabled: true}}, nfttest.Transition(natState()),
	)
	require.Empty(t, errs)
	require.NotContains(t, none.String(), "type nat")
}

// TestFloatingAddressMovesToNextEndpoint: if two endpoints have one floating address and the first
// is removed, the address leads to the second. Without pools and floating addresses, there are no
// chains for NAT.
func TestFloatingAddressMovesToNextEndpoint(t *testing.T) {
	nfttest.EachForm(t, testFloatingAddressMovesToNextEndpoint)
}

func testFloatingAddressMovesToNextEndpoint(t *testing.T, classes render.ClassesConfig) {
	r, err := render.New(render.Config{Classes: classes})
	require.NoError(t, err)
	r.Update(nfttest.Transition(natState()))
	r.Flush()
	next := natState()
	delete(next.Endpoints, nfttest.EndpointKey("web1"))
	r.Update(dptest.Transition(natState(), next))
	r.Flush()
	table, _ := r.Table()
	require.Contains(t, blockOf(table, "map floating4"), "elements = { 203.0.113.1 : 10.0.0.2 }")
	r.Update(dptest.Transition(next, nfttest.InSync()))
	table, _ = r.Table()
	empty, _ := nfttest.Rendered(t, render.Config{Classes: classes}, nfttest.Transition(nfttest.InSync()))
	require.Equal(t, empty.String(), table.String())
}

// TestAffected: for a chain of a policy that the kernel refuses, Affected returns the policy and
// the endpoints that use it.
func TestAffected(t *testing.T) {
	r, err := render.New(render.Config{Classes: nfttest.Chains()})
	require.NoError(t, err)
	r.Update(nfttest.Transition(tiersState()))
	guard := policy.Key{Kind: policy.KindPolicy, Name: "guard"}
	require.Equal(t, []policy.Key{guard, nfttest.EndpointKey("web1")}, r.Affected("pol-egress/guard")[:2])
	require.Equal(
		t, []policy.Key{nfttest.PolicyKey("web"), nfttest.EndpointKey("web1")}, r.Affected("pol-ingress/shop/web"),
	)
	require.Equal(t, []policy.Key{nfttest.EndpointKey("web2")}, r.Affected("to/shop/web2"))
	require.Equal(
		t, []policy.Key{
			{Kind: policy.KindProfile, Name: "kns.shop"}, nfttest.EndpointKey("web1"), nfttest.EndpointKey("web2"),
		},
		r.Affected("prof-egress/kns.shop"),
	)
	require.Empty(t, r.Affected("output"))
}

// TestAffectedClasses: for the chain of an outcome, Affected returns the policies and profiles
// whose rules match its addresses. It also returns all endpoints of groups that lead to this chain.
// For the chain of a group, it returns the endpoints of the group. Chains that all endpoints share
// have no owner.
func TestAffectedClasses(t *testing.T) {
	r, err := render.New(render.Config{})
	require.NoError(t, err)
	r.Update(nfttest.Transition(tiersState()))
	table, errs := r.Table()
	require.Empty(t, errs)
	// via returns the next chain of a map or a chain.
	via := func(block, key string) string {
		_, rest, found := strings.Cut(blockOf(table, block), key)
		require.True(t, found, "%s in\n%s", key, blockOf(table, block))
		_, name, _ := strings.Cut(rest, "goto ")
		return strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(" ,\n", r) })[0]
	}
	guard, web := policy.Key{Kind: policy.KindPolicy, Name: "guard"}, nfttest.PolicyKey("web")
	kns := policy.Key{Kind: policy.KindProfile, Name: "kns.shop"}
	web1, web2 := nfttest.EndpointKey("web1"), nfttest.EndpointKey("web2")
	in1, in2, out1 := via("chain to/shop/web1", "{"), via("chain to/shop/web2", "{"), via("chain from/shop/web1", "{")
	require.Equal(t, []policy.Key{web1}, r.Affected(in1))
	require.Equal(t, []policy.Key{web2}, r.Affected(in2))
	require.Equal(t, []policy.Key{web1}, r.Affected(out1))
	// guard allows all packets from web1, and the profile all packets from web2. Both have the same
	// outcome.
	require.Equal(t, []policy.Key{guard, kns, web1, web2}, r.Affected(via("chain "+out1, "{")))
	// For the IPv4 addresses that no rule of web1 names, guard's Log rule matches all packets.
	// Policy web has only the end of its tier.
	require.Equal(t, []policy.Key{guard, web, kns, web1}, r.Affected(via("chain "+in1, "ipv4")))
	require.Equal(t, []policy.Key{guard, kns, web2}, r.Affected(via("chain "+in2, "ipv4")))
	require.Equal(t, []policy.Key{web1, web2}, r.Affected(in1, in2, "output"))
	for _, shared := range []string{"output", "receiver", "accepted-priority-2", "classify-ingress"} {
		require.Empty(t, r.Affected(shared), shared)
	}
}

// Denied packets from the host to workloads are dropped without an answer, because the kernel
// cannot reject packets after routing.
func TestDeniedPacketsOfHostAreNotRejected(t *testing.T) {
	nfttest.EachForm(t, testDeniedPacketsOfHostAreNotRejected)
}

func testDeniedPacketsOfHostAreNotRejected(t *testing.T, classes render.ClassesConfig) {
	host := policy.HostConfig{HostToEndpointAction: policy.HostReturn}
	table, errs := nfttest.Rendered(t, render.Config{Reject: true, Host: host, Classes: classes})
	require.Empty(t, errs)
	verdicts := map[string]string{
		"forward": "verdict", "input": "verdict", "output": "verdict-silent", "output-dnat": "verdict-silent",
	}
	for base, verdict := range verdicts {
		for _, name := range []string{base, base + "-again"} {
			rules := chainOf(table, name).Rules
			require.Equal(t, build.Goto(verdict), rules[len(rules)-2].Statements[0], name)
		}
	}
	require.Equal(t, build.Drop(), chainOf(table, "verdict-silent").Rules[0].Statements[0])
	require.Equal(t, build.Goto("rejected"), chainOf(table, "verdict").Rules[0].Statements[0])
}

func TestUnknownWorkloadsIsDropOrAccept(t *testing.T) {
	_, err := render.New(render.Config{UnknownWorkloads: policy.HostReturn})
	require.ErrorContains(t, err, `Config.UnknownWorkloads: "Return" is not Drop or Accept`)
}
