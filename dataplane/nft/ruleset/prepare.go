// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"cmp"
	"errors"
	"slices"
)

// Change is the result of Prepare: the operations for the kernel, and the changes that Commit makes
// in the State.
type Change struct {
	// Ops are the operations of one transaction, in an order that the kernel accepts: see
	// State.Prepare.
	Ops []Op

	state      *State
	generation uint64
	chains     []*chainChange
	sets       []*setChange
	edges      map[edge]int32
	levels     map[*object]int32
}

// edge is a reference from one object to another.
type edge struct{ from, to *object }

// chainChange is the change of one chain.
type chainChange struct {
	o        *object
	old, new *Chain // nil if the chain does not exist
	// going is set if the chain must be deleted and recreated, because more than its rules and its
	// policy changes.
	going bool
}

// setChange is the change of one set.
type setChange struct {
	o        *object
	old, new *Set // nil if the set does not exist
	// going is set if the set must be deleted and recreated, because more than its elements
	// changes.
	going bool
	// content has the elements of a set that is new or recreated.
	content *object
	recordChange
	opAdd, opDelete []Element
	early, late     map[string]bool // keys of elements that no packet looks up
}

// recordChange is the change of the elements of a set that stays.
type recordChange struct {
	// gone and added are the records of removed and added elements, sorted if the store is. In a
	// verdict map, the verdict of an added record is its index in adds.
	gone, added []byte
	adds        []Element
	extras      map[string]extra
	tally       map[Verdict]int // the change in the number of elements with each verdict
}

// fresh reports whether the set is new or recreated.
func (c *setChange) fresh() bool { return c.new != nil && (c.old == nil || c.going) }

// planner has the state of one call of Prepare. It collects the changes and checks them.
type planner struct {
	*State
	change  *Change
	chainOf map[string]*chainChange
	setOf   map[string]*setChange
	v       *validator
	apart   bool
}

// Prepare checks a Delta, and returns the Change with the fewest operations: as many rules and
// elements as possible stay in the kernel. (If the changes of a chain span more than about 1,000
// rules, Prepare may replace some rules that could have stayed.) The state does not change until
// Commit.
//
// If the hook, type or priority of a chain changes, the chain is recreated: it is deleted, and a
// new one is added. A set is recreated if anything except its elements changes, such as its type.
//
// Prepare takes time in proportion to the Delta, with two exceptions:
//
//   - An object that is recreated takes time in proportion to the references to it.
//   - A range that is added to an interval set of a concatenation is compared with the whole set.
//
// The operations come in this order:
//
//  1. changes of base chain policies from accept to drop
//  2. deletions of the rules and elements that refer to objects that are recreated, then deletions
//     of these objects
//  3. new sets, and new chains that are not base chains, with their elements and rules
//  4. additions of the elements in ElementDelta.Early
//  5. in sets that stay, changes of elements that are neither in Early nor in Late; then, in chains
//     that stay, changes of rules
//  6. new base chains, with their rules
//  7. changes of base chain policies from drop to accept
//  8. deletions of the elements in ElementDelta.Late
//  9. other deletions
//
// In a transaction, the kernel first changes all rules, wherever they are in the list. Shortly
// after that, the kernel changes the base chain policies one by one, in the order of the list. The
// changes to drop come first, and the changes to accept last. So between two of these changes,
// packets are dropped rather than accepted.
//
// If no object is recreated, the caller may split the list anywhere into several transactions.
//
// Errors: a join of one error for each problem, as Validate returns them. It is also an error if
// something still refers to a deleted object.
func (s *State) Prepare(d *Delta) (*Change, error) {
	p := &planner{
		State:   s,
		change:  &Change{state: s, generation: s.generation, edges: map[edge]int32{}, levels: map[*object]int32{}},
		chainOf: map[string]*chainChange{}, setOf: map[string]*setChange{}, apart: d.Apart,
	}
	p.v = &validator{family: s.family, set: p.setNow, flowtables: s.flowtables, chain: p.chainNow}
	if d.whole {
		p.v.flowtables = d.flowtables
		checkSameFlowtables(p.v, s.flowtables, d.flowtables)
	}
	p.v.table(s.family, s.name)
	checkFlowtables(p.v)
	p.collectChains(d)
	p.collectSets(d)
	p.checkChains()
	p.fillSets(d)
	if err := errors.Join(p.v.errs...); err != nil {
		return nil, err
	}
	p.findEdges()
	p.checkReferences()
	(&levelFinder{plan: p}).find()
	if err := errors.Join(p.v.errs...); err != nil {
		return nil, err
	}
	(&opWriter{p}).write()
	return p.change, nil
}

// collectChains collects the changes of chains.
func (p *planner) collectChains(d *Delta) {
	put := func(name string, new *Chain) {
		if p.chainOf[name] != nil {
			p.v.addf("chain %s: occurs twice", name)
			return
		}
		c := &chainChange{o: p.chains[name], new: new}
		switch {
		case c.o != nil:
			c.old = c.o.chain
			c.going = new != nil && !c.old.Hook.sameExceptPolicy(new.Hook)
		case new == nil:
			return
		default:
			c.o = &object{name: name}
		}
		p.chainOf[name] = c
		p.change.chains = append(p.change.chains, c)
	}
	for i, c := range d.Chains {
		if c == nil {
			p.v.addf("chain number %d: nil", i+1)
			continue
		}
		put(c.Name, c)
	}
	for _, name := range d.DeleteChains {
		put(name, nil)
	}
}

// collectSets collects the changes of sets.
func (p *planner) collectSets(d *Delta) {
	put := func(name string, new *Set) *setChange {
		if p.setOf[name] != nil {
			p.v.addf("set %s: occurs twice", name)
			return nil
		}
		c := &setChange{o: p.sets[name]}
		switch {
		case c.o != nil:
			c.old = c.o.set
			c.going = new != nil && !c.old.sameHead(new)
		case new == nil:
			return nil
		default:
			c.o = &object{name: name}
		}
		if new != nil {
			head := *new
			head.Elements = nil
			c.new = &head
		}
		p.setOf[name] = c
		p.change.sets = append(p.change.sets, c)
		return c
	}
	for i, s := range d.Sets {
		if s == nil {
			p.v.addf("set number %d: nil", i+1)
			continue
		}
		put(s.Name, s)
	}
	for _, name := range d.DeleteSets {
		put(name, nil)
	}
	for _, e := range d.Elements {
		if o := p.sets[e.Set]; o == nil {
			p.v.addf("set %s: elements of a set that does not exist", e.Set)
		} else {
			put(e.Set, o.set)
		}
	}
}

// chainNow returns a chain in its new state, or nil if it is deleted or does not exist.
func (p *planner) chainNow(name string) *Chain {
	if c := p.chainOf[name]; c != nil {
		return c.new
	}
	return p.Chain(name)
}

// setNow returns a set in its new state, without elements, or nil if it is deleted or does not
// exist.
func (p *planner) setNow(name string) *Set {
	if c := p.setOf[name]; c != nil {
		return c.new
	}
	return p.Set(name)
}

// target returns the object to which a reference refers in the new state, or nil if there is none.
func (p *planner) target(r reference) *object {
	if r.set {
		if c := p.setOf[r.name]; c != nil && c.new == nil {
			return nil
		} else if c != nil {
			return c.o
		}
	} else if c := p.chainOf[r.name]; c != nil && c.new == nil {
		return nil
	} else if c != nil {
		return c.o
	}
	return p.before(r)
}

// checkChains checks each new or changed chain by itself.
func (p *planner) checkChains() {
	for _, c := range p.change.chains {
		if c.new != nil {
			p.v.in("chain "+c.o.name, func() { p.v.checkChain(c.new) })
		}
	}
}

// findEdges counts the references that the change adds and removes.
func (p *planner) findEdges() {
	count := func(from, to *object, by int32) {
		if to != nil {
			p.change.edges[edge{from, to}] += by
		}
	}
	for _, c := range p.change.chains {
		if c.old != nil {
			for i := range c.old.Rules {
				c.old.Rules[i].references(func(r reference) { count(c.o, p.before(r), -1) })
			}
		}
		if c.new != nil {
			for i := range c.new.Rules {
				c.new.Rules[i].references(func(r reference) { count(c.o, p.target(r), 1) })
			}
		}
	}
	for _, c := range p.change.sets {
		switch {
		case c.new == nil || c.going:
			for v := range c.o.verdicts.numbers {
				v.reference(func(r reference) { count(c.o, p.before(r), -1) })
			}
		default:
			for v, by := range c.tally {
				had := c.o.verdicts.count(v)
				if had > 0 && had+by == 0 {
					v.reference(func(r reference) { count(c.o, p.before(r), -1) })
				} else if had == 0 && by > 0 {
					v.reference(func(r reference) { count(c.o, p.target(r), 1) })
				}
			}
		}
		if c.content != nil {
			for v := range c.content.verdicts.numbers {
				v.reference(func(r reference) { count(c.o, p.target(r), 1) })
			}
		}
	}
}

// before returns the object to which a reference refers in the old state.
func (p *planner) before(r reference) *object {
	if r.set {
		return p.sets[r.name]
	}
	return p.chains[r.name]
}

// checkReferences checks that references to deleted or changed objects are still valid.
func (p *planner) checkReferences() {
	for _, c := range p.change.chains {
		if c.old == nil || c.new != nil && c.new.Hook == nil {
			continue
		}
		for _, from := range p.referrers(c.o) {
			if c.new == nil {
				p.v.addf("chain %s: deleted while %s refers to it", c.o.name, from)
			} else {
				p.v.addf("chain %s: becomes a base chain while %s refers to it", c.o.name, from)
			}
		}
	}
	for _, c := range p.change.sets {
		if c.old == nil || c.new != nil && !c.going {
			continue
		}
		for _, from := range p.referrers(c.o) {
			switch {
			case c.new == nil:
				p.v.addf("set %s: deleted while %s refers to it", c.o.name, from)
			case p.chainOf[from.name] == nil:
				p.v.in("chain "+from.name, func() { p.v.checkChain(from.chain) })
			}
		}
	}
}

// String returns the kind and the name of the object.
func (o *object) String() string {
	if o.chain != nil {
		return "chain " + o.name
	}
	return "map " + o.name
}

// referrers returns the objects that refer to the object both before and after the change, sorted.
func (p *planner) referrers(o *object) []*object {
	var out []*object
	for from, count := range o.refs {
		if count+p.change.edges[edge{from, o}] > 0 {
			out = append(out, from)
		}
	}
	slices.SortFunc(out, compareObjects)
	return out
}

// compareObjects orders by kind and name.
func compareObjects(a, b *object) int {
	if (a.chain == nil) != (b.chain == nil) {
		if a.chain != nil {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.name, b.name)
}

// Commit applies the change to the state. It panics if the change is not from Prepare of this
// state, or if another change was committed since that Prepare.
func (s *State) Commit(c *Change) {
	if c.state != s || c.generation != s.generation {
		panic("ruleset: commit of a change that was prepared for another state")
	}
	s.generation++
	for _, cc := range c.chains {
		cc.o.chain = cc.new
		if cc.new == nil {
			delete(s.chains, cc.o.name)
		} else {
			s.chains[cc.o.name] = cc.o
		}
	}
	for _, sc := range c.sets {
		if sc.new == nil {
			delete(s.sets, sc.o.name)
			continue
		}
		s.sets[sc.o.name] = sc.o
		if sc.fresh() {
			sc.o.set, sc.o.store = sc.new, sc.content.store
			sc.o.verdicts, sc.o.extras = sc.content.verdicts, sc.content.extras
			continue
		}
		sc.commit()
	}
	for e, by := range c.edges {
		if by == 0 {
			continue
		}
		if e.to.refs == nil {
			e.to.refs = map[*object]int32{}
		}
		if e.to.refs[e.from] += by; e.to.refs[e.from] == 0 {
			delete(e.to.refs, e.from)
		}
	}
	for o, level := range c.levels {
		o.level = level
	}
}
