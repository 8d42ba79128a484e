// SPDX-License-Identifier: Apache-2.0

package labelindex

import (
	"slices"
	"strings"

	"github.com/wayleave/wayleave/internal/idtable"
)

// term is something that queries can be filed under: a label name, or a pair. The items with a
// label of their own are listed apart, since each pair has them.
type term struct {
	parents   set    // that have the label
	filed     set    // queries
	inherited uint32 // items of those parents; one of several of them counts as often
}

// name is what is known of one label name. It is kept as long as there is a pair with it or a
// query that mentions it.
type name struct {
	term
	items    set    // with a label of their own of that name
	mentions set    // queries that mention it
	loose    set    // loose ones among them
	pairs    uint32 // pairs with the name
	seen     uint64 // epoch in which a walk over an item's labels last met it
}

// pairKey names a label with its value.
type pairKey struct {
	name  uint32
	value string
}

// pair is what is known of one label with its value. It is kept as long as something refers to it.
// There can be several for each item, so it holds what all need; few have a term.
type pair struct {
	items set    // with that label of their own
	term  uint32 // number of its term plus one, or zero
}

// vocabulary numbers label names and pairs of name and value, and files under them who has them.
type vocabulary struct {
	sets    sets
	names   idtable.Map[string, name]
	pairs   idtable.Map[pairKey, pair]
	termIDs idtable.IDs // of pairs
	terms   idtable.Column[term]
}

// internName returns the id of a name. A new one must be put to use before the call ends, see
// releaseName.
func (v *vocabulary) internName(text string) uint32 {
	id, hash, ok := v.names.Find(text)
	if !ok {
		id = v.names.Add(strings.Clone(text), hash)
	}
	return id
}

// releaseName forgets a name that nothing refers to.
func (v *vocabulary) releaseName(id uint32) {
	if n := v.names.At(id); n.pairs == 0 && n.mentions.n == 0 {
		v.names.Remove(id)
	}
}

// internPair returns the id of a pair. A new one must be put to use before the call ends, see
// releasePair.
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

// equal reports whether the pairs, as many as there are labels, are these labels.
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

// releasePair forgets a pair that nothing refers to.
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

// termOf returns the term of a pair, made on first use.
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

// giveItem and takeItem change the lists of who has a label of their own.
func (v *vocabulary) giveItem(item, pairID uint32) {
	v.sets.add(&v.pairs.At(pairID).items, item)
	v.sets.add(&v.names.At(v.nameOf(pairID)).items, item)
}

func (v *vocabulary) takeItem(item, pairID uint32) {
	v.sets.remove(&v.pairs.At(pairID).items, item)
	v.sets.remove(&v.names.At(v.nameOf(pairID)).items, item)
}

// giveParent and takeParent do so for parents, with as many items as they have.
func (v *vocabulary) giveParent(parent, pairID, items uint32) {
	for _, t := range []*term{v.termOf(pairID), &v.names.At(v.nameOf(pairID)).term} {
		v.sets.add(&t.parents, parent)
		t.inherited += items
	}
}

func (v *vocabulary) takeParent(parent, pairID, items uint32) {
	for _, t := range []*term{v.termOf(pairID), &v.names.At(v.nameOf(pairID)).term} {
		v.sets.remove(&t.parents, parent)
		t.inherited -= items
	}
}

// only calls visit for every id that the first of two sorted lists has and the second has not.
func only(a, b []uint32, visit func(id uint32)) {
	for _, id := range a {
		for len(b) > 0 && b[0] < id {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != id {
			visit(id)
		}
	}
}
