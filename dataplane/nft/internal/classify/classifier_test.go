// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// classModel is a Classifier with few sets and lists over few addresses, and a model of each
// predicate.
type classModel struct {
	*rand.Rand
	t          *testing.T
	c          *Classifier
	lists      sets.Lists
	kernel     *ruleset.State
	predicates []*Predicate
	sets       []*sets.IPSet
	// members is the model of each predicate, by name. inUse has the predicates in use.
	members map[string]map[netip.Prefix]bool
	inUse   map[string]bool
}

func testConfig() Config {
	return Config{Number: func(hash uint32) uint32 { return max(1, hash>>1) }}
}

func newClassModel(t *testing.T, seed uint64, narrow bool) *classModel {
	cfg := testConfig()
	if narrow { // so that many numbers collide
		cfg.Number = func(hash uint32) uint32 { return 1 + hash%199 }
	}
	w := &classModel{
		Rand: rand.New(rand.NewPCG(seed, 1)), t: t, c: New(cfg), lists: sets.NewLists(),
		kernel:  ruleset.NewState(ruleset.FamilyINet, "t"),
		members: map[string]map[netip.Prefix]bool{}, inUse: map[string]bool{},
	}
	for i := range 3 {
		s := sets.NewIPSet(dataplane.IPSetID(fmt.Sprint("s:", i)), &w.lists)
		s.Replace(&dataplane.IPSetUpdate{})
		w.sets = append(w.sets, s)
		w.predicates = append(w.predicates, w.c.Set(s))
	}
	for range 3 {
		var nets []netip.Prefix
		for range 1 + w.IntN(3) {
			nets = append(nets, w.prefix())
		}
		p := w.c.List(nets)
		w.predicates = append(w.predicates, p)
		w.members[p.name] = map[netip.Prefix]bool{}
		for _, n := range nets {
			w.members[p.name][n.Masked()] = true
		}
	}
	for i := range w.sets {
		w.members[w.predicates[i].name] = map[netip.Prefix]bool{}
	}
	return w
}

// universe returns every address that a prefix of the model distinguishes from its neighbours.
func universe() (out []netip.Addr) {
	for _, s := range []string{
		"0.0.0.0", "9.255.255.255", "127.255.255.255", "128.0.0.0", "255.255.255.255",
		"::", "fcff::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
	} {
		out = append(out, netip.MustParseAddr(s))
	}
	for _, base := range []string{"10.0.0.0", "fd00::"} {
		a := netip.MustParseAddr(base)
		for range 18 {
			out = append(out, a)
			a = a.Next()
		}
	}
	return out
}

func (w *classModel) prefix() netip.Prefix {
	all := universe()
	a := all[w.IntN(len(all))]
	back := []int{0, 0, 0, 1, 2, 3, 4, a.BitLen() - 1, a.BitLen()}[w.IntN(9)]
	return netip.PrefixFrom(a, a.BitLen()-back).Masked()
}

// step makes a random change.
func (w *classModel) step() {
	i := w.IntN(len(w.predicates))
	p := w.predicates[i]
	switch n := w.IntN(10); {
	case n < 2:
		w.inUse[p.name] = !w.inUse[p.name]
		if w.inUse[p.name] {
			w.c.Use(p)
		} else {
			w.c.Release(p)
		}
	case i >= len(w.sets):
	case n == 2:
		w.sets[i].Replace(&dataplane.IPSetUpdate{})
		clear(w.members[p.name])
	case n == 3:
		e := &dataplane.IPSetUpdate{}
		clear(w.members[p.name])
		for range w.IntN(4) {
			m := dataplane.Member{Prefix: w.prefix()}
			e.Members = append(e.Members, m, m)
			w.members[p.name][m.Prefix] = true
		}
		w.sets[i].Replace(e)
	default:
		m, add := dataplane.Member{Prefix: w.prefix()}, w.IntN(2) == 0
		if !add && w.IntN(3) > 0 { // usually a member of the set
			for prefix := range w.members[p.name] {
				m.Prefix = prefix
			}
		}
		delta := &dataplane.IPSetDelta{Added: []dataplane.Member{m}}
		if w.members[p.name][m.Prefix] = true; !add {
			delta.Added, delta.Removed = nil, delta.Added
			delete(w.members[p.name], m.Prefix)
		}
		w.sets[i].Update(delta)
	}
}

// update computes the classes and their numbers.
func (w *classModel) update() {
	if w.c.Update(func(*Class) {}) {
		w.c.Renumber()
	}
}

func (w *classModel) flush() {
	w.update()
	d := &ruleset.Delta{}
	w.c.Flush(d)
	change, err := w.kernel.Prepare(d)
	require.NoError(w.t, err)
	w.kernel.Commit(change)
}

// want returns the predicates that an address satisfies in the model.
func (w *classModel) want(addr netip.Addr) (out []string) {
	for name, members := range w.members {
		for p := range members {
			if w.inUse[name] && p.Contains(addr) {
				out = append(out, name)
				break
			}
		}
	}
	slices.Sort(out)
	return out
}

// holdsAll reports whether a list contains a whole family, so that no rule uses it.
func (w *classModel) holdsAll(name string, f sets.Family) bool {
	ranges := sets.MergeNets(sets.PrefixesOf(f, slices.Collect(maps.Keys(w.members[name]))))
	return strings.HasPrefix(name, "list ") && len(ranges) > 0 && ranges[0].Everything()
}

// got returns the predicates that an address satisfies according to the kernel's maps.
func (w *classModel) got(table *ruleset.Table, addr netip.Addr) (out []string) {
	names := []string{mapPrefixes4, mapHosts4} // the latter takes precedence
	if addr.Is6() {
		names = []string{mapPrefixes6, mapHosts6}
	}
	number := uint32(0)
	for _, s := range table.Sets {
		for _, e := range s.Elements {
			last := e.Last
			if last == nil {
				last = e.Key[0]
			}
			if s.Name == names[0] && number == 0 || s.Name == names[1] {
				if bytes.Compare(e.Key[0], addr.AsSlice()) <= 0 && bytes.Compare(addr.AsSlice(), last) <= 0 {
					number = binary.NativeEndian.Uint32(e.Data[0])
				}
			}
		}
	}
	if number == 0 {
		return nil
	}
	c := w.c.numbers.taken[number]
	require.NotNil(w.t, c, "class %d of %s", number, addr)
	for _, p := range w.class(c).predicates {
		out = append(out, p.name)
	}
	return out
}

func (w *classModel) class(n *Numbered) *Class {
	for _, t := range []*classIndex{w.c.v4.classIndex, w.c.v6.classIndex} {
		for _, c := range t.byKey {
			if &c.Numbered == n {
				return c
			}
		}
	}
	w.t.Fatal("no class has the number")
	return nil
}

func (w *classModel) check() {
	table := w.kernel.Table()
	// Ranges come first.
	slices.SortFunc(table.Sets, func(a, b *ruleset.Set) int { return -strings.Compare(a.Name, b.Name) })
	for _, addr := range universe() {
		all := func(name string) bool { return w.holdsAll(name, sets.FamilyOf(addr)) }
		want, got := slices.DeleteFunc(w.want(addr), all), slices.DeleteFunc(w.got(table, addr), all)
		require.ElementsMatch(w.t, want, got, addr.String())
	}
	checkCounts(w.t, w.c, w.c.v4)
	checkCounts(w.t, w.c, w.c.v6)
	// A new Classifier with the same predicates has the same maps.
	cfg := testConfig()
	cfg.Number = w.c.numbers.number
	fresh, lists := New(cfg), sets.NewLists()
	for _, p := range w.predicates {
		b := fresh.predicate(p.name)
		if b.nets = p.nets; p.set != nil {
			b.set = p.set.Clone(&lists)
		}
		if w.inUse[p.name] {
			fresh.Use(b)
		}
	}
	fresh.Update(func(*Class) {})
	want := &ruleset.Table{Family: ruleset.FamilyINet, Name: "t", Sets: fresh.Sets()}
	want.Normalize()
	now := &ruleset.Table{Family: ruleset.FamilyINet, Name: "t", Sets: w.c.Sets()}
	now.Normalize()
	require.Equal(w.t, want.String(), now.String())
	require.Equal(w.t, want.String(), w.kernel.Table().String())
}

// checkCounts requires that members and hostRefs of each class equal new counts.
func checkCounts[A addrBytes](t *testing.T, r *Classifier, m *addressMap[A]) {
	members, hostRefs := map[*Class]int{}, map[*Class]int{}
	for addr, own := range m.hosts {
		members[m.class(addr)]++
		hostRefs[own]++
		require.NotSame(t, m.none, own)
	}
	for c := range rangesOf(m) {
		members[c.class]++
	}
	for _, c := range m.byKey {
		if c == m.none {
			continue
		}
		require.Equal(t, members[c], c.members, "%q", c.key)
		require.Equal(t, hostRefs[c], c.hostRefs, "%q", c.key)
		require.Equal(t, c.members > 0, c.hasAddresses)
		require.True(t, c.hasAddresses || c.hostRefs > 0, "class %q has no address but was not removed", c.key)
		require.Equal(t, c.hasAddresses, r.numbers.taken[c.number] == &c.Numbered)
		for _, p := range c.predicates {
			_, ok := p.classes[c]
			require.Equal(t, c.hasAddresses, ok)
		}
	}
	for c := range members {
		require.Same(t, c, m.byKey[c.key])
	}
}

// rangesOf yields the ranges of an address map.
func rangesOf[A addrBytes](m *addressMap[A]) func(func(classRange[A]) bool) {
	return slices.Values(m.ranges.list)
}

// The classes of addresses and the kernel's maps agree with the model after random changes.
func TestClassesAgreeWithModel(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newClassModel(t, seed, seed%2 == 0)
			for range 60 {
				for range 1 + w.IntN(6) {
					w.step()
					if w.IntN(8) == 0 { // several updates before a flush, as Renderer.Table causes
						w.update()
					}
				}
				w.flush()
				w.check()
			}
			for _, p := range w.predicates {
				if w.inUse[p.name] {
					w.c.Release(p)
				}
				w.c.released[p] = struct{}{} // including those that were never in use
			}
			w.flush()
			require.Empty(t, w.kernel.Table().Sets)
			nothingLeft(t, w.c.v4)
			nothingLeft(t, w.c.v6)
			require.Empty(t, w.c.predicates)
			require.Empty(t, w.c.numbers.taken)
		})
	}
}

func nothingLeft[A addrBytes](t *testing.T, m *addressMap[A]) {
	require.Equal(t, []string{""}, slices.Collect(maps.Keys(m.byKey)))
	require.Empty(t, m.edits)
	require.Empty(t, m.fresh)
	require.Empty(t, m.hostEdits)
	require.Empty(t, m.last)
	require.Empty(t, m.predicates)
	require.Empty(t, m.hosts)
	require.Empty(t, slices.Collect(rangesOf(m)))
	require.Empty(t, m.resized)
	require.Empty(t, m.unions)
	require.Empty(t, m.pending)
	require.Empty(t, m.ranges.pending)
	require.Zero(t, m.ranges.elements.Len())
	require.Zero(t, m.ranges.elements.Changed())
}

// An address that is added to many sets at once changes its class once.
func TestManyEditsCreateOneClass(t *testing.T) {
	w := newClassModel(t, 1, false)
	host := dataplane.Member{Prefix: netip.MustParsePrefix("10.0.0.1/32")}
	for i := range 100 {
		s := sets.NewIPSet(dataplane.IPSetID(fmt.Sprint("s:many", i)), &w.lists)
		s.Replace(&dataplane.IPSetUpdate{Members: []dataplane.Member{host}})
		w.c.Use(w.c.Set(s))
	}
	w.c.v4.updateHosts()
	require.Len(t, w.c.v4.fresh, 1)
}
