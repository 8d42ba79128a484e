// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"cmp"
	"slices"
)

// opWriter writes the operations of a change after all checks: see Prepare.
type opWriter struct{ plan *planner }

// write writes all operations, in the order that the comment of Prepare describes.
func (w *opWriter) write() {
	slices.SortFunc(w.plan.change.chains, func(a, b *chainChange) int { return cmp.Compare(a.o.name, b.o.name) })
	slices.SortFunc(w.plan.change.sets, func(a, b *setChange) int { return cmp.Compare(a.o.name, b.o.name) })
	w.policies(Drop)
	released := w.release()
	w.build()
	late := w.elementChanges()
	for _, h := range released.elements {
		w.elements(AddElements, h.set, h.elements)
	}
	for _, c := range w.plan.change.chains {
		if c.old != nil && c.new != nil && !c.going {
			w.rules(c.new, released.without(c.o, c.old.Rules))
		}
	}
	for _, c := range released.chains {
		if w.plan.chainOf[c.name] == nil {
			w.rules(c.chain, released.without(c, c.chain.Rules))
		}
	}
	w.buildBases()
	w.policies(Accept)
	for _, h := range late {
		w.op(Op{Kind: DeleteElements, Set: h.set, Elements: h.elements, Unseen: true})
	}
	w.destroy(func(again, last bool) bool { return last })
}

func removeKeys(keys map[string]bool, of []Element) {
	for i := range of {
		delete(keys, elementKey(&of[i]))
	}
}

// elementChanges plans the element changes of existing sets, and returns the Late elements.
func (w *opWriter) elementChanges() (late []setElements) {
	for _, c := range w.plan.change.sets {
		// An element that replaces another one is not unseen: packets look it up at any time.
		if len(c.early) > 0 {
			removeKeys(c.early, c.opDelete)
		}
		if len(c.late) > 0 {
			removeKeys(c.late, c.opAdd)
		}
		if _, early := divide(c.opAdd, c.early); len(early) > 0 && c.new != nil && !c.fresh() {
			w.op(Op{Kind: AddElements, Set: c.o.set, Elements: early, Unseen: true})
		}
	}
	for _, c := range w.plan.change.sets {
		if c.new == nil || c.fresh() {
			continue
		}
		add, _ := divide(c.opAdd, c.early)
		remove, last := divide(c.opDelete, c.late)
		w.elements(DeleteElements, c.o.set, remove)
		w.elements(AddElements, c.o.set, add)
		if len(last) > 0 {
			late = append(late, setElements{c.o.set, last})
		}
	}
	return late
}

func (w *opWriter) op(o Op) {
	o.Family, o.Table, o.Apart = w.plan.family, w.plan.name, w.plan.apart
	w.plan.change.Ops = append(w.plan.change.Ops, o)
}

// policies writes the changes of base chains' policies to the given verdict, for chains that stay.
func (w *opWriter) policies(to VerdictKind) {
	for _, c := range w.plan.change.chains {
		if c.old != nil && c.new != nil && !c.going && !c.old.Hook.Equal(c.new.Hook) && c.new.Hook.Policy.Kind == to {
			w.op(Op{Kind: ChangePolicy, Chain: c.new})
		}
	}
}

// elements writes an operation on elements, unless there are none.
func (w *opWriter) elements(kind OpKind, set *Set, elements []Element) {
	if len(elements) > 0 {
		w.op(Op{Kind: kind, Set: set, Elements: elements})
	}
}

// rules writes the operations that turn the old rules into the rules of the chain.
func (w *opWriter) rules(c *Chain, old []Rule) {
	diffRules(old, c.Rules, func(kind OpKind, index int, r Rule) {
		w.op(Op{Kind: kind, Chain: c, Index: index, Rule: r})
	})
}

// released has deleted rules and elements. They refer to objects that are deleted and recreated.
// After that, the elements are added again, and so are the rules that the chain still has.
type released struct {
	chains   []*object
	rules    map[*object][]bool // for each rule of the chain: whether it is deleted
	elements []setElements
}

// setElements are elements of one set.
type setElements struct {
	set      *Set
	elements []Element
}

// without returns the rules of a chain that are not deleted.
func (h *released) without(o *object, rules []Rule) []Rule {
	gone := h.rules[o]
	if gone == nil {
		return rules
	}
	var out []Rule
	for i, r := range rules {
		if !gone[i] {
			out = append(out, r)
		}
	}
	return out
}

// release deletes the objects that are recreated. Before that, it deletes the rules and elements
// that refer to them.
func (w *opWriter) release() *released {
	h := &released{rules: map[*object][]bool{}}
	going := map[*object]bool{}
	for _, c := range w.plan.change.chains {
		if c.going {
			going[c.o] = true
		}
	}
	for _, c := range w.plan.change.sets {
		if c.going {
			going[c.o] = true
		}
	}
	if len(going) == 0 {
		return h
	}
	referrers := map[*object]bool{}
	for o := range going {
		for from := range o.refs {
			referrers[from] = !going[from]
		}
	}
	for from, stays := range referrers {
		if stays && from.chain != nil {
			h.chains = append(h.chains, from)
		}
	}
	slices.SortFunc(h.chains, compareObjects)
	for _, from := range h.chains {
		w.releaseRules(h, from, going)
	}
	var maps []*object
	for from, stays := range referrers {
		if stays && from.chain == nil {
			maps = append(maps, from)
		}
	}
	slices.SortFunc(maps, compareObjects)
	for _, from := range maps {
		w.releaseElements(h, from, going)
	}
	w.destroy(func(again, last bool) bool { return again })
	return h
}

// releaseRules deletes the rules of a chain that refer to deleted objects, from the last rule to
// the first.
func (w *opWriter) releaseRules(h *released, from *object, going map[*object]bool) {
	rules := from.chain.Rules
	h.rules[from] = make([]bool, len(rules))
	chain := w.plan.chainNow(from.name)
	if chain == nil { // the chain itself is deleted later
		chain = &Chain{Name: from.name, Hook: from.chain.Hook}
	}
	for i := len(rules) - 1; i >= 0; i-- {
		rules[i].references(func(r reference) { h.rules[from][i] = h.rules[from][i] || going[w.plan.before(r)] })
		if h.rules[from][i] {
			w.op(Op{Kind: DeleteRule, Chain: chain, Index: i, Rule: rules[i]})
		}
	}
}

// releaseElements deletes the elements of a map that lead to deleted chains. Those that the table
// keeps are added again later.
func (w *opWriter) releaseElements(h *released, from *object, going map[*object]bool) {
	deletes := make([]bool, len(from.verdicts.entries))
	for i, e := range from.verdicts.entries {
		e.verdict.reference(func(r reference) { deletes[i] = going[w.plan.before(r)] })
	}
	c := w.plan.setOf[from.name]
	gone := newIndex(from.set)
	if c != nil {
		for at := 0; at < len(c.gone); at += gone.stride {
			gone.put(c.gone[at : at+gone.stride])
		}
	}
	var out, back []Element
	for rec := range from.store.records() {
		if !deletes[verdictNumber(rec)] {
			continue
		}
		out = append(out, from.element(rec))
		if gone.find(rec) == nil {
			back = append(back, out[len(out)-1])
		} else {
			gone.remove(rec)
		}
	}
	slices.SortFunc(out, CompareElements)
	slices.SortFunc(back, CompareElements)
	w.elements(DeleteElements, from.set, out)
	if c != nil && c.new == nil {
		return
	}
	if c != nil {
		c.opDelete = nil
		for rec := range gone.records() {
			c.opDelete = append(c.opDelete, from.element(rec))
		}
		slices.SortFunc(c.opDelete, CompareElements)
	}
	if len(back) > 0 {
		h.elements = append(h.elements, setElements{from.set, back})
	}
}

// destroy deletes either the chains and sets that are recreated, or those that the change removes.
// An object that refers to another one has a lower level, and is deleted before it.
func (w *opWriter) destroy(which func(again, last bool) bool) {
	type victim struct {
		o  *object
		op Op
	}
	var victims []victim
	for _, c := range w.plan.change.chains {
		if c.old != nil && which(c.going, c.new == nil) {
			victims = append(victims, victim{c.o, Op{Kind: DeleteChain, Chain: c.old}})
		}
	}
	for _, c := range w.plan.change.sets {
		if c.old != nil && which(c.going, c.new == nil) {
			victims = append(victims, victim{c.o, Op{Kind: DeleteSet, Set: c.old}})
		}
	}
	slices.SortFunc(victims, func(a, b victim) int {
		return cmp.Or(cmp.Compare(a.o.level, b.o.level), compareObjects(a.o, b.o))
	})
	for _, v := range victims {
		w.op(v.op)
	}
}

// build adds the new sets, and the new chains that are not base chains. For a set of ranges, nft
// 1.0.6 adds the elements together with the set. So verdict maps of ranges come after the chains to
// which their elements lead.
func (w *opWriter) build() {
	sets := func(rangeMaps bool) {
		for _, c := range w.plan.change.sets {
			if c.fresh() && rangeMaps == (c.new.Interval && c.new.Verdicts) {
				w.op(Op{Kind: AddSet, Set: c.new})
			}
		}
	}
	sets(false)
	chains := w.fresh(false)
	for _, c := range chains {
		w.op(Op{Kind: AddChain, Chain: c})
	}
	sets(true)
	for _, c := range w.plan.change.sets {
		if c.fresh() {
			w.elements(AddElements, c.new, c.opAdd)
		}
	}
	for _, c := range chains {
		w.rules(c, nil)
	}
}

// buildBases adds the new base chains, each with its rules.
func (w *opWriter) buildBases() {
	for _, c := range w.fresh(true) {
		w.op(Op{Kind: AddChain, Chain: c})
		w.rules(c, nil)
	}
}

// fresh returns the chains that are new or recreated.
func (w *opWriter) fresh(base bool) []*Chain {
	var chains []*Chain
	for _, c := range w.plan.change.chains {
		if c.new != nil && (c.old == nil || c.going) && (c.new.Hook != nil) == base {
			chains = append(chains, c.new)
		}
	}
	return chains
}
