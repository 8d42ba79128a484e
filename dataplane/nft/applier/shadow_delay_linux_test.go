// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// delayed returns the table of through with two changes. A packet needs some milliseconds between
// its mark and its verdict, because its port is compared 100,000 times. The chain "ten" drops
// packets to port 10 that have the mark of this version, and accepts those with the mark of another
// version.
func delayed(version int) *ruleset.Table {
	t := through(version, 1)
	compare, long := chain("compare"), chain("long")
	for range 200 {
		compare.Rules = append(compare.Rules, rule(is(ruleset.Dport, ruleset.Port(12)), drop))
	}
	for range 500 {
		long.Rules = append(long.Rules, rule(ruleset.Verdict{Kind: ruleset.Jump, Chain: "compare"}))
	}
	sorted := findChain(t, "sorted")
	mark, rest := sorted.Rules[0], sorted.Rules[1:]
	sorted.Rules = append([]ruleset.Rule{mark, rule(ruleset.Verdict{Kind: ruleset.Jump, Chain: "long"})}, rest...)
	ports := findSet(t, "ports")
	ports.Elements = append(ports.Elements, ruleset.Element{
		Key: []ruleset.Value{ruleset.Port(10)}, Last: ruleset.Port(10),
		Verdict: &ruleset.Verdict{Kind: ruleset.Jump, Chain: "ten"},
	})
	ten := chain("ten", rule(is(ruleset.Mark, ruleset.Uint32(uint32(7+version))), drop), rule(accept))
	t.Chains = append(t.Chains, compare, long, ten)
	t.Normalize()
	return t
}

// S173 also holds for a packet that is delayed between two chains, until shadows are built and
// chains lead to them. The kernel keeps only two generations of rules. So without a grace period,
// the packet would get its mark from the chain of one state, and its verdict from a chain of the
// other state.
func TestShadowsWithDelayedPackets(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart=%v", restart), func(t *testing.T) {
			ns := nstest.New(t)
			a := openWith(t, ns, applier.Config{Shared: restart})
			require.NoError(t, a.Apply(bg, delayed(0)))
			end := traffic(t, ns)
			for i := range 20 {
				if restart {
					a = open(t, ns)
				}
				require.NoError(t, a.Apply(bg, delayed((i+1)%2)))
			}
			leaked, lost := end()
			require.Zero(t, leaked, "leaked")
			require.Zero(t, lost, "lost")
			requireLists(t, ns, delayed(0))
		})
	}
}
