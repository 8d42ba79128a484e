// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// counting has a base chain that counts packets to port 9, another base chain, and a chain to which
// the latter jumps.
func counting(policy ruleset.Verdict) *ruleset.Table {
	toNine := []ruleset.Match{is(ruleset.L4Proto, ruleset.Byte(17)), is(ruleset.Dport, ruleset.Port(9))}
	t := &ruleset.Table{Name: tableName, Chains: []*ruleset.Chain{
		{Name: "out", Hook: &ruleset.Hook{Point: ruleset.Output, Policy: policy}, Rules: []ruleset.Rule{
			{Matches: toNine, Statements: []ruleset.Statement{ruleset.Counter{}}, Comment: "hits"}, rule(accept),
		}},
		{Name: "in", Hook: &ruleset.Hook{Point: ruleset.Input, Policy: accept}, Rules: []ruleset.Rule{
			rule(ruleset.Verdict{Kind: ruleset.Jump, Chain: "both"}),
		}},
		chain("both", rule(accept)),
	}}
	t.Normalize()
	return t
}

// packets sends n datagrams to port 9.
func packets(t *testing.T, ns *netns.NS, n int) {
	t.Helper()
	require.NoError(t, ns.Do(func() error {
		conn, err := net.Dial("udp", "127.0.0.1:9")
		if err != nil {
			return err
		}
		defer conn.Close()
		for sent := 0; sent < n; {
			if _, err := conn.Write([]byte("x")); err == nil {
				sent++
			} else if !isRefusedPort(err) { // an error about an earlier datagram
				return err
			}
		}
		return nil
	}))
}

// A policy is changed, adopted and repaired in place: the counters of the chain's rules stay.
func TestPolicyKeepsCounters(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	require.NoError(t, a.Apply(bg, counting(accept)))
	packets(t, ns, 5)
	require.NoError(t, a.Apply(bg, counting(drop)))
	requireLists(t, ns, counting(drop))
	require.Equal(t, 5, hits(t, ns), "changed")

	nft(t, ns, "chain inet own out { policy accept; }")
	require.NoError(t, a.Resync(bg))
	require.EqualValues(t, 1, a.Stats().Repairs)
	requireLists(t, ns, counting(drop))
	require.Equal(t, 5, hits(t, ns), "repaired")

	b := open(t, ns)
	require.NoError(t, b.Apply(bg, counting(accept)))
	require.EqualValues(t, 3, b.Stats().Transactions)
	requireLists(t, ns, counting(accept))
	require.Equal(t, 5, hits(t, ns), "adopted")
	packets(t, ns, 2)
	require.Equal(t, 7, hits(t, ns))
}

// A chain whose hook differs is replaced, and nothing else is: rules of other chains keep their
// counters.
func TestHookKeepsOtherCounters(t *testing.T) {
	const remade = "flush chain inet own in\ndelete chain inet own in\n"
	for name, script := range map[string]string{
		"hook":    remade + "add chain inet own in { type filter hook input priority 9; policy drop; }",
		"type":    remade + "add chain inet own in { type nat hook input priority 0; }",
		"no hook": remade + "add chain inet own in",
		"new hook": remade +
			"flush chain inet own both\ndelete chain inet own both\n" +
			"add chain inet own both { type filter hook input priority 0; policy drop; }",
	} {
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			a := openWith(t, ns, applier.Config{Shared: true, Logger: logger(t)})
			require.NoError(t, a.Apply(bg, counting(drop)))
			packets(t, ns, 3)
			nft(t, ns, script)
			require.NoError(t, a.Resync(bg))
			require.EqualValues(t, 1, a.Stats().Repairs)
			requireLists(t, ns, counting(drop))
			require.Equal(t, 3, hits(t, ns))
		})
	}
}

// While a chain policy and rules change together, no packet passes that both the old and the new
// state forbid.
func TestNothingPassesWhileChainPolicyAndRulesChange(t *testing.T) {
	table := func(policy ruleset.Verdict, many int, r ruleset.Rule) *ruleset.Table {
		t := only(0, many)
		findChain(t, "out").Hook.Policy, findChain(t, "out").Rules = policy, []ruleset.Rule{r}
		return t
	}
	only9 := table(drop, 1, rule(isUDP, is(ruleset.Dport, ruleset.Port(9)), accept))
	open10 := table(accept, 10_000, rule(isUDP, is(ruleset.Dport, ruleset.Port(10)), drop))
	for name, limit := range map[string]int{"whole": 0, "in parts": 8 << 10} {
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			a := openWith(t, ns, applier.Config{Shared: true, MaxBatch: limit})
			require.NoError(t, a.Apply(bg, only9))
			end := flood(t, ns)
			for range 5 {
				require.NoError(t, a.Apply(bg, open10))
				require.NoError(t, a.Apply(bg, only9))
			}
			sent, through := end()
			require.NotZero(t, sent)
			require.Zero(t, through)
			require.EqualValues(t, 1, a.Stats().Readings)
			nft(t, ns, "delete table ip witness")
			requireLists(t, ns, only9)
		})
	}
}

// S173: while a base chain with the policy drop is added, changed or deleted, no packet is lost
// that both states allow. Nor does a packet pass that both states forbid.
func TestNothingIsLostWhileDropBaseChainChanges(t *testing.T) {
	eleven := rule(isUDP, is(ruleset.Dport, ruleset.Port(11)), accept)
	state := func(policy ruleset.Verdict, many int, rules ...ruleset.Rule) *ruleset.Table {
		t := only(0, many)
		out := findChain(t, "out")
		out.Hook.Policy, out.Rules = policy, rules
		return t
	}
	ten := rule(isUDP, is(ruleset.Dport, ruleset.Port(10)), drop)
	without := state(accept, 1, ten)
	guarded := state(accept, 3000, ten)
	guard := base("guard", ruleset.Output, eleven)
	guard.Hook.Priority, guard.Hook.Policy = 5, drop
	guarded.Chains = append(guarded.Chains, guard)
	guarded.Normalize()
	for name, states := range map[string][2]*ruleset.Table{
		"comes and goes":     {without, guarded},
		"changes with rules": {without, state(drop, 3000, eleven)},
		"changes alone":      {state(accept, 1, ten, eleven), state(drop, 1, ten, eleven)},
	} {
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			a := openWith(t, ns, applier.Config{Shared: true})
			require.NoError(t, a.Apply(bg, states[0]))
			end := traffic(t, ns)
			for i := range 40 {
				require.NoError(t, a.Apply(bg, states[(i+1)%2]))
			}
			leaked, lost := end()
			require.Zero(t, leaked)
			require.Zero(t, lost)
			require.EqualValues(t, 1, a.Stats().Readings)
			requireLists(t, ns, states[0])
		})
	}
}
