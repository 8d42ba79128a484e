// SPDX-License-Identifier: Apache-2.0

package nft

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
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// spaceWorld is a renderer's spaces with few sets and lists over few addresses, and what is in each by plain sight.
type spaceWorld struct {
	*rand.Rand
	t      *testing.T
	r      *Renderer
	kernel *ruleset.State
	atoms  []*atom
	sets   []*ipSet
	// members is the model of each atom, by name; asked says which are told from others.
	members map[string]map[netip.Prefix]bool
	asked   map[string]bool
}

func newSpaceWorld(t *testing.T, seed uint64, narrow bool) *spaceWorld {
	r, err := NewRenderer(RendererConfig{})
	require.NoError(t, err)
	if narrow { // so that numbers collide all the time
		r.classes.classNumbers = newNumbers(func(hash uint32) uint32 { return 1 + hash%199 })
	}
	w := &spaceWorld{
		Rand: rand.New(rand.NewPCG(seed, 1)), t: t, r: r, kernel: ruleset.NewState(ruleset.FamilyINet, "t"),
		members: map[string]map[netip.Prefix]bool{}, asked: map[string]bool{},
	}
	for i := range 3 {
		s := r.set(dataplane.IPSetID(fmt.Sprint("s:", i)))
		s.replace(&dataplane.IPSetUpdate{})
		w.sets = append(w.sets, s)
		w.atoms = append(w.atoms, r.setAtom(s))
	}
	for range 3 {
		var nets []netip.Prefix
		for range 1 + w.IntN(3) {
			nets = append(nets, w.prefix())
		}
		a := r.listAtom(nets)
		w.atoms = append(w.atoms, a)
		w.members[a.name] = map[netip.Prefix]bool{}
		for _, n := range nets {
			w.members[a.name][n.Masked()] = true
		}
	}
	for i := range w.sets {
		w.members[w.atoms[i].name] = map[netip.Prefix]bool{}
	}
	return w
}

// universe is every address that is told from its neighbours by some prefix of the world.
func universe() (out []netip.Addr) {
	for _, s := range []string{"0.0.0.0", "9.255.255.255", "127.255.255.255", "128.0.0.0", "255.255.255.255", "::", "fcff::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"} {
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

func (w *spaceWorld) prefix() netip.Prefix {
	all := universe()
	a := all[w.IntN(len(all))]
	back := []int{0, 0, 0, 1, 2, 3, 4, a.BitLen() - 1, a.BitLen()}[w.IntN(9)]
	return netip.PrefixFrom(a, a.BitLen()-back).Masked()
}

// step does something at random.
func (w *spaceWorld) step() {
	i := w.IntN(len(w.atoms))
	a := w.atoms[i]
	switch n := w.IntN(10); {
	case n < 2:
		w.asked[a.name] = !w.asked[a.name]
		w.r.classes.include(a, w.asked[a.name])
	case i >= len(w.sets):
	case n == 2:
		w.sets[i].clear()
		clear(w.members[a.name])
	case n == 3:
		e := &dataplane.IPSetUpdate{}
		clear(w.members[a.name])
		for range w.IntN(4) {
			m := dataplane.Member{Prefix: w.prefix()}
			e.Members = append(e.Members, m, m)
			w.members[a.name][m.Prefix] = true
		}
		w.sets[i].replace(e)
	default:
		m, add := dataplane.Member{Prefix: w.prefix()}, w.IntN(2) == 0
		if !add && w.IntN(3) > 0 { // one that is there, mostly
			for p := range w.members[a.name] {
				m.Prefix = p
			}
		}
		delta := &dataplane.IPSetDelta{Added: []dataplane.Member{m}}
		if w.members[a.name][m.Prefix] = true; !add {
			delta.Added, delta.Removed = nil, delta.Added
			delete(w.members[a.name], m.Prefix)
		}
		w.sets[i].update(delta)
	}
}

// settle tells nobody of the classes that there are, for there are no groups.
func (w *spaceWorld) settle() {
	w.r.settleClasses()
}

func (w *spaceWorld) flush() {
	w.settle()
	d := &ruleset.Delta{}
	w.r.classes.v4.flush(d)
	w.r.classes.v6.flush(d)
	change, err := w.kernel.Prepare(d)
	require.NoError(w.t, err)
	w.kernel.Commit(change)
}

// want is the atoms that an address is in by plain sight.
func (w *spaceWorld) want(addr netip.Addr) (out []string) {
	for name, members := range w.members {
		for p := range members {
			if w.asked[name] && p.Contains(addr) {
				out = append(out, name)
				break
			}
		}
	}
	slices.Sort(out)
	return out
}

// holdsAll reports whether a list holds a whole family, so that nobody asks.
func (w *spaceWorld) holdsAll(name string, f family) bool {
	ranges := mergeNets(prefixesOf(f, slices.Collect(maps.Keys(w.members[name]))))
	return strings.HasPrefix(name, "list ") && len(ranges) > 0 && ranges[0].everything()
}

// got is the atoms that the kernel's maps say an address is in.
func (w *spaceWorld) got(table *ruleset.Table, addr netip.Addr) (out []string) {
	names := []string{mapClassRanges4, mapClass4} // the latter counts
	if addr.Is6() {
		names = []string{mapClassRanges6, mapClass6}
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
	c := w.r.classes.classNumbers.taken[number]
	require.NotNil(w.t, c, "class %d of %s", number, addr)
	for _, a := range w.class(c).atoms {
		out = append(out, a.name)
	}
	return out
}

func (w *spaceWorld) class(n *numbered) *class {
	for _, t := range []*classTable{w.r.classes.v4.classTable, w.r.classes.v6.classTable} {
		for _, c := range t.byKey {
			if &c.numbered == n {
				return c
			}
		}
	}
	w.t.Fatal("a number is that of no class")
	return nil
}

func (w *spaceWorld) check() {
	table := w.kernel.Table()
	slices.SortFunc(table.Sets, func(a, b *ruleset.Set) int { return -strings.Compare(a.Name, b.Name) }) // ranges first
	for _, addr := range universe() {
		all := func(name string) bool { return w.holdsAll(name, familyOf(addr)) }
		require.ElementsMatch(w.t, slices.DeleteFunc(w.want(addr), all), slices.DeleteFunc(w.got(table, addr), all), addr.String())
	}
	checkCounts(w.t, w.r, w.r.classes.v4)
	checkCounts(w.t, w.r, w.r.classes.v6)
	// The same content in a space that never had another.
	fresh, err := NewRenderer(RendererConfig{})
	require.NoError(w.t, err)
	fresh.classes.classNumbers.of = w.r.classes.classNumbers.of
	for _, a := range w.atoms {
		b := fresh.atom(a.name)
		if b.nets = a.nets; a.set != nil {
			b.set = a.set.clone()
			b.set.lookups = &fresh.lists
		}
		if w.asked[a.name] {
			fresh.classes.include(b, true)
		}
	}
	fresh.settleClasses()
	want := &ruleset.Table{Family: ruleset.FamilyINet, Name: "t", Sets: fresh.classSets()}
	want.Normalize()
	now := &ruleset.Table{Family: ruleset.FamilyINet, Name: "t", Sets: w.r.classSets()}
	now.Normalize()
	require.Equal(w.t, want.String(), now.String())
	require.Equal(w.t, want.String(), w.kernel.Table().String())
}

// checkCounts counts the members of each class anew.
func checkCounts[A addrBytes](t *testing.T, r *Renderer, s *space[A]) {
	members, parts := map[*class]int{}, map[*class]int{}
	for addr, own := range s.hosts {
		members[s.class(addr)]++
		parts[own]++
		require.NotSame(t, s.none, own)
	}
	for c := range rangesOf(s) {
		members[c.class]++
	}
	for _, c := range s.byKey {
		if c == s.none {
			continue
		}
		require.Equal(t, members[c], c.members, "%q", c.key)
		require.Equal(t, parts[c], c.parts, "%q", c.key)
		require.Equal(t, c.members > 0, c.live)
		require.True(t, c.live || c.parts > 0, "%q is kept for nothing", c.key)
		require.Equal(t, c.live, r.classes.classNumbers.taken[c.number] == &c.numbered)
		for _, a := range c.atoms {
			_, ok := a.classes[c]
			require.Equal(t, c.live, ok)
		}
	}
	for c := range members {
		require.Same(t, c, s.byKey[c.key])
	}
}

// rangesOf yields the ranges of a space.
func rangesOf[A addrBytes](s *space[A]) func(func(classRange[A]) bool) {
	return slices.Values(s.ranges.list)
}

// TestSpace holds the classes of addresses, and the kernel's maps that tell them, against plain sight, through random changes.
func TestSpace(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newSpaceWorld(t, seed, seed%2 == 0)
			for range 60 {
				for range 1 + w.IntN(6) {
					w.step()
					if w.IntN(8) == 0 { // as Table does
						w.settle()
					}
				}
				w.flush()
				w.check()
			}
			for _, a := range w.atoms {
				if w.asked[a.name] {
					w.r.classes.include(a, false)
					w.r.classes.loose[a] = struct{}{}
				}
				w.r.classes.loose[a] = struct{}{}
			}
			w.flush()
			require.Empty(t, w.kernel.Table().Sets)
			nothingLeft(t, w.r, w.r.classes.v4)
			nothingLeft(t, w.r, w.r.classes.v6)
			require.Empty(t, w.r.classes.atoms)
			require.Empty(t, w.r.classes.classNumbers.taken)
		})
	}
}

func nothingLeft[A addrBytes](t *testing.T, r *Renderer, s *space[A]) {
	require.Equal(t, []string{""}, slices.Collect(maps.Keys(s.byKey)))
	require.Empty(t, s.steps)
	require.Empty(t, s.fresh)
	require.Empty(t, s.moves)
	require.Empty(t, s.last)
	require.Empty(t, s.atoms)
	require.Empty(t, s.hosts)
	require.Empty(t, slices.Collect(rangesOf(s)))
	require.Empty(t, s.touched)
	require.Empty(t, s.unions)
	require.Empty(t, s.pending)
	require.Empty(t, s.ranges.pending)
	require.Empty(t, s.ranges.elements.elements)
	require.Empty(t, s.ranges.elements.changed)
}

// TestOneClassAnAddress: an address that comes to be in many sets at once is in no class on the way.
func TestOneClassAnAddress(t *testing.T) {
	w := newSpaceWorld(t, 1, false)
	host := dataplane.Member{Prefix: netip.MustParsePrefix("10.0.0.1/32")}
	for i := range 100 {
		s := w.r.set(dataplane.IPSetID(fmt.Sprint("s:many", i)))
		s.replace(&dataplane.IPSetUpdate{Members: []dataplane.Member{host}})
		w.r.classes.include(w.r.setAtom(s), true)
	}
	w.r.classes.v4.settleHosts()
	require.Len(t, w.r.classes.v4.fresh, 1)
}
