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

// Further in it is the same: whatever chain of groups or outcomes a packet is led to by a map and finds empty, it does not get through. Outcomes are
// named after what is in them, so none is there with other rules.
func TestEmptyOutcomesDrop(t *testing.T) {
	table, errs := render(t, nft.RendererConfig{Reject: true}, transition(tiersState()))
	require.Empty(t, errs)
	var packets []ruleset.Packet
	for _, own := range []struct {
		iface string
		addr  netip.Addr
	}{{"way1", ips("10.0.0.1")[0]}, {"way1", ips("fd00::1")[0]}, {"tap2", ips("10.0.0.2")[0]}} {
		for _, peer := range ips("10.0.1.1", "10.0.1.9", "8.8.8.8", "fd00:1::1", "fd00:1::9", "2001:db8::1") {
			for _, proto := range []uint8{6, 17} {
				if peer.Is4() == own.addr.Is4() {
					packets = append(packets,
						ruleset.Packet{IIFName: "eth0", OIFName: own.iface, Src: peer, Dst: own.addr, Protocol: proto, DstPort: 80},
						ruleset.Packet{IIFName: own.iface, OIFName: "eth0", Src: own.addr, Dst: peer, Protocol: proto, DstPort: 80})
				}
			}
		}
	}
	led := map[string]bool{} // the chains that maps lead to
	for _, s := range table.Sets {
		for _, e := range s.Elements {
			if e.Verdict != nil && strings.HasPrefix(e.Verdict.Chain, "outcome-") {
				led[e.Verdict.Chain] = true
			}
		}
	}
	visited := map[string]bool{}
	for empty := range led {
		some := *table
		some.Chains = slices.Clone(table.Chains)
		some.Chains[slices.IndexFunc(some.Chains, func(c *ruleset.Chain) bool { return c.Name == empty })] = &ruleset.Chain{Name: empty}
		for _, p := range packets {
			before, err := table.Simulate(ruleset.Forward, p, ruleset.Conn{})
			require.NoError(t, err)
			after, err := some.Simulate(ruleset.Forward, p, ruleset.Conn{})
			require.NoError(t, err)
			if !slices.ContainsFunc(before.Trace, func(s ruleset.Step) bool { return s.Chain == empty }) {
				require.Equal(t, before.Verdict, after.Verdict)
				continue
			}
			visited[empty] = true
			require.Equal(t, ruleset.Drop, after.Verdict, "%s: %+v\n%s", empty, p, table)
		}
	}
	require.Equal(t, led, visited)
	require.GreaterOrEqual(t, len(led), 5)
}
