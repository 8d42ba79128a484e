// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"cmp"
	"maps"
	"slices"
)

// findLevels checks that no more than MaxDepth jumps follow one another, which no loop can keep to.
// Each object's level is at least the length of the longest way to it, and is raised along new
// references. Only if that leads too high is it found out, for the whole table, whether old
// references that are gone are to blame.
func (p *planner) findLevels() {
	for _, c := range p.change.chains {
		if c.new != nil {
			p.raiseTargets(c.o)
		}
	}
	for _, c := range p.change.sets {
		switch {
		case c.new == nil:
		case c.fresh():
			p.raiseTargets(c.o)
		default: // What other elements lead to is as high as it must be, and there may be many.
			for v, by := range c.tally {
				if by > 0 && c.o.verdicts.count(v) == 0 {
					v.reference(func(r reference) { p.raise(p.target(r), p.level(c.o)) })
				}
			}
		}
	}
	if p.tripped {
		p.exactLevels()
	}
}

// level returns the object's level so far.
func (p *planner) level(o *object) int32 {
	if level, ok := p.change.levels[o]; ok {
		return level
	}
	return o.level
}

// raiseTargets raises what the object leads to, as far as it must.
func (p *planner) raiseTargets(o *object) {
	level := p.level(o)
	p.targets(o, func(to *object) { p.raise(to, level) })
}

// raise raises an object that another of this level leads to, and what it leads to itself.
func (p *planner) raise(to *object, level int32) {
	if p.isChain(to) {
		level++
	}
	switch {
	case level <= p.level(to):
	case level > MaxDepth:
		p.tripped = true
	default:
		p.change.levels[to] = level
		p.raiseTargets(to)
	}
}

// isChain reports whether the object is a chain, or will be.
func (p *planner) isChain(o *object) bool {
	if o.chain != nil || o.set != nil {
		return o.chain != nil
	}
	c := p.chainOf[o.name]
	return c != nil && c.o == o
}

// targets calls yield for the objects that the object will lead to.
func (p *planner) targets(o *object, yield func(*object)) {
	follow := func(r reference) {
		if to := p.target(r); to != nil {
			yield(to)
		}
	}
	if p.isChain(o) {
		if c := p.chainNow(o.name); c != nil {
			for i := range c.Rules {
				c.Rules[i].references(follow)
			}
		}
		return
	}
	c, table := p.setOf[o.name], &o.verdicts
	if c != nil && c.fresh() {
		c, table = nil, &c.content.verdicts
	}
	for v := range table.numbers {
		if c == nil || table.count(v)+c.tally[v] > 0 {
			v.reference(follow)
		}
	}
	if c != nil {
		for v := range c.tally {
			if table.count(v) == 0 {
				v.reference(follow)
			}
		}
	}
}

// exactLevels computes every level anew, and reports loops and ways that are too long.
func (p *planner) exactLevels() {
	all := map[*object]bool{}
	for _, o := range p.chains {
		all[o] = true
	}
	for _, o := range p.sets {
		all[o] = true
	}
	for _, c := range p.change.chains {
		all[c.o] = c.new != nil
	}
	for _, c := range p.change.sets {
		all[c.o] = c.new != nil
	}
	maps.DeleteFunc(all, func(_ *object, there bool) bool { return !there })
	objects := slices.SortedFunc(maps.Keys(all), func(a, b *object) int { return cmp.Compare(a.name, b.name) })

	var order []*object // each before what leads to it
	const onTheWay, done = 1, 2
	seen := map[*object]int{}
	var walk func(o *object)
	walk = func(o *object) {
		seen[o] = onTheWay
		p.targets(o, func(to *object) {
			switch {
			case seen[to] == 0:
				walk(to)
			case seen[to] == onTheWay:
				if !p.isChain(to) {
					p.v.addf("chain %s: leads back to itself through map %s", o.name, to.name)
				} else {
					p.v.addf("chain %s: leads back to itself", to.name)
				}
				seen[to] = done // once is enough
			}
		})
		seen[o] = done
		order = append(order, o)
	}
	for _, o := range objects {
		p.change.levels[o] = 0
		if seen[o] == 0 {
			walk(o)
		}
	}
	if len(p.v.errs) > 0 {
		return
	}
	for _, o := range slices.Backward(order) {
		level := p.change.levels[o]
		p.targets(o, func(to *object) {
			next := level
			if p.isChain(to) {
				next++
			}
			p.change.levels[to] = max(p.change.levels[to], next)
		})
	}
	for _, o := range objects {
		if p.change.levels[o] == MaxDepth+1 && p.isChain(o) {
			p.v.addf("chain %s: more than %d jumps deep", o.name, MaxDepth)
		}
	}
}
