// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/internal/reuse"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
)

// Class consists of all addresses of a family that satisfy exactly the same predicates.
type Class struct {
	Numbered
	family     sets.Family
	predicates []*Predicate // by name
	key        string       // the ids of the predicates
	// members is the number of addresses and ranges in the class. The field hostRefs is the number
	// of full-length addresses that would be in the class if there were no prefixes.
	members, hostRefs int
	// hasAddresses is set if the class had members at the last Update.
	hasAddresses bool
}

// Family returns the family of the addresses.
func (c *Class) Family() sets.Family { return c.family }

// HasAddresses reports whether the class had addresses at the last Update.
func (c *Class) HasAddresses() bool { return c.hasAddresses }

// Predicates returns the predicates that the addresses satisfy, sorted by name. The caller must not
// change the list.
func (c *Class) Predicates() []*Predicate { return c.predicates }

// Has reports whether the addresses satisfy the predicate.
func (c *Class) Has(p *Predicate) bool {
	byName := func(x *Predicate, name string) int { return strings.Compare(x.name, name) }
	_, ok := slices.BinarySearchFunc(c.predicates, p.name, byName)
	return ok
}

// classIndex has the classes of a family, by their predicates.
type classIndex struct {
	family sets.Family
	byKey  map[string]*Class
	none   *Class
	// edits caches the classes that result from one edit. unions caches the classes of addresses
	// that satisfy the predicates of two classes. Both are cleared when a class is removed.
	edits  map[classEdit]*Class
	unions map[[2]*Class]*Class
	// fresh has the classes that were created since the last Update. They may be empty.
	fresh []*Class
	// predicates and key are scratch space for classOf.
	predicates []*Predicate
	key        []byte
}

type classEdit struct {
	from      *Class
	predicate *Predicate
}

func newClassIndex(f sets.Family) *classIndex {
	none := &Class{family: f}
	return &classIndex{
		family: f, none: none, byKey: map[string]*Class{"": none},
		edits: map[classEdit]*Class{}, unions: map[[2]*Class]*Class{},
	}
}

// with returns the class to which an address of c belongs after it begins to satisfy the predicate,
// or ceases to.
func (ix *classIndex) with(c *Class, p *Predicate, in bool) *Class {
	if c.Has(p) == in {
		return c
	}
	change := classEdit{c, p}
	if to := ix.edits[change]; to != nil {
		return to
	}
	to := ix.applyAll(c, []edit{{p, in}})
	ix.edits[change] = to
	return to
}

// edit records that an address begins to satisfy a predicate, or ceases to.
type edit struct {
	predicate *Predicate
	in        bool
}

// applyAll returns the class to which an address of c belongs after edits. The latest edit comes
// first. It sorts the edits.
func (ix *classIndex) applyAll(c *Class, edits []edit) *Class {
	slices.SortStableFunc(edits, func(x, y edit) int {
		return strings.Compare(x.predicate.name, y.predicate.name)
	})
	predicates, rest := ix.predicates[:0], c.predicates
	for i, e := range edits {
		if i > 0 && edits[i-1].predicate == e.predicate {
			continue
		}
		for len(rest) > 0 && rest[0].name < e.predicate.name {
			predicates, rest = append(predicates, rest[0]), rest[1:]
		}
		if len(rest) > 0 && rest[0] == e.predicate {
			rest = rest[1:]
		}
		if e.in {
			predicates = append(predicates, e.predicate)
		}
	}
	ix.predicates = append(predicates, rest...)
	return ix.classOf(ix.predicates)
}

// classOf returns the class of the addresses that satisfy the given predicates, which are sorted.
func (ix *classIndex) classOf(predicates []*Predicate) *Class {
	ix.key = ix.key[:0]
	for _, p := range predicates {
		ix.key = binary.NativeEndian.AppendUint64(ix.key, p.id)
	}
	c := ix.byKey[string(ix.key)]
	if c == nil {
		content := sha256.New()
		for _, p := range predicates {
			fmt.Fprintf(content, "%d:%s", len(p.name), p.name)
		}
		c = &Class{
			Numbered: Numbered{content: string(content.Sum([]byte{byte(ix.family)}))},
			family:   ix.family, predicates: slices.Clone(predicates), key: string(ix.key),
		}
		ix.byKey[c.key] = c
		ix.fresh = append(ix.fresh, c)
	}
	return c
}

// union returns the class of an address that satisfies the predicates of both classes.
func (ix *classIndex) union(a, b *Class) *Class {
	switch {
	case b == ix.none || a == b:
		return a
	case a == ix.none:
		return b
	}
	pair := [2]*Class{a, b}
	to := ix.unions[pair]
	if to == nil {
		predicates := slices.Concat(a.predicates, b.predicates)
		slices.SortFunc(predicates, func(x, y *Predicate) int { return strings.Compare(x.name, y.name) })
		to = ix.classOf(slices.Compact(predicates))
		ix.unions[pair] = to
	}
	return to
}

// removeIfEmpty removes a class if it has no addresses and no ranges.
func (ix *classIndex) removeIfEmpty(c *Class) {
	if c == ix.none || c.members > 0 || c.hostRefs > 0 || c.hasAddresses {
		return
	}
	delete(ix.byKey, c.key)
	ix.edits, ix.unions = reuse.Map(ix.edits), reuse.Map(ix.unions)
}
