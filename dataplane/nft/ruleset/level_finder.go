// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"cmp"
	"maps"
	"slices"
)

// levelFinder computes the level of each object that a change affects: the number of jumps that
// lead to the object.
type levelFinder struct {
	plan    *planner
	tripped bool // a level exceeds MaxDepth, but perhaps only because of deleted references
}

// find checks that at most MaxDepth jumps follow one another, which also excludes loops. The level
// of an object is at least the length of the longest path of jumps to it. New references raise
// levels, and deleted references do not lower them. So a level that is too high may be due to
// deleted references. Then find computes all levels of the table exactly.
func (l *levelFinder) find() {
	for _, c := range l.plan.change.chains {
		if c.new != nil {
			l.raiseTargets(c.o)
		}
	}
	for _, c := range l.plan.change.sets {
		switch {
		case c.new == nil:
		case c.fresh():
			l.raiseTargets(c.o)
		default: // the targets of other elements already have their levels, and may be many
			for v, by := range c.tally {
				if by > 0 && c.o.verdicts.count(v) == 0 {
					v.reference(func(r reference) { l.raise(l.plan.target(r), l.level(c.o)) })
				}
			}
		}
	}
	if l.tripped {
		l.exactLevels()
	}
}

// level returns the current level of an object.
func (l *levelFinder) level(o *object) int32 {
	if level, ok := l.plan.change.levels[o]; ok {
		return level
	}
	return o.level
}

// raiseTargets raises the levels of the objects to which an object refers, if needed.
func (l *levelFinder) raiseTargets(o *object) {
	level := l.level(o)
	l.targets(o, func(to *object) { l.raise(to, level) })
}

// raise raises the level of an object if needed, because an object with the given level refers to
// it.
func (l *levelFinder) raise(to *object, level int32) {
	if l.isChain(to) {
		level++
	}
	switch {
	case level <= l.level(to):
	case level > MaxDepth:
		l.tripped = true
	default:
		l.plan.change.levels[to] = level
		l.raiseTargets(to)
	}
}

// isChain reports whether the object is a chain in its new state.
func (l *levelFinder) isChain(o *object) bool {
	if o.chain != nil || o.set != nil {
		return o.chain != nil
	}
	c := l.plan.chainOf[o.name]
	return c != nil && c.o == o
}

// targets calls yield for the objects to which the object refers in its new state.
func (l *levelFinder) targets(o *object, yield func(*object)) {
	follow := func(r reference) {
		if to := l.plan.target(r); to != nil {
			yield(to)
		}
	}
	if l.isChain(o) {
		if c := l.plan.chainNow(o.name); c != nil {
			for i := range c.Rules {
				c.Rules[i].references(follow)
			}
		}
		return
	}
	c, table := l.plan.setOf[o.name], &o.verdicts
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

// exactLevels computes all levels again, and reports loops and paths that are too long.
func (l *levelFinder) exactLevels() {
	all := map[*object]bool{}
	for _, o := range l.plan.chains {
		all[o] = true
	}
	for _, o := range l.plan.sets {
		all[o] = true
	}
	for _, c := range l.plan.change.chains {
		all[c.o] = c.new != nil
	}
	for _, c := range l.plan.change.sets {
		all[c.o] = c.new != nil
	}
	maps.DeleteFunc(all, func(_ *object, there bool) bool { return !there })
	objects := slices.SortedFunc(maps.Keys(all), func(a, b *object) int { return cmp.Compare(a.name, b.name) })

	var order []*object // each object comes before the objects that refer to it
	const onTheWay, done = 1, 2
	seen := map[*object]int{}
	var walk func(o *object)
	walk = func(o *object) {
		seen[o] = onTheWay
		l.targets(o, func(to *object) {
			switch {
			case seen[to] == 0:
				walk(to)
			case seen[to] == onTheWay:
				if !l.isChain(to) {
					l.plan.v.addf("chain %s: leads back to itself through map %s", o.name, to.name)
				} else {
					l.plan.v.addf("chain %s: leads back to itself", to.name)
				}
				seen[to] = done // one report of a loop is enough
			}
		})
		seen[o] = done
		order = append(order, o)
	}
	for _, o := range objects {
		l.plan.change.levels[o] = 0
		if seen[o] == 0 {
			walk(o)
		}
	}
	if len(l.plan.v.errs) > 0 {
		return
	}
	for _, o := range slices.Backward(order) {
		level := l.plan.change.levels[o]
		l.targets(o, func(to *object) {
			next := level
			if l.isChain(to) {
				next++
			}
			l.plan.change.levels[to] = max(l.plan.change.levels[to], next)
		})
	}
	for _, o := range objects {
		if l.plan.change.levels[o] == MaxDepth+1 && l.isChain(o) {
			l.plan.v.addf("chain %s: more than %d jumps deep", o.name, MaxDepth)
		}
	}
}
