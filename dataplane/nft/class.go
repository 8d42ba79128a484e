// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// atom is what rules ask about an address: whether it is in an IP set, or in one of the prefixes of a list.
type atom struct {
	// name depends on what is asked alone. id is that of no other atom since the renderer was made.
	name string
	id   uint64
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
	key    string  // their ids
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
	byKey  map[string]*class
	none   *class
	// steps remembers which class an address is in after an atom came or went, unions that of what is in two. They are emptied whenever
	// a class goes.
	steps  map[classStep]*class
	unions map[[2]*class]*class
	// fresh are classes that were made since the groups were told. Some were but steps on the way to another.
	fresh []*class
	// atoms and key are scratch space: of a class that is looked for.
	atoms []*atom
	key   []byte
}

type classStep struct {
	from *class
	atom *atom
}

func newClassTable(f family) *classTable {
	none := &class{family: f}
	return &classTable{family: f, none: none, byKey: map[string]*class{"": none}, steps: map[classStep]*class{}, unions: map[[2]*class]*class{}}
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
	to := t.after(c, []atomStep{{a, in}})
	t.steps[step] = to
	return to
}

// atomStep says that an address comes to be in an atom, or to be no longer.
type atomStep struct {
	atom *atom
	in   bool
}

// after returns the class of an address of c after some steps, the latest of which comes first. It changes the order of those.
func (t *classTable) after(c *class, steps []atomStep) *class {
	slices.SortStableFunc(steps, func(x, y atomStep) int { return strings.Compare(x.atom.name, y.atom.name) })
	atoms, rest := t.atoms[:0], c.atoms
	for i, step := range steps {
		if i > 0 && steps[i-1].atom == step.atom {
			continue
		}
		for len(rest) > 0 && rest[0].name < step.atom.name {
			atoms, rest = append(atoms, rest[0]), rest[1:]
		}
		if len(rest) > 0 && rest[0] == step.atom {
			rest = rest[1:]
		}
		if step.in {
			atoms = append(atoms, step.atom)
		}
	}
	t.atoms = append(atoms, rest...)
	return t.of(t.atoms)
}

// of returns the class of the atoms, which are sorted.
func (t *classTable) of(atoms []*atom) *class {
	t.key = t.key[:0]
	for _, a := range atoms {
		t.key = binary.NativeEndian.AppendUint64(t.key, a.id)
	}
	c := t.byKey[string(t.key)]
	if c == nil {
		content := sha256.New()
		for _, a := range atoms {
			fmt.Fprintf(content, "%d:%s", len(a.name), a.name)
		}
		c = &class{
			numbered: numbered{content: string(content.Sum([]byte{byte(t.family)}))},
			family:   t.family, atoms: slices.Clone(atoms), key: string(t.key),
		}
		t.byKey[c.key] = c
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
	delete(t.byKey, c.key)
	t.steps, t.unions = emptied(t.steps), emptied(t.unions)
}
