// SPDX-License-Identifier: Apache-2.0

package labelindex

import (
	"slices"
	"strings"

	"github.com/wayleave/wayleave/internal/idtable"
)

// term is a label name or a pair, under which queries can be filed. It has no items: every pair has
// a set of items, but few pairs have a term.
type term struct {
	parents   set    // with the label
	filed     set    // queries
	inherited uint32 // sum of the items of all parents; an item of several parents counts several times
}

// name is the state of a label name. It exists as long as a pair has the name or a query mentions
// it.
type name struct {
	term
	items    set    // with the name as an own label
	mentions set    // queries that mention the name
	loose    set    // loose queries that mention the name
	pairs    uint32 // pairs with the name
	seen     uint64 // last epoch in which an iteration over an item's labels visited the name
}

// pairKey is a label with its value.
type pairKey struct {
	name  uint32
	value string
}

// pair is the state of a label with its value. It exists as long as it has items or a term. There
// can be several pairs for each item, and few have a term, so it is small.
type pair struct {
	items set    // with the pair as an own label
	term  uint32 // number of the term plus one; zero if the pair has none
}

// vocabulary numbers label names and pairs, and has the items, parents and queries of each. An
// example:
//
//	          ┌── items    {3, 4, 9, ...}   with the label as their own
//	app=web ──┼── parents  {1}  ──▶ items {2, 7}   which inherit the label
//	          └── queries  {5}  ──▶ the selector, its ids, the items that it matches
type vocabulary struct {
	sets    sets
	names   idtable.Map[string, name]
	pairs   idtable.Map[pairKey, pair]
	termIDs idtable.IDs // of the terms of pairs
	terms   idtable.Column[term]
}

// internName returns the id of a name. A new name must get a pair or query before the call ends,
// see releaseName.
func (v *vocabulary) internName(text string) uint32 {
	id, hash, ok := v.names.Find(text)
	if !ok {
		id = v.names.Add(strings.Clone(text), hash)
	}
	return id
}

// releaseName removes a name without references.
func (v *vocabulary) releaseName(id uint32) {
	if n := v.names.At(id); n.pairs == 0 && n.mentions.n == 0 {
		v.names.Remove(id)
	}
}

// internPair returns the id of a pair. A new pair must get an item or a term before the call ends,
// see releasePair.
func (v *vocabulary) internPair(nameID uint32, value string) uint32 {
	id, hash, ok := v.pairs.Find(pairKey{nameID, value})
	if !ok {
		id = v.pairs.Add(pairKey{nameID, strings.Clone(value)}, hash)
		v.names.At(nameID).pairs++
	}
	return id
}

// internAll appends the pairs of a set of labels, sorted by id.
func (v *vocabulary) internAll(buf []uint32, labels map[string]string) []uint32 {
	from := len(buf)
	for text, value := range labels {
		buf = append(buf, v.internPair(v.internName(text), value))
	}
	slices.Sort(buf[from:])
	return buf
}

// equal reports whether the pairs are the labels.
func (v *vocabulary) equal(pairs []uint32, labels map[string]string) bool {
	if len(pairs) != len(labels) {
		return false
	}
	for _, id := range pairs {
		key := v.pairs.Key(id)
		if value, ok := labels[*v.names.Key(key.name)]; !ok || value != key.value {
			return false
		}
	}
	return true
}

// releasePair removes a pair without references.
func (v *vocabulary) releasePair(id uint32) {
	p := v.pairs.At(id)
	if p.term != 0 {
		termID := p.term - 1
		if t := v.terms.At(termID); t.parents.n > 0 || t.filed.n > 0 {
			return
		}
		v.termIDs.Free(termID)
		v.terms.Clear(termID, &v.termIDs)
		p.term = 0
	}
	if p.items.n > 0 {
		return
	}
	nameID := v.nameOf(id)
	v.pairs.Remove(id)
	v.names.At(nameID).pairs--
	v.releaseName(nameID)
}

// termOf returns the term of a pair, and creates it if there is none.
func (v *vocabulary) termOf(id uint32) *term {
	p := v.pairs.At(id)
	if p.term == 0 {
		termID := v.termIDs.Alloc()
		v.terms.Grow(termID)
		p.term = termID + 1
	}
	return v.terms.At(p.term - 1)
}

func (v *vocabulary) nameOf(pairID uint32) uint32 { return v.pairs.Key(pairID).name }

// addItem adds an item to the sets of a pair and its name.
func (v *vocabulary) addItem(item, pairID uint32) {
	v.sets.add(&v.pairs.At(pairID).items, item)
	v.sets.add(&v.names.At(v.nameOf(pairID)).items, item)
}

func (v *vocabulary) removeItem(item, pairID uint32) {
	v.sets.remove(&v.pairs.At(pairID).items, item)
	v.sets.remove(&v.names.At(v.nameOf(pairID)).items, item)
}

// addParent adds a parent to the sets of a pair and its name. items is the number of items of the
// parent.
func (v *vocabulary) addParent(parent, pairID, items uint32) {
	for _, t := range []*term{v.termOf(pairID), &v.names.At(v.nameOf(pairID)).term} {
		v.sets.add(&t.parents, parent)
		t.inherited += items
	}
}

func (v *vocabulary) removeParent(parent, pairID, items uint32) {
	for _, t := range []*term{v.termOf(pairID), &v.names.At(v.nameOf(pairID)).term} {
		v.sets.remove(&t.parents, parent)
		t.inherited -= items
	}
}

// difference calls visit for each id of the sorted list a that is not in the sorted list b.
func difference(a, b []uint32, visit func(id uint32)) {
	for _, id := range a {
		for len(b) > 0 && b[0] < id {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != id {
			visit(id)
		}
	}
}
