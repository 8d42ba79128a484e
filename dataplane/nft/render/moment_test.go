// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/outcome"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
)

// During a commit, a packet may use a new element of a map, while the chain to which it leads is
// still empty. In each scenario, for each such element, the packet is dropped.
func TestEmptyChainsDrop(t *testing.T) { nfttest.EachForm(t, testEmptyChainsDrop) }

func testEmptyChainsDrop(t *testing.T, classes render.ClassesConfig) {
	held := 0
	for _, sc := range scenarios(classes) {
		table, errs := sc.rendered(t)
		require.Empty(t, errs)
		for _, c := range table.Chains {
			// NAT chains decide nothing, and -again chains are for stale packets.
			if c.Hook == nil || c.Hook.Type == ruleset.HookNAT || strings.HasSuffix(c.Name, "-again") {
				continue
			}
			for _, m := range interfaceMaps(table, c) {
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
	require.Greater(t, held, 50)
}

// S173: a packet that is delayed during two transactions uses the base chain's rules from when it
// entered, but the newest rules of other chains. So only base chains check whether a packet is
// stale, and policy of workloads and host endpoints only records its decision.
func TestBaseChainsDecide(t *testing.T) { nfttest.EachForm(t, testBaseChainsDecide) }

func testBaseChainsDecide(t *testing.T, classes render.ClassesConfig) {
	policies, checks := 0, 0
	for _, sc := range scenarios(classes) {
		table, errs := sc.rendered(t)
		require.Empty(t, errs)
		for _, c := range table.Chains {
			for _, r := range c.Rules {
				if references(r, "epoch") {
					checks++
					require.NotNil(t, c.Hook, "%s checks the epoch", c.Name)
				}
				if len(r.Statements) == 0 {
					continue
				}
				last := r.Statements[len(r.Statements)-1]
				if strings.HasPrefix(c.Name, "host-") || strings.HasPrefix(c.Name, "tracked-") {
					require.NotEqual(t, build.Accept(), last, "%s: %v", c.Name, r.Matches)
				}
				if isPolicy(c.Name) {
					policies++
					require.False(t, decides(last), "%s: %v", c.Name, r.Statements)
				}
			}
		}
	}
	require.Greater(t, policies, 100)
	require.Greater(t, checks, 50)
}

// A decision is final: each rule that jumps to policy is followed by one that returns decided
// packets. Between the two may be maps of other interfaces or of the other family, and a rule that
// matches only undecided packets.
func TestDecisionsAreFinal(t *testing.T) { nfttest.EachForm(t, testDecisionsAreFinal) }

func testDecisionsAreFinal(t *testing.T, classes render.ClassesConfig) {
	jumps := 0
	for _, sc := range scenarios(classes) {
		table, errs := sc.rendered(t)
		require.Empty(t, errs)
		deciding := leadingTo(table, "denied", "allowed")
		for _, c := range table.Chains {
			if c.Hook != nil || strings.Contains(c.Name, "-priority") {
				continue // base chains continue to the verdict
			}
			for i, r := range c.Rules {
				if !slices.ContainsFunc(verdictsOf(table, r), func(v ruleset.Verdict) bool {
					return v.Kind == ruleset.Jump && deciding[v.Chain]
				}) {
					continue
				}
				jumps++
				require.Less(t, i+1, len(c.Rules), c.Name)
				n := i + 1
				for n+1 < len(c.Rules) && excludes(table, r, c.Rules[n]) {
					n++
				}
				if leavesDecided(t, table, c.Rules[n]) {
					n++
				}
				next := c.Rules[n]
				require.Equal(t, []ruleset.Statement{build.Return()}, next.Statements, "%s: %v", c.Name, r)
				require.Equal(t, ruleset.Priority, next.Matches[0].(ruleset.Compare).Field, "%s: %v", c.Name, r)
			}
		}
	}
	require.Greater(t, jumps, 50)
}

// A packet that is stale at one base chain reaches the chain that evaluates it again. There is no
// other base chain of the hook between these two: such a chain would treat the record as a priority
// and clear it.
func TestNothingBetweenBaseChainAndAgain(t *testing.T) {
	pairs := 0
	for _, sc := range scenarios(render.ClassesConfig{}) {
		table, errs := sc.rendered(t)
		require.Empty(t, errs)
		hooks := map[string]*ruleset.Hook{}
		for _, c := range table.Chains {
			if c.Hook != nil {
				hooks[c.Name] = c.Hook
			}
		}
		for name, first := range hooks {
			again := hooks[name+"-again"]
			if again == nil {
				continue
			}
			pairs++
			for other, h := range hooks {
				if other == name || other == name+"-again" || h.Point != first.Point {
					continue
				}
				require.False(t, h.Priority >= first.Priority && h.Priority <= again.Priority,
					"%s: %s between %s and %s-again", sc.Name, other, name, name)
			}
		}
	}
	require.Greater(t, pairs, 40)
}

// verdictsOf returns the verdicts of a rule, also those in its maps.
func verdictsOf(table *ruleset.Table, r ruleset.Rule) (out []ruleset.Verdict) {
	for _, st := range r.Statements {
		switch st := st.(type) {
		case ruleset.Verdict:
			out = append(out, st)
		case ruleset.VMap:
			elements := st.Elements
			if st.Map != "" {
				i := slices.IndexFunc(table.Sets, func(s *ruleset.Set) bool { return s.Name == st.Map })
				elements = table.Sets[i].Elements
			}
			for _, el := range elements {
				out = append(out, *el.Verdict)
			}
		}
	}
	return out
}

// excludes reports whether no packet matches both a map of interfaces and the next map. This is so
// if the next one is for the other family, or has no interface of the first.
func excludes(table *ruleset.Table, r, next ruleset.Rule) bool {
	first, ok1 := r.Statements[0].(ruleset.VMap)
	second, ok2 := next.Statements[0].(ruleset.VMap)
	if !ok1 || !ok2 || first.Map == "" || second.Map == "" || first.Fields[0] != second.Fields[0] {
		return false
	}
	family := func(r ruleset.Rule) string {
		for _, m := range r.Matches {
			if m, ok := m.(ruleset.Compare); ok && m.Field == ruleset.NFProto {
				return string(m.Value)
			}
		}
		return ""
	}
	if f, o := family(r), family(next); f != "" && o != "" && f != o {
		return true
	}
	names := map[string]bool{}
	for _, e := range find(table, first.Map).Elements {
		names[string(e.Key[0])] = true
	}
	return !slices.ContainsFunc(find(table, second.Map).Elements, func(e ruleset.Element) bool {
		return names[string(e.Key[0])]
	})
}

// leavesDecided reports whether a rule looks up the outcome of a packet. It checks that no decision
// is the number of an outcome.
func leavesDecided(t *testing.T, table *ruleset.Table, r ruleset.Rule) bool {
	m, ok := r.Statements[0].(ruleset.VMap)
	if !ok || !strings.HasPrefix(m.Map, "outcomes-") {
		return false
	}
	require.Equal(t, []ruleset.Field{outcome.Register}, m.Fields)
	i := slices.IndexFunc(table.Sets, func(s *ruleset.Set) bool { return s.Name == m.Map })
	for _, e := range table.Sets[i].Elements {
		number := binary.NativeEndian.Uint32(e.Key[0])
		require.Less(t, number, outcome.Reserved, "%s: %x", m.Map, number)
		require.NotZero(t, number&(1<<31), "%s: %x", m.Map, number)
	}
	return true
}

// leadingTo returns the given chains and those that lead to them.
func leadingTo(table *ruleset.Table, names ...string) map[string]bool {
	found := map[string]bool{}
	for _, name := range names {
		found[name] = true
	}
	for before := 0; before < len(found); {
		before = len(found)
		for _, c := range table.Chains {
			for _, r := range c.Rules {
				for _, v := range verdictsOf(table, r) {
					if found[v.Chain] {
						found[c.Name] = true
					}
				}
			}
		}
	}
	return found
}

// decides reports whether a statement accepts, drops or rejects a packet.
func decides(st ruleset.Statement) bool {
	switch st := st.(type) {
	case ruleset.Verdict:
		return st.Kind == ruleset.Accept || st.Kind == ruleset.Drop || strings.HasPrefix(st.Chain, "verdict") ||
			st.Chain == "rejected"
	case ruleset.Reject:
		return true
	}
	return false
}

// isPolicy reports whether a chain has policy of workloads or of host endpoints.
func isPolicy(chain string) bool {
	prefixes := []string{
		"pol-", "prof-", "tier-", "outcome-", "group-", "denied", "allowed", "raw-", "prednat-", "dnat-raw-",
		"recheck-",
	}
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(chain, prefix) })
}

// references reports whether a rule references a set.
func references(r ruleset.Rule, set string) bool {
	return slices.ContainsFunc(r.Matches, func(m ruleset.Match) bool {
		in, ok := m.(ruleset.Lookup)
		return ok && in.Set == set
	})
}

// Every map whose keys or values are priorities of packets is deleted after a grace period: packets
// under way may still look it up.
func TestMapsOfPrioritiesAreDeletedAfterGrace(t *testing.T) {
	maps := 0
	for _, sc := range scenarios(render.ClassesConfig{}) {
		table, errs := sc.rendered(t)
		require.Empty(t, errs)
		for _, s := range table.Sets {
			byPriority := slices.Contains(append(slices.Clone(s.Key), s.Data...), ruleset.TypeClassID)
			require.Equal(t, byPriority, s.DeleteAfterGrace, s.Name)
			if byPriority {
				maps++
			}
		}
	}
	require.Greater(t, maps, 40)
}

// chainOf returns a chain of a table.
func chainOf(table *ruleset.Table, name string) *ruleset.Chain {
	return table.Chains[slices.IndexFunc(table.Chains, func(c *ruleset.Chain) bool { return c.Name == name })]
}

// interfaceMaps returns the maps from interfaces to chains that a base chain looks up, or a chain
// to which its rules jump.
func interfaceMaps(table *ruleset.Table, c *ruleset.Chain) (maps []ruleset.VMap) {
	for _, r := range c.Rules {
		for _, st := range r.Statements {
			switch st := st.(type) {
			case ruleset.VMap:
				if f := st.Fields[0]; f == ruleset.IIFName || f == ruleset.OIFName {
					maps = append(maps, st)
				}
			case ruleset.Verdict:
				if st.Kind == ruleset.Jump {
					maps = append(maps, interfaceMaps(table, chainOf(table, st.Chain))...)
				}
			}
		}
	}
	return maps
}

// requireEmptyDrops requires that a packet which matches the element in a map of the base chain
// drops if the element's chain is empty.
func requireEmptyDrops(
	t *testing.T, table *ruleset.Table, base *ruleset.Chain, fields []ruleset.Field, el ruleset.Element,
) {
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
		p.Src, _ = netip.AddrFromSlice(el.Key[1])
	}
	if p.Src.Is6() {
		p.Dst = netip.MustParseAddr("2001:db8::2")
	}
	if fields[0] == ruleset.OIFName {
		p.OIF = name
	} else {
		p.IIF = name
	}
	if base.Hook.Point == ruleset.Postrouting { // a translated packet of the host
		p.OrigDst, p.Local = netip.MustParseAddr("10.96.0.1"), []netip.Addr{p.Src}
	}
	s, err := simulate.New(simulate.Config{Table: &some})
	require.NoError(t, err)
	require.False(t, p.Run(t, s, base.Hook.Point).Allowed, "%s: %s", base.Name, el.Verdict.Chain)
}

// A packet that a map leads to the empty chain of a group or outcome is dropped. The name of an
// outcome depends on its rules, so no outcome has the rules of another generation.
func TestEmptyOutcomesDrop(t *testing.T) {
	table, errs := nfttest.Rendered(t, render.Config{Reject: true}, nfttest.Transition(tiersState()))
	require.Empty(t, errs)
	var packets []simulate.Packet
	for _, own := range []struct {
		iface string
		addr  netip.Addr
	}{
		{"way1", nfttest.Addresses("10.0.0.1")[0]},
		{"way1", nfttest.Addresses("fd00::1")[0]},
		{"tap2", nfttest.Addresses("10.0.0.2")[0]},
	} {
		for _, peer := range nfttest.Addresses(
			"10.0.1.1", "10.0.1.9", "8.8.8.8", "fd00:1::1", "fd00:1::9", "2001:db8::1",
		) {
			for _, proto := range []uint8{6, 17} {
				if peer.Is4() == own.addr.Is4() {
					packets = append(packets,
						simulate.Packet{
							IIFName: "eth0", OIFName: own.iface, Src: peer, Dst: own.addr, Protocol: proto, DstPort: 80,
						},
						simulate.Packet{
							IIFName: own.iface, OIFName: "eth0", Src: own.addr, Dst: peer, Protocol: proto, DstPort: 80,
						})
				}
			}
		}
	}
	targets := map[string]bool{} // the target chains of maps
	for _, s := range table.Sets {
		for _, e := range s.Elements {
			if e.Verdict != nil && strings.HasPrefix(e.Verdict.Chain, "outcome-") {
				targets[e.Verdict.Chain] = true
			}
		}
	}
	full, err := simulate.New(simulate.Config{Table: table})
	require.NoError(t, err)
	visited := map[string]bool{}
	for empty := range targets {
		some := *table
		some.Chains = slices.Clone(table.Chains)
		some.Chains[slices.IndexFunc(
			some.Chains, func(c *ruleset.Chain) bool { return c.Name == empty },
		)] = &ruleset.Chain{Name: empty}
		emptied, err := simulate.New(simulate.Config{Table: &some})
		require.NoError(t, err)
		for _, p := range packets {
			before, err := full.Trace(ruleset.Forward, p, simulate.Conn{})
			require.NoError(t, err)
			after, err := emptied.Run(ruleset.Forward, p, simulate.Conn{})
			require.NoError(t, err)
			if !slices.ContainsFunc(before.Trace, func(s simulate.Step) bool { return s.Chain == empty }) {
				require.Equal(t, before.Verdict, after.Verdict)
				continue
			}
			visited[empty] = true
			require.Equal(t, ruleset.Drop, after.Verdict, "%s: %+v\n%s", empty, p, table)
		}
	}
	require.Equal(t, targets, visited)
	require.GreaterOrEqual(t, len(targets), 5)
}
