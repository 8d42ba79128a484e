// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"cmp"
	"errors"
	"slices"
)

// Change is what Prepare found: operations to carry out and, on Commit, what to make of the state.
type Change struct {
	// Ops are in an order that the kernel takes in one transaction; see State.Prepare.
	Ops []Op

	state      *State
	generation uint64
	chains     []*chainChange
	sets       []*setChange
	edges      map[edge]int32
	levels     map[*object]int32
}

// edge is that one object refers to another.
type edge struct{ from, to *object }

// chainChange is what happens to one chain.
type chainChange struct {
	o        *object
	old, new *Chain // nil where there is none
	// going says that the chain must be deleted first, for only its rules and its policy can be changed.
	going bool
}

// setChange is what happens to one set.
type setChange struct {
	o        *object
	old, new *Set // nil where there is none
	// going says that the set must be deleted first, for only its elements can be changed.
	going bool
	// content is of a set that is new or was going.
	content *object
	recordChange
	opAdd, opDelete []Element
	early, late     map[string]bool // keys of elements that no packet looks up
}

// recordChange is the change of the elements of a set that stays.
type recordChange struct {
	// gone and added are records, each in order if the store is. In a map to verdicts, an added record has
	// for a verdict its number among the elements.
	gone, added []byte
	adds        []Element
	extras      map[string]extra
	tally       map[Verdict]int // by how much the number of elements with the verdict changes
}

// fresh reports whether the set is made, be it again.
func (c *setChange) fresh() bool { return c.new != nil && (c.old == nil || c.going) }

// planner is one run of Prepare: it collects what changes and checks it.
type planner struct {
	*State
	change  *Change
	chainOf map[string]*chainChange
	setOf   map[string]*setChange
	v       *validator
	apart   bool
}

// Prepare checks a change and returns it with its operations, which are the fewest that leave alone
// all that can stay: as many rules as possible in their order, and elements. (Of lists of more than
// about 1,000 rules that all differ somewhat, a few more may go.) It takes time in proportion to
// the delta and to what refers to objects that must be deleted and made again (a chain with another
// hook, a set with another type); each range added to an interval set of a concatenation is
// compared with all of that set. The state is not altered.
//
// The operations come in this order: policies that become drop; what must be deleted and made
// again, with what holds on to it before it; sets and chains that are new, with elements and rules;
// Early elements; other elements and then rules of those that stay; base chains that are new;
// policies that become accept; Late elements; deletions. The kernel changes policies one by one, a
// moment after it has changed all rules at once: in this order, a chain drops in that moment rather
// than accept. Each of them may follow the ones before it, so that the list can be cut between any
// two as long as nothing must be made again.
//
// Errors: a join of one error a problem, as of Validate, and what is deleted while it is referred to.
func (s *State) Prepare(d *Delta) (*Change, error) {
	p := &planner{
		State:   s,
		change:  &Change{state: s, generation: s.generation, edges: map[edge]int32{}, levels: map[*object]int32{}},
		chainOf: map[string]*chainChange{}, setOf: map[string]*setChange{}, apart: d.Apart,
	}
	p.v = &validator{family: s.family, set: p.setNow, chain: p.chainNow}
	p.v.table(s.family, s.name)
	p.collectChains(d)
	p.collectSets(d)
	p.checkChains()
	p.fillSets(d)
	if err := errors.Join(p.v.errs...); err != nil {
		return nil, err
	}
	p.findEdges()
	p.checkReferences()
	(&levelFinder{planner: p}).find()
	if err := errors.Join(p.v.errs...); err != nil {
		return nil, err
	}
	(&opWriter{p}).write()
	return p.change, nil
}

// collectChains finds what happens to chains.
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
			c.going = new != nil && !c.old.Hook.samePlace(new.Hook)
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

// collectSets finds what happens to sets.
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
			p.v.addf("set %s: elements of a set that is not there", e.Set)
		} else {
			put(e.Set, o.set)
		}
	}
}

// chainNow returns the chain as it will be, nil if there will be none.
func (p *planner) chainNow(name string) *Chain {
	if c := p.chainOf[name]; c != nil {
		return c.new
	}
	return p.Chain(name)
}

// setNow returns the head of the set as it will be, nil if there will be none.
func (p *planner) setNow(name string) *Set {
	if c := p.setOf[name]; c != nil {
		return c.new
	}
	return p.Set(name)
}

// target returns the object that a reference will lead to, nil if there will be none.
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

// checkChains checks the chains that come, each on its own.
func (p *planner) checkChains() {
	for _, c := range p.change.chains {
		if c.new != nil {
			p.v.in("chain "+c.o.name, func() { p.v.checkChain(c.new) })
		}
	}
}

// findEdges notes which references come and go.
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

// before returns the object that a reference leads to in the state.
func (p *planner) before(r reference) *object {
	if r.set {
		return p.sets[r.name]
	}
	return p.chains[r.name]
}

// checkReferences checks that what refers to objects which go or become something else still may.
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

// String names the object.
func (o *object) String() string {
	if o.chain != nil {
		return "chain " + o.name
	}
	return "map " + o.name
}

// referrers returns what referred to the object and still will, by name.
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

// Commit makes the change so. It must be of this state's Prepare, with no other Commit since then:
// anything else is a mistake in the program, and panics.
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
