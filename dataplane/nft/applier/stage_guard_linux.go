// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// stageGuard makes packets meet the new state of a Stage before other chains change:
//
//	a base chain behind that of the stage evaluates a copy of its new state
//	(grace period)
//	the change
//	(grace period)
//	the rules of the base chain are deleted
//	(grace period)
//	the base chain and the copies are deleted
//
// Each packet that passed the old state of the stage, and meets the new state of later chains, has then
// passed the new state of the stage as well. So it passes only if one of the two states as a whole allows
// it: what the new state denies at the stage dropped there, and what it denies later drops later.
//
// The copies only deny: packets that they allow stay in connection tracking.
type stageGuard struct {
	p    *phases
	view *ruleset.State
	name func() string
	// chains are those that the change adds, changes or deletes, in their new state; nil if deleted. sets
	// are the sets that it adds, changes or deletes, without elements.
	chains map[string]*ruleset.Chain
	sets   map[string]*ruleset.Set
	// names has the copies. What needs no copy has its own name.
	names shadowNames
	fill  []ruleset.Op
}

// stageReach has the names of what packets may meet from a Stage's base chain on.
type stageReach struct{ chains, sets map[string]bool }

// has reports whether the object of an operation is in reach.
func (r *stageReach) has(op *ruleset.Op) bool {
	if op.Set != nil {
		return r.sets[op.Set.Name]
	}
	return r.chains[op.Chain.Name]
}

// addStageGuards adds guards for the Stages that change together with other things, and waits for a grace
// period. It returns the steps that delete them; see removeStageGuards. If the kernel refuses the guards,
// the change goes on without them: it refuses the change as well, or has no room for both.
func (a *Applier) addStageGuards(
	ops []ruleset.Op, d *readback.Difference, view *ruleset.State,
) (steps [2][]ruleset.Op, err error) {
	if d != nil {
		clear(a.reaches)
	}
	var fill, bases []ruleset.Op
	for _, stage := range a.cfg.Stages {
		g := a.stageGuard(stage, ops, d, view)
		if g == nil {
			continue
		}
		base := g.base(stage)
		fill = append(fill, g.fill...)
		bases = append(append(bases, ruleset.Op{Kind: ruleset.AddChain, Chain: base}), insertRules(base)...)
		empty := &ruleset.Chain{Name: base.Name, Hook: base.Hook}
		for i := len(base.Rules) - 1; i >= 0; i-- {
			steps[0] = append(steps[0], ruleset.Op{
				Kind: ruleset.DeleteRule, Chain: empty, Index: i, Rule: base.Rules[i],
			})
		}
		steps[1] = append(append(steps[1], ruleset.Op{Kind: ruleset.DeleteChain, Chain: empty}), g.deletions()...)
	}
	if len(bases) == 0 {
		return steps, nil
	}
	a.writer.announce(fill)
	before := a.stats.Transactions
	err = a.cut(fill) // interval sets are full before a rule looks into them
	if err == nil {
		err = a.cut(bases)
	}
	if isRefused(err) && a.stats.Transactions == before {
		a.logger.Warn("nftables: a packet may meet two states of policy while stages change together",
			"table", a.cfg.Name, "err", err)
		return [2][]ruleset.Op{}, nil
	}
	if err != nil { // What is there is removed once the table is read back.
		return [2][]ruleset.Op{}, err
	}
	_ = a.synchronize() // where the kernel refuses to wait, packets under way may miss the guard
	return steps, nil
}

// removeStageGuards deletes the guards, after a grace period.
func (a *Applier) removeStageGuards(steps [2][]ruleset.Op) error {
	for _, step := range steps {
		if len(step) == 0 {
			return nil
		}
		_ = a.synchronize() // where the kernel refuses to wait, packets under way may miss the guard
		if err := a.cut(step); err != nil {
			return err
		}
	}
	return nil
}

// stageGuard returns the guard of a stage, or nil if operations do not change both what packets may meet
// there and something else, or if the stage will not exist. d and view are as for commitOps.
func (a *Applier) stageGuard(
	stage ruleset.Stage, ops []ruleset.Op, d *readback.Difference, view *ruleset.State,
) *stageGuard {
	before, known := a.reaches[stage.Chain]
	if known && !slices.ContainsFunc(ops, func(op ruleset.Op) bool { return before.has(&op) }) {
		return nil
	}
	p := phasesOf(ops)
	p.live = slices.Concat(p.live, p.destroy) // what the change deletes last, the copies never have
	g := &stageGuard{
		p: &p, view: view, name: func() string { return a.shadowName(view, d) },
		chains: map[string]*ruleset.Chain{}, sets: map[string]*ruleset.Set{},
		names: shadowNames{sets: map[string]string{}, chains: map[string]string{}},
	}
	for i := range ops {
		switch op := &ops[i]; {
		case op.Set != nil:
			g.sets[op.Set.Name] = op.Set
		case op.Kind == ruleset.DeleteChain:
			g.chains[op.Chain.Name] = nil
		default:
			g.chains[op.Chain.Name] = op.Chain
		}
	}
	after := stageReach{chains: map[string]bool{}, sets: map[string]bool{}}
	g.reach(stage.Chain, &after)
	a.reaches[stage.Chain] = after
	if g.final(stage.Chain) == nil || !g.needed(stage, ops, &after, d != nil) {
		return nil
	}
	g.sets[a.cfg.Epoch.Set] = g.head(a.cfg.Epoch.Set) // the copy is never replaced: the guard does not change
	g.chain(stage.Chain)
	return g
}

// needed reports whether operations change both what packets meet at the stage and what they meet later. Both
// may look into one set.
func (g *stageGuard) needed(stage ruleset.Stage, ops []ruleset.Op, after *stageReach, adopting bool) bool {
	elsewhere, matters, w := false, false, g.stageWeights(ops, after)
	for i := range ops {
		switch op := &ops[i]; {
		case op.Unseen:
		case !after.has(op): // what no packet meets after the change is decided below
			isObject := op.Kind == ruleset.DeleteSet || op.Kind == ruleset.DeleteChain && op.Chain.Hook == nil
			elsewhere = elsewhere || !isObject
		default:
			matters = matters || op.Set == nil || adopting || w.matters(op)
		}
	}
	if !matters || elsewhere {
		return matters
	}
	later := g.later(stage)
	return slices.ContainsFunc(ops, func(op ruleset.Op) bool { return !op.Unseen && later.has(&op) })
}

// later returns what packets may meet from other base chains on, but not from those before the guard.
func (g *stageGuard) later(stage ruleset.Stage) stageReach {
	later, hook := stageReach{chains: map[string]bool{}, sets: map[string]bool{}}, g.final(stage.Chain).Hook
	names := map[string]bool{}
	for _, c := range g.view.Chains() {
		names[c.Name] = c.Hook != nil
	}
	for name, c := range g.chains {
		names[name] = c != nil && c.Hook != nil
	}
	for name, isBase := range names {
		if !isBase {
			continue
		}
		if h := g.final(name).Hook; h.Point != hook.Point || h.Priority >= stage.Behind {
			g.reach(name, &later)
		}
	}
	return later
}

// stageWeights finds changed elements that do not matter at a stage: those of a map whose data are only keys
// of other maps (see ruleset.Stage), none of which has the old or the new data as a key.
//
// So if an address gets another class, and untracked policy distinguishes neither, there is no guard.
type stageWeights struct {
	*stageGuard
	after *stageReach
	// changed has the elements of the sets at the stage that the operations add or delete, Unseen ones as
	// well, by the set's name and the element's id.
	changed map[string]map[string]bool
	// maps are those at the stage with keys like the data of a map, ranges the interval maps there with the keys
	// and data of a map.
	maps   map[string][]*ruleset.Set
	ranges map[string][]*ruleset.Set
}

func (g *stageGuard) stageWeights(ops []ruleset.Op, after *stageReach) *stageWeights {
	w := &stageWeights{
		stageGuard: g, after: after, changed: map[string]map[string]bool{},
		maps: map[string][]*ruleset.Set{}, ranges: map[string][]*ruleset.Set{},
	}
	for i := range ops {
		op := &ops[i]
		if op.Set == nil || !after.sets[op.Set.Name] {
			continue
		}
		name := op.Set.Name
		if w.changed[name] == nil {
			w.changed[name] = map[string]bool{}
		}
		for k := range op.Elements {
			w.changed[name][string(op.Set.ID(&op.Elements[k]))] = true
		}
	}
	return w
}

// isWeighed reports whether changes of a set may not matter: those of a map with data, which stays.
func (w *stageWeights) isWeighed(s *ruleset.Set) bool {
	old := w.view.Set(s.Name)
	return len(s.Data) > 0 && w.after.sets[s.Name] && old != nil && slices.Equal(old.Key, s.Key) &&
		slices.Equal(old.Data, s.Data) && old.Interval == s.Interval
}

// matters reports whether an operation on a set at the stage may change what the stage decides.
func (w *stageWeights) matters(op *ruleset.Op) bool {
	if len(op.Elements) == 0 || !w.isWeighed(op.Set) {
		return true
	}
	for i := range op.Elements {
		e := &op.Elements[i]
		old, replaces := w.view.View(op.Set.Name).Get(op.Set.ID(e))
		if replaces && w.isKey(op.Set, old.Data) || op.Kind == ruleset.AddElements && w.isKey(op.Set, e.Data) {
			return true
		}
		if !op.Set.Interval && w.isWithin(op.Set, e.Key) {
			return true
		}
	}
	return false
}

// isKey reports whether a map at the stage has the data of another one as a key, before the change or after it.
func (w *stageWeights) isKey(of *ruleset.Set, data []ruleset.Value) bool {
	maps, known := w.maps[of.Name]
	if !known {
		for name := range w.after.sets {
			if s := w.head(name); s != nil && name != of.Name && slices.Equal(s.Key, of.Data) {
				maps = append(maps, s)
			}
		}
		w.maps[of.Name] = maps
	}
	return slices.ContainsFunc(maps, func(s *ruleset.Set) bool {
		id := s.ID(&ruleset.Element{Key: data})
		return s.Interval || w.changed[s.Name][string(id)] ||
			w.view.Set(s.Name) != nil && w.view.View(s.Name).Contains(id)
	})
}

// isWithin reports whether an interval map at the stage has an element around a key of another map, whose data
// are a key. Packets use it once the other map lacks the key. If that element changes too, it matters by itself.
func (w *stageWeights) isWithin(s *ruleset.Set, key []ruleset.Value) bool {
	ranges, known := w.ranges[s.Name]
	if !known {
		for name := range w.after.sets {
			r := w.view.Set(name)
			if r != nil && r.Interval && slices.Equal(r.Key, s.Key) && slices.Equal(r.Data, s.Data) {
				ranges = append(ranges, r)
			}
		}
		w.ranges[s.Name] = ranges
	}
	return slices.ContainsFunc(ranges, func(r *ruleset.Set) bool {
		if len(key) != 1 { // Around does not know intervals of a concatenation
			return true
		}
		e, ok := w.view.View(r.Name).Around(key[0])
		return ok && w.isKey(r, e.Data)
	})
}

// final returns a chain in its new state, or nil if there will be none.
func (g *stageGuard) final(name string) *ruleset.Chain {
	if c, changed := g.chains[name]; changed {
		return c
	}
	return g.view.Chain(name)
}

// reach adds a chain, and what packets may meet from it on. The name of a chain that does not exist is in
// reach as well.
func (g *stageGuard) reach(chain string, r *stageReach) {
	if r.chains[chain] {
		return
	}
	r.chains[chain] = true
	c := g.final(chain)
	if c == nil {
		return
	}
	for i := range c.Rules {
		for set := range c.Rules[i].Sets() {
			if !r.sets[set] {
				r.sets[set] = true
				for _, to := range g.targets(set) {
					g.reach(to, r)
				}
			}
		}
		for to := range chainsOf(&c.Rules[i]) {
			g.reach(to, r)
		}
	}
}

// targets returns the chains in the elements of a verdict map in its new state.
func (g *stageGuard) targets(set string) (chains []string) {
	if s := g.head(set); s == nil || !s.Verdicts {
		return nil
	}
	_, elements := g.p.shadowSet(set, set, g.view)
	for i := range elements {
		if v := elements[i].Verdict; v != nil && v.Chain != "" {
			chains = append(chains, v.Chain)
		}
	}
	return chains
}

// head returns a set in its new state, without elements.
func (g *stageGuard) head(name string) *ruleset.Set {
	if s := g.sets[name]; s != nil {
		return s
	}
	return g.view.Set(name)
}

// chain copies a chain if it must, and returns the name by which the guard refers to it. A chain has a copy
// if it changes, if it takes packets out of connection tracking or refers to something with a copy.
func (g *stageGuard) chain(name string) string {
	if to, known := g.names.chains[name]; known {
		return to
	}
	g.names.chains[name] = name
	c := g.final(name)
	if c == nil {
		return name
	}
	_, copied := g.chains[name]
	for i := range c.Rules {
		r := &c.Rules[i]
		copied = copied || slices.ContainsFunc(r.Statements, isNotrack)
		for set := range r.Sets() {
			copied = g.copySet(set) != set || copied
		}
		for to := range chainsOf(r) {
			copied = g.chain(to) != to || copied
		}
	}
	if copied && c.Hook == nil {
		duplicate := &ruleset.Chain{Name: g.name(), Rules: g.rules(c)}
		g.names.chains[name] = duplicate.Name
		g.fill = append(append(g.fill, ruleset.Op{Kind: ruleset.AddChain, Chain: duplicate}), insertRules(duplicate)...)
	}
	return g.names.chains[name]
}

// copySet copies a set if it must, and returns the name by which the guard refers to it. A set has a copy if
// it changes, or if it is a map with chains that have one.
func (g *stageGuard) copySet(name string) string {
	if to, known := g.names.sets[name]; known {
		return to
	}
	g.names.sets[name] = name
	copied := g.sets[name] != nil
	for _, to := range g.targets(name) {
		copied = g.chain(to) != to || copied
	}
	if !copied {
		return name
	}
	s, elements := g.p.shadowSet(name, g.name(), g.view)
	for i := range elements {
		if v := elements[i].Verdict; v != nil {
			elements[i].Verdict = g.verdict(v)
		}
	}
	g.fill = append(g.fill, ruleset.Op{Kind: ruleset.AddSet, Set: s})
	if len(elements) > 0 {
		g.fill = append(g.fill, ruleset.Op{Kind: ruleset.AddElements, Set: s, Elements: elements})
	}
	g.names.sets[name] = s.Name
	return s.Name
}

// verdict returns a verdict that leads to the copy of its chain.
func (g *stageGuard) verdict(v *ruleset.Verdict) *ruleset.Verdict {
	to := *v
	if name := g.names.chains[v.Chain]; name != "" {
		to.Chain = name
	}
	return &to
}

// rules returns the rules of a chain's copy.
func (g *stageGuard) rules(c *ruleset.Chain) (rules []ruleset.Rule) {
	for i := range c.Rules {
		if r := g.rule(c.Rules[i]); len(r.Statements) > 0 || len(c.Rules[i].Statements) == 0 {
			rules = append(rules, r)
		}
	}
	return rules
}

// rule returns a rule that refers to copies and leaves packets in connection tracking.
func (g *stageGuard) rule(r ruleset.Rule) ruleset.Rule {
	r = g.names.shadowRule(r)
	r.Statements = slices.DeleteFunc(r.Statements, isNotrack)
	for i, s := range r.Statements {
		switch s := s.(type) {
		case ruleset.Verdict:
			r.Statements[i] = *g.verdict(&s)
		case ruleset.VMap:
			s.Elements = slices.Clone(s.Elements)
			for k := range s.Elements {
				if v := s.Elements[k].Verdict; v != nil {
					s.Elements[k].Verdict = g.verdict(v)
				}
			}
			r.Statements[i] = s
		}
	}
	return r
}

// base returns the base chain of the guard, behind that of the stage.
func (g *stageGuard) base(stage ruleset.Stage) *ruleset.Chain {
	c := g.final(stage.Chain)
	hook := *c.Hook
	hook.Priority, hook.Policy = stage.Behind, ruleset.Verdict{Kind: ruleset.Accept}
	base := &ruleset.Chain{Name: g.name(), Hook: &hook, Rules: g.rules(c)}
	if c.Hook.Policy.Kind != ruleset.Accept {
		base.Rules = append(base.Rules, ruleset.Rule{Statements: []ruleset.Statement{c.Hook.Policy}})
	}
	return base
}

// deletions returns the operations that delete the copies: each before what it refers to.
func (g *stageGuard) deletions() (ops []ruleset.Op) {
	for _, op := range slices.Backward(g.fill) {
		switch op.Kind {
		case ruleset.AddChain:
			op.Kind = ruleset.DeleteChain
		case ruleset.AddSet:
			op.Kind = ruleset.DeleteSet
		default:
			continue
		}
		ops = append(ops, op)
	}
	return ops
}

func isNotrack(s ruleset.Statement) bool {
	_, ok := s.(ruleset.Notrack)
	return ok
}
