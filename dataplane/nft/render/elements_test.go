// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// setOf returns a flushed Renderer of chains with one set, to which a rule refers.
func setOf(t *testing.T, members ...string) *render.Renderer {
	t.Helper()
	r, err := render.New(render.Config{Classes: nfttest.Chains()})
	require.NoError(t, err)
	s := nfttest.RulesState(
		dataplane.Rule{ID: "in", Action: "Allow", Source: dataplane.Match{Sets: []dataplane.IPSetID{"s:x"}}},
		dataplane.Rule{ID: "out", Action: "Allow", Source: dataplane.Match{NotSets: []dataplane.IPSetID{"s:x"}}},
	)
	s.Sets["s:x"] = nfttest.NetSet(members...)
	r.Update(nfttest.Transition(s))
	r.Flush()
	return r
}

func delta(added, removed []string) dataplane.Batch {
	return dataplane.Batch{Events: []dataplane.Event{&dataplane.IPSetDelta{
		ID: "s:x", Added: nfttest.NetSet(added...).Members, Removed: nfttest.NetSet(removed...).Members,
	}}}
}

func list1(s ...string) []string { return s }

// texts returns the elements that a delta adds and deletes.
func texts(d *ruleset.Delta, set string) (added, deleted []string) {
	for _, e := range d.Elements {
		if e.Set == set {
			return elementTexts(e.Add), elementTexts(e.Delete)
		}
	}
	return nil, nil
}

func elementTexts(elements []ruleset.Element) (out []string) {
	for _, e := range elements {
		first, _ := netip.AddrFromSlice(e.Key[0])
		text := first.String()
		if e.Last != nil {
			last, _ := netip.AddrFromSlice(e.Last)
			text += "-" + last.String()
		}
		out = append(out, text)
	}
	return out
}

// TestPrefixes changes the prefixes of a set. The kernel's prefixes are disjoint. A prefix inside a
// wider one is added when the wider one is removed.
func TestPrefixes(t *testing.T) {
	for _, c := range []struct {
		name                string
		members, add, rm    []string
		wantAdd, wantDelete []string
	}{
		{
			"S88 wider prefix replaces others", list1("10.1.0.0/16", "10.2.0.0/16", "11.0.0.0/8"), list1("10.0.0.0/8"),
			nil, list1("10.0.0.0-10.255.255.255"), list1("10.1.0.0-10.1.255.255", "10.2.0.0-10.2.255.255"),
		},
		{
			"S88 wider prefix removed", list1("10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24"), nil, list1("10.0.0.0/8"),
			list1("10.1.0.0-10.1.255.255"), list1("10.0.0.0-10.255.255.255"),
		},
		{
			"S89 removed inside another: no change", list1("10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24"), nil,
			list1("10.1.0.0/16"), nil, nil,
		},
		{"S89 added inside another: no change", list1("10.0.0.0/8"), list1("10.1.0.0/16"), nil, nil, nil},
		{
			"S86 the whole family", list1("10.0.0.0/8"), list1("0.0.0.0/0"), nil, list1("0.0.0.0-255.255.255.255"),
			list1("10.0.0.0-10.255.255.255"),
		},
		{
			"S87 the half stays", list1("0.0.0.0/0", "0.0.0.0/1"), nil, list1("0.0.0.0/0"),
			list1("0.0.0.0-127.255.255.255"), list1("0.0.0.0-255.255.255.255"),
		},
		{"S90 by family", list1("10.0.0.0/8", "::/0"), list1("11.0.0.0/8"), nil, list1("11.0.0.0-11.255.255.255"), nil},
		{
			"added, removed in one batch", list1("10.0.0.0/8", "11.0.0.0/8"), list1("11.0.0.0/8"), list1("11.0.0.0/8"),
			nil, nil,
		},
		{"already added, already removed", list1("10.0.0.0/8"), list1("10.0.0.0/8"), list1("12.0.0.0/8"), nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := setOf(t, c.members...)
			r.Update(delta(c.add, c.rm))
			d := r.Flush()
			require.Empty(t, d.Chains)
			require.Empty(t, d.Sets)
			added, deleted := texts(d, "n4-x")
			require.Equal(t, c.wantAdd, added)
			require.Equal(t, c.wantDelete, deleted)
		})
	}
}

// TestHostsBesidePrefixes (S91): full-length addresses are in a separate set, whatever prefix
// contains them.
func TestHostsBesidePrefixes(t *testing.T) {
	r := setOf(t, "10.0.0.0/8", "10.0.0.1/32", "10.0.0.2/32")
	r.Update(delta(nil, list1("10.0.0.2/32")))
	d := r.Flush()
	_, deleted := texts(d, "s4-x")
	require.Equal(t, list1("10.0.0.2"), deleted)
	require.Len(t, d.Elements, 1)
	require.Empty(t, d.Chains)
}

// TestEmptySets (S92): a kernel set exists while it has members. Rules are rendered again only when
// a kernel set is added or deleted.
func TestEmptySets(t *testing.T) {
	r := setOf(t)
	rules := func() []string {
		table, errs := r.Table()
		require.Empty(t, errs)
		require.NoError(t, table.Validate())
		var out []string
		for _, c := range table.Chains {
			if c.Name == "pol-ingress/shop/rules" {
				for _, rule := range c.Rules {
					out = append(out, rule.Comment)
				}
			}
		}
		return out
	}
	require.Equal(t, list1("out", "out"), rules(), "an empty set, for both families")
	r.Update(delta(list1("10.0.0.1/32"), nil))
	d := r.Flush()
	require.Len(t, d.Sets, 1)
	require.Equal(t, "s4-x", d.Sets[0].Name)
	require.Len(t, d.Chains, 1)
	require.Equal(t, list1("in", "out", "out"), rules())
	r.Update(delta(list1("10.0.0.2/32"), nil))
	d = r.Flush()
	require.Empty(t, d.Chains, "another member does not change the rules")
	require.Len(t, d.Elements, 1)
	r.Update(delta(list1("10.0.0.0/8", "fd00::/8"), nil))
	r.Flush()
	require.Equal(t, list1("in", "in", "in", "out", "out"), rules())
	r.Update(delta(nil, list1("10.0.0.1/32", "10.0.0.2/32", "10.0.0.0/8")))
	d = r.Flush()
	require.Equal(t, list1("n4-x", "s4-x"), slices.Sorted(slices.Values(d.DeleteSets)))
	require.Equal(t, list1("in", "out", "out"), rules())
}

// TestRandomPrefixes compares the elements after each delta with the widest prefixes of the set,
// which a comparison of all pairs finds.
func TestRandomPrefixes(t *testing.T) {
	for seed := range uint64(40) {
		w := nfttest.NewWorld(seed, 7)
		r := setOf(t, "192.0.2.0/24", "2001:db8::/64")
		state := ruleset.NewState(ruleset.FamilyINet, "wayleave")
		table, _ := r.Table()
		commit := func(d *ruleset.Delta) {
			change, err := state.Prepare(d)
			require.NoError(t, err, "seed %d", seed)
			state.Commit(change)
		}
		commit(&ruleset.Delta{Sets: table.Sets, Chains: table.Chains})
		members := map[netip.Prefix]bool{
			netip.MustParsePrefix("192.0.2.0/24"): true, netip.MustParsePrefix("2001:db8::/64"): true,
		}
		for range 60 {
			d := &dataplane.IPSetDelta{ID: "s:x"}
			for range 1 + w.IntN(3) {
				p := w.Prefix()
				isChanged := func(m dataplane.Member) bool { return m.Prefix == p }
				if slices.ContainsFunc(d.Added, isChanged) || slices.ContainsFunc(d.Removed, isChanged) {
					continue
				}
				if members[p] {
					d.Removed = append(d.Removed, dataplane.Member{Prefix: p})
				} else {
					d.Added = append(d.Added, dataplane.Member{Prefix: p})
				}
				members[p] = !members[p]
			}
			r.Update(dataplane.Batch{Events: []dataplane.Event{d}})
			commit(r.Flush())
			require.Equal(t, widest(members), shownIn(state.Table()), "seed %d", seed)
		}
	}
}

// widest returns the prefixes, shorter than addresses, that are inside no other member.
func widest(members map[netip.Prefix]bool) (out []string) {
	for p, in := range members {
		inside := false
		for q, there := range members {
			inside = inside || there && q.Bits() < p.Bits() && q.Contains(p.Addr())
		}
		if in && !inside && !p.IsSingleIP() {
			out = append(out, p.String())
		}
	}
	slices.Sort(out)
	return out
}

// shownIn returns the prefixes in the kernel's sets.
func shownIn(table *ruleset.Table) (out []string) {
	for _, s := range table.Sets {
		if s.Name != "n4-x" && s.Name != "n6-x" {
			continue
		}
		for _, e := range s.Elements {
			first, _ := netip.AddrFromSlice(e.Key[0])
			bits := 0
			for bits < first.BitLen() {
				p := netip.PrefixFrom(first, bits)
				if p.Masked().Addr() == first && slices.Equal(lastOf(p), []byte(e.Last)) {
					break
				}
				bits++
			}
			out = append(out, netip.PrefixFrom(first, bits).String())
		}
	}
	slices.Sort(out)
	return out
}

func lastOf(p netip.Prefix) []byte {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return b
}
