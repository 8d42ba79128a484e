// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// While the kernel changes over, a packet may find an element of a map, but the chain that it leads to empty. In each scenario, for each such element, the
// base chain drops that packet, without a look at what else it has to say.
func TestEmptyChainsDrop(t *testing.T) { nft.EachForm(t, testEmptyChainsDrop) }

func testEmptyChainsDrop(t *testing.T, classes nft.ClassesConfig) {
	held := 0
	for _, sc := range scenarios(classes) {
		table, errs := render(t, sc.config, sc.batches...)
		require.Empty(t, errs)
		for _, c := range table.Chains {
			if c.Hook == nil || c.Hook.Type == ruleset.HookNAT {
				continue
			}
			for _, r := range c.Rules {
				for _, st := range r.Statements {
					m, ok := st.(ruleset.VMap)
					if !ok || m.Map == "" {
						continue
					}
					set := table.Sets[slices.IndexFunc(table.Sets, func(s *ruleset.Set) bool { return s.Name == m.Map })]
					for _, el := range set.Elements {
						if el.Verdict.Chain == "" {
							continue
						}
						held++
						requireEmptyDrops(t, table, c, m.Fields, el)
					}
				}
			}
		}
	}
	require.Greater(t, held, 50)
}

// requireEmptyDrops holds that a packet which finds the element in a map of the base chain drops if the chain it leads to is empty.
func requireEmptyDrops(t *testing.T, table *ruleset.Table, base *ruleset.Chain, fields []ruleset.Field, el ruleset.Element) {
	t.Helper()
	some := *table
	some.Chains = nil
	for _, c := range table.Chains {
		switch {
		case c.Name == el.Verdict.Chain:
			c = &ruleset.Chain{Name: c.Name}
		case c.Hook != nil && c != base:
			continue
		}
		some.Chains = append(some.Chains, c)
	}
	name := strings.TrimRight(string(el.Key[0]), "\x00")
	p := tcpPacket("", "203.0.113.1", "", "203.0.113.2", ruleset.CtNew)
	if len(el.Key) > 1 {
		p.src, _ = netip.AddrFromSlice(el.Key[1])
	}
	if p.src.Is6() {
		p.dst = netip.MustParseAddr("2001:db8::2")
	}
	if fields[0] == ruleset.OIFName {
		p.oif = name
	} else {
		p.iif = name
	}
	if base.Hook.Point == ruleset.Postrouting { // what the host has sent, and was translated
		p.origDst, p.local = netip.MustParseAddr("10.96.0.1"), []netip.Addr{p.src}
	}
	s, err := ruleset.NewSimulator(ruleset.SimulatorConfig{Table: &some})
	require.NoError(t, err)
	require.False(t, p.run(t, s, base.Hook.Point).allowed, "%s: %s", base.Name, el.Verdict.Chain)
}
