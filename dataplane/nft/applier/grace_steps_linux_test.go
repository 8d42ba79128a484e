// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// There is a grace period between two transactions if a packet could see both. This is so before
// and after chains go to shadows, and after they no longer do. It is so after a chain begins to
// drop, and before a policy changes. And it is so before a drop guard is removed, and before
// foreign maps and the hook guard are deleted.
func TestGracePeriodsBetweenTransactions(t *testing.T) {
	const change, grace = "change", "grace period"
	withPolicy := func(v ruleset.Verdict) *ruleset.Table {
		table := epochTable(9)
		findChain(table, "in").Hook.Policy = v
		return table
	}
	withBase := func(table *ruleset.Table) *ruleset.Table {
		table.Chains = append(table.Chains, base("more", ruleset.Forward, rule(drop)))
		table.Normalize()
		return table
	}
	for name, c := range map[string]struct {
		before, after *ruleset.Table
		foreign       string
		steps         []string
	}{
		"shadows": {
			before: epochTableWithNets(false, 16, 5), after: epochTableWithNets(false, 17, 6),
			steps: []string{change, grace, change, grace, change, change, grace, change},
		},
		"chains that drop": {
			before: epochTableWithNets(true, 16, 5), after: epochTableWithNets(true, 17, 6),
			steps: []string{change, grace, change, change},
		},
		"new base chain": {
			before: epochTableWithNets(true, 16, 5), after: withBase(epochTableWithNets(true, 17, 6)),
			steps: []string{change, grace, change, change, grace, change},
		},
		"policy": {
			before: withPolicy(accept), after: withPolicy(drop), steps: []string{change, grace, change, change},
		},
		"foreign map": {
			before: epochTable(9), after: epochTable(10),
			foreign: `add map inet own lead { type ipv4_addr : verdict; }
				add chain inet own early { type filter hook output priority -10; ip daddr vmap @lead; }`,
			steps: []string{change, grace, change, grace, change, grace, change},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			a, f := openFaulty(t, ns, applier.Config{Shared: true})
			require.NoError(t, a.Apply(bg, c.before))
			if c.foreign != "" {
				nft(t, ns, c.foreign)
			}
			var steps []string
			f.refuse = func([]byte) unix.Errno {
				steps = append(steps, change)
				return 0
			}
			applier.SetSynchronize(a, func() error {
				steps = append(steps, grace)
				return nil
			})
			require.NoError(t, a.Apply(bg, c.after))
			require.Equal(t, c.steps, steps)
			requireLists(t, ns, c.after)
		})
	}
}

// A chain gets a shadow if any of its rules references a map whose elements change, whatever the
// rule does with the value. Otherwise, its packets would see the change at another moment.
func TestEveryLookupGetsShadow(t *testing.T) {
	ipv4 := []ruleset.Type{ruleset.TypeIPv4}
	fields := []ruleset.Field{ruleset.IPDaddr}
	mark := []ruleset.Type{ruleset.TypeMark}
	for name, c := range map[string]struct {
		set    ruleset.Set
		values [2]ruleset.Element
		lookup *ruleset.Chain
	}{
		"verdict": {
			ruleset.Set{Verdicts: true},
			[2]ruleset.Element{{Verdict: &accept}, {Verdict: &drop}},
			base("lookup", ruleset.Forward, rule(isIPv4, ruleset.VMap{Fields: fields, Map: "changes"})),
		},
		"translation": {
			ruleset.Set{Data: ipv4},
			[2]ruleset.Element{{Data: []ruleset.Value{addr("10.7.0.1")}}, {Data: []ruleset.Value{addr("10.7.0.2")}}},
			chain("lookup", rule(isIPv4, ruleset.NAT{
				Kind: ruleset.DNAT, Family: ruleset.FamilyIPv4, Fields: fields, Map: "changes",
			})),
		},
		"assigned value": {
			ruleset.Set{Data: mark},
			[2]ruleset.Element{{Data: []ruleset.Value{ruleset.Uint32(1)}}, {Data: []ruleset.Value{ruleset.Uint32(2)}}},
			base("lookup", ruleset.Forward, rule(isIPv4, ruleset.Assign{
				Field: ruleset.Mark, Fields: fields, Map: "changes",
			})),
		},
	} {
		t.Run(name, func(t *testing.T) {
			table := func(i, bits int) *ruleset.Table {
				out, set, el := epochTableWithNets(false, bits, 5), c.set, c.values[i]
				set.Name, set.Key = "changes", ipv4
				el.Key = []ruleset.Value{addr("192.0.2.1")}
				set.Elements = []ruleset.Element{el}
				out.Sets, out.Chains = append(out.Sets, &set), append(out.Chains, c.lookup)
				out.Normalize()
				return out
			}
			ns := nstest.New(t)
			a, f := openFaulty(t, ns, applier.Config{Shared: true})
			require.NoError(t, a.Apply(bg, table(0, 16)))
			leads := false
			f.refuse = func(batch []byte) unix.Errno {
				leads = leads || messageWith(batch, unix.NFT_MSG_NEWRULE, "lookup") != 0 &&
					bytes.Contains(batch, []byte("shadow-"))
				return 0
			}
			require.NoError(t, a.Apply(bg, table(1, 17)))
			require.True(t, leads)
			requireLists(t, ns, table(1, 17))
		})
	}
}
