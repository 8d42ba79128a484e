// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// stageGuard makes packets see the new state of a Stage before later chains change:
//
//	a base chain behind that of the stage evaluates a copy of its new state
//	(grace period)
//	the change
//	(grace period)
//	the rules of the base chain are deleted
//	(grace period)
//	the base chain and the copies are deleted
//
// Without the guard, a packet could pass the old state of the stage and then the new state of later
// chains. With the guard, it must pass the new state of the stage, too.
//
// The copies only deny packets. They do not exclude packets from connection tracking.
type stageGuard struct {
	p    *phases
	view *ruleset.State
	name func() string
	// chains has the chains that the change adds, changes or deletes, in their new state. A deleted
	// chain is nil. sets has the sets that the change adds, changes or deletes, without elements.
	chains map[string]*ruleset.Chain
	sets   map[string]*ruleset.Set
	// names has the names of copies, by the names of the originals. An original without a copy has
	// its own name.
	names shadowNames
	// fill has the operations that add the copies.
	fill []ruleset.Op
}

// stageReach has the names of the chains and sets that packets may reach after they enter a base
// chain.
type stageReach struct{ chains, sets map[string]bool }

// has reports whether the object of an operation is one of these.
func (r *stageReach) has(op *ruleset.Op) bool {
	if op.Set != nil {
		return r.sets[op.Set.Name]
	}
	return r.chains[op.Chain.Name]
}

// stageGuards adds and deletes the stageGuard of each Stage that a change needs.
type stageGuards struct {
	tools
	names *nameGenerator
	// reaches has the reach of each Stage, by the name of its base chain. If a stage is missing,
	// its reach is not known.
	reaches map[string]stageReach
}

// forget discards the reaches, because they may have changed without a guard.
func (s *stageGuards) forget() { clear(s.reaches) }

// add adds guards for the Stages that change together with other chains or sets. Then it waits for
// a grace period. steps are the operations of remove, which delete the guards. If the kernel
// refuses the guards, the change continues without them. In this case, the kernel will refuse the
// change as well, or has no space for both.
func (s *stageGuards) add(
	ops []ruleset.Op, d *readback.Difference, view *ruleset.State,
) (steps [2][]ruleset.Op, err error) {
	if d != nil {
		s.forget()
	}
	var fill, bases []ruleset.Op
	for _, stage := range s.cfg.Stages {
		g := s.guard(stage, ops, d, view)
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
	s.writer.announce(fill)
	before := s.stats.Transactions
	err = s.tx.cut(fill) // before bases: an interval set must be full before a rule references it
	if err == nil {
		err = s.tx.cut(bases)
	}
	if isRefused(err) && s.stats.Transactions == before {
		s.cfg.Logger.Warn("nftables: a packet may use two states of policy while stages change together",
			"table", s.cfg.Name, "err", err)
		return [2][]ruleset.Op{}, nil
	}
	if err != nil { // the parts that were added are removed once the table is read back
		return [2][]ruleset.Op{}, err
	}
	_ = s.grace.synchronize() // without membarrier, packets under way may miss the guard
	return steps, nil
}

// remove deletes the guards. Each step follows after a grace period.
func (s *stageGuards) remove(steps [2][]ruleset.Op) error {
	for _, step := range steps {
		if len(step) == 0 {
			return nil
		}
		_ = s.grace.synchronize() // without membarrier, packets under way may miss the guard
		if err := s.tx.cut(step); err != nil {
			return err
		}
	}
	return nil
}

// guard returns the guard of a stage, or nil if none is needed. None is needed if the stage is
// deleted, or if the operations do not change both the stage and later chains or sets. If the table
// was read back, d is the difference. view is that of updater.commitOps.
func (s *stageGuards) guard(
	stage ruleset.Stage, ops []ruleset.Op, d *readback.Difference, view *ruleset.State,
) *stageGuard {
	before, known := s.reaches[stage.Chain]
	if known && !slices.ContainsFunc(ops, func(op ruleset.Op) bool { return before.has(&op) }) {
		return nil
	}
	p := phasesOf(ops)
	p.live = slices.Concat(p.live, p.destroy) // the copies lack the elements that the change deletes last
	g := &stageGuard{
		p: &p, view: view, name: func() string { return s.names.unused(view, d) },
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
	s.reaches[stage.Chain] = after
	if g.final(stage.Chain) == nil || !g.needed(stage, ops, &after, d != nil) {
		return nil
	}
	g.sets[s.cfg.Epoch.Set] = g.head(s.cfg.Epoch.Set) // a copy of the epoch, which no transaction replaces
	g.copyChain(stage.Chain)
	return g
}

// needed reports whether operations change both the stage and objects that packets reach later. A
// set that both reference counts as both.
func (g *stageGuard) needed(stage ruleset.Stage, ops []ruleset.Op, after *stageReach, adopting bool) bool {
	elsewhere, effective, f := false, false, g.stageEffects(ops, after)
	for i := range ops {
		switch op := &ops[i]; {
		case op.Unseen:
		case !after.has(op): // a deletion counts only if later has the object
			isObject := op.Kind == ruleset.DeleteSet || op.Kind == ruleset.DeleteChain && op.Chain.Hook == nil
			elsewhere = elsewhere || !isObject
		default:
			effective = effective || op.Set == nil || adopting || f.hasEffect(op)
		}
	}
	if !effective || elsewhere {
		return effective
	}
	later := g.later(stage)
	return slices.ContainsFunc(ops, func(op ruleset.Op) bool { return !op.Unseen && later.has(&op) })
}

// later returns the chains and sets that packets may reach after they enter other base chains. It
// leaves out base chains of the same hook that come before the guard.
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

// final returns a chain in its new state, or nil if it is deleted or does not exist.
func (g *stageGuard) final(name string) *ruleset.Chain {
	if c, changed := g.chains[name]; changed {
		return c
	}
	return g.view.Chain(name)
}

// reach adds to r a chain, and the chains and sets that packets may reach from this chain on. It
// adds the name of the chain even if the chain does not exist.
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
		for to := range c.Rules[i].Chains() {
			g.reach(to, r)
		}
	}
}

// targets returns the chains to which the elements of a verdict map lead, in its new state.
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

// copyChain returns the name by which the guard refers to a chain. If the guard needs a copy of the
// chain, it makes one. That is so if the chain changes, excludes packets from connection tracking,
// or refers to a chain or set with a copy.
func (g *stageGuard) copyChain(name string) string {
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
		for to := range r.Chains() {
			copied = g.copyChain(to) != to || copied
		}
	}
	if copied && c.Hook == nil {
		duplicate := &ruleset.Chain{Name: g.name(), Rules: g.rules(c)}
		g.names.chains[name] = duplicate.Name
		g.fill = append(append(g.fill, ruleset.Op{Kind: ruleset.AddChain, Chain: duplicate}), insertRules(duplicate)...)
	}
	return g.names.chains[name]
}

// copySet returns the name by which the guard refers to a set. If the guard needs a copy of the
// set, it makes one. That is so if the set changes, or if it is a verdict map with an element that
// leads to a chain with a copy.
func (g *stageGuard) copySet(name string) string {
	if to, known := g.names.sets[name]; known {
		return to
	}
	g.names.sets[name] = name
	copied := g.sets[name] != nil
	for _, to := range g.targets(name) {
		copied = g.copyChain(to) != to || copied
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

// verdict returns a verdict that leads to the copy of its chain. If there is no copy, it leads to
// the chain.
func (g *stageGuard) verdict(v *ruleset.Verdict) *ruleset.Verdict {
	to := *v
	if name := g.names.chains[v.Chain]; name != "" {
		to.Chain = name
	}
	return &to
}

// rules returns the rules of the copy of a chain.
func (g *stageGuard) rules(c *ruleset.Chain) (rules []ruleset.Rule) {
	for i := range c.Rules {
		if r := g.rule(c.Rules[i]); len(r.Statements) > 0 || len(c.Rules[i].Statements) == 0 {
			rules = append(rules, r)
		}
	}
	return rules
}

// rule returns a copy of a rule that refers to copies, without its Notrack statement.
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

// base returns the base chain of the guard, at the priority Behind of the stage.
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

// deletions returns the operations that delete the copies. Each copy is deleted before the chains
// and sets to which it refers.
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
