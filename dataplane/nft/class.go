// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// atom is what rules ask about an address: whether it is in an IP set, or in one of the prefixes of a list.
type atom struct {
	// name depends on what is asked alone.
	name string
	set  *ipSet         // nil for a list
	nets []netip.Prefix // of a list
	// tiers are those whose rules ask, with how often. Without any, classes do not tell the atom's addresses from others.
	tiers map[*tierIndex]int
	// classes are the live ones that are in it.
	classes map[*class]struct{}
}

// class is all addresses of a family that are in just these atoms.
type class struct {
	numbered
	family family
	atoms  []*atom // by name
	// members counts the addresses and ranges that are in it, and parts the addresses that would be if no prefix held them.
	members, parts int
	// live says that it had members when the groups were told last.
	live bool
}

// has reports whether the class's addresses are in the atom.
func (c *class) has(a *atom) bool {
	_, ok := slices.BinarySearchFunc(c.atoms, a.name, func(x *atom, name string) int { return strings.Compare(x.name, name) })
	return ok
}

// classTable holds the classes of a family.
type classTable struct {
	family family
	byName map[string]*class
	none   *class
	// steps remembers which class an address is in after an atom came or went, unions that of what is in two. They are emptied whenever
	// a class goes.
	steps  map[classStep]*class
	unions map[[2]*class]*class
	// fresh are classes that were made since the groups were told. Some were but steps on the way to another.
	fresh []*class
}

type classStep struct {
	from *class
	atom *atom
}

func newClassTable(f family) *classTable {
	none := &class{family: f}
	return &classTable{family: f, none: none, byName: map[string]*class{"": none}, steps: map[classStep]*class{}, unions: map[[2]*class]*class{}}
}

// with returns the class of an address of c that has come to be in the atom, or to be no longer.
func (t *classTable) with(c *class, a *atom, in bool) *class {
	if c.has(a) == in {
		return c
	}
	step := classStep{c, a}
	if to := t.steps[step]; to != nil {
		return to
	}
	var atoms []*atom
	i, _ := slices.BinarySearchFunc(c.atoms, a.name, func(x *atom, name string) int { return strings.Compare(x.name, name) })
	if in {
		atoms = slices.Insert(slices.Clone(c.atoms), i, a)
	} else {
		atoms = slices.Delete(slices.Clone(c.atoms), i, i+1)
	}
	to := t.of(atoms)
	t.steps[step] = to
	return to
}

// of returns the class of the atoms, which are sorted.
func (t *classTable) of(atoms []*atom) *class {
	var name strings.Builder
	for _, a := range atoms {
		name.WriteString(strconv.Itoa(len(a.name)) + ":" + a.name)
	}
	c := t.byName[name.String()]
	if c == nil {
		c = &class{numbered: numbered{content: string(rune('0'+t.family)) + name.String()}, family: t.family, atoms: atoms}
		t.byName[name.String()] = c
		t.fresh = append(t.fresh, c)
	}
	return c
}

// union returns the class of an address that is in the atoms of both.
func (t *classTable) union(a, b *class) *class {
	switch {
	case b == t.none || a == b:
		return a
	case a == t.none:
		return b
	}
	pair := [2]*class{a, b}
	to := t.unions[pair]
	if to == nil {
		atoms := slices.Concat(a.atoms, b.atoms)
		slices.SortFunc(atoms, func(x, y *atom) int { return strings.Compare(x.name, y.name) })
		to = t.of(slices.Compact(atoms))
		t.unions[pair] = to
	}
	return to
}

// forget drops a class that nothing is in any more, nor would be.
func (t *classTable) forget(c *class) {
	if c == t.none || c.members > 0 || c.parts > 0 || c.live {
		return
	}
	delete(t.byName, c.content[1:])
	t.steps, t.unions = emptied(t.steps), emptied(t.unions)
}
