// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// outcome is what becomes of the packets of some classes: what the tiers and profiles of a group come to once it is known which of their rules
// hold for the other side's address. It is a chain; equal ones are one.
type outcome struct {
	numbered
	chain string
	uses  int
	parts int
	// chains are all that belong to it.
	chains []string
}

// part returns a name for another chain of the outcome.
func (o *outcome) part() string {
	o.parts++
	return o.chain + "-" + strconv.Itoa(o.parts)
}

// element leads from the outcome's number to its chain.
func (o *outcome) element() ruleset.Element {
	v := goTo(o.chain)
	return element(&v, ruleset.Uint32(o.number))
}

// step is one step of the way to a decision: a rule, or the end of a tier, whose name and default action it has then.
type step struct {
	rule   *mergedRule
	plain  bool
	action policy.Action
	end    string
}

// outcome returns what becomes of the packets of a class, and counts who asked.
func (r *Renderer) outcome(g *group, c *class) *outcome {
	tiers, key := r.steps(g, c)
	o := r.classes.outcomes[key]
	if o == nil {
		o = &outcome{numbered: numbered{content: key}, chain: "outcome-" + string(g.dir) + "/" + hash(key)}
		r.classes.outcomes[key] = o
		if r.classes.outcomeNumbers.add(&o.numbered) {
			r.classes.renumber = true
		}
		w := &writer{r: r, outcome: o, key: listKey{g.dir, stageClass}, family: c.family}
		w.write(tiers)
	}
	o.uses++
	r.classes.idle[o] = struct{}{}
	return o
}

// dropOutcome notes that one who asked does not need the outcome any more; nil is none.
func (r *Renderer) dropOutcome(o *outcome) {
	if o == nil {
		return
	}
	o.uses--
	r.classes.idle[o] = struct{}{}
}

// sweepOutcomes forgets those that nobody needs.
func (r *Renderer) sweepOutcomes() {
	for o := range r.classes.idle {
		if o.uses > 0 {
			continue
		}
		delete(r.classes.outcomes, o.content)
		if r.classes.outcomeNumbers.remove(&o.numbered) {
			r.classes.renumber = true
		}
		for _, name := range o.chains {
			r.dropChain(name)
		}
	}
	r.classes.idle = emptied(r.classes.idle)
}

// steps returns, tier by tier, the rules of a group that hold for the addresses of a class, as far as packets can get, and a key that stands for
// all that the outcome depends on.
func (r *Renderer) steps(g *group, c *class) ([][]step, string) {
	var key strings.Builder
	key.WriteString(string(g.dir))
	var tiers [][]step
	for _, t := range g.tiers {
		if !t.profile && t.enforced == 0 { // S20
			continue
		}
		steps, decided := r.tierSteps(t, c, &key)
		tiers = append(tiers, steps)
		if decided {
			return tiers, key.String()
		}
	}
	key.WriteString("\nend")
	return append(tiers, []step{{action: policy.Deny, end: "no tier or profile allowed it"}}), key.String() // S25, S33
}

// tierSteps returns the steps of one tier, and whether they decide about every packet.
func (r *Renderer) tierSteps(t *tierIndex, c *class, key *strings.Builder) (steps []step, decided bool) {
	key.WriteString("\n/")
	passes := false // some packets, to the next tier
	r.classes.scratch = t.candidates(c, r.classes.scratch)
	for _, i := range r.classes.scratch {
		for k := range t.places[i].rules {
			rule := &t.places[i].rules[k]
			if !rule.holds(c) {
				continue
			}
			rest := rule.rest(t.profile, t.dir)
			if !rule.plain {
				rest.IPVersion = int(c.family)
			}
			key.WriteByte('\n')
			rest.writeKey(key, rule.plain)
			if !rule.plain {
				r.writeShapes(key, rest)
			}
			steps = append(steps, step{rule: rest, plain: rule.plain, action: rest.Action})
			passes = passes || rest.Action == policy.Pass
			if rule.always {
				return steps, !passes
			}
		}
	}
	if t.profile {
		return steps, false
	}
	fmt.Fprintf(key, "\nend %q %q", t.spec.Tier, t.spec.DefaultAction)
	return append(steps, step{action: t.spec.DefaultAction, end: "end of tier " + t.spec.Tier}), t.spec.DefaultAction == policy.Deny && !passes // S26, S27
}

// writer writes the chains of an outcome.
type writer struct {
	r       *Renderer
	outcome *outcome
	key     listKey
	family  family
	rules   []ruleset.Rule
	// decided is what has been decided since the last rule was written.
	decided decisions
	// inTier says that the rules are those of a chain that is jumped to.
	inTier bool
}

// write writes the chains for the steps of all tiers.
func (w *writer) write(tiers [][]step) {
	for _, steps := range tiers {
		if passesOthers(steps) {
			w.flush()
			w.jumpToTier(steps)
		} else {
			w.tier(steps)
		}
	}
	w.flush()
	w.add(w.outcome.chain, w.rules)
}

// passesOthers reports whether some packets leave a tier by a Pass and others go on to rules that have to be written as they are, or whether it
// is such a rule that passes.
func passesOthers(steps []step) bool {
	passes := false
	for i := range steps {
		s := &steps[i]
		if s.rule == nil {
			continue
		}
		if !s.plain && (passes || s.action == policy.Pass) {
			return true
		}
		passes = passes || s.action == policy.Pass
	}
	return false
}

// tier writes the steps of a tier.
func (w *writer) tier(steps []step) {
	for i := range steps {
		s := &steps[i]
		switch {
		case s.rule != nil && s.plain:
			w.decided.rule(&s.rule.Rule, w.family)
		case s.rule != nil:
			w.flush()
			w.whole(s.rule)
		case s.action != policy.Deny:
		case !w.inTier && w.decided.anyPassed():
			w.decided.rest(denied)
		default:
			w.finish(w.r.denial(w.key, s.end))
		}
	}
	if !w.inTier {
		w.decided.reopen()
	}
}

// jumpToTier writes the steps of a tier in a chain of its own, which passed packets return from. So do those that are allowed.
func (w *writer) jumpToTier(steps []step) {
	name := w.outcome.part()
	part := &writer{r: w.r, outcome: w.outcome, key: w.key, family: w.family, inTier: true}
	part.tier(steps)
	part.flush()
	w.add(name, part.rules)
	w.rules = append(w.rules, always(jump(name)),
		when(ruleset.Verdict{Kind: ruleset.Return}, equals(carrier, ruleset.Uint32(carryAllowed))))
}

// whole writes a rule as it is.
func (w *writer) whole(rule *mergedRule) {
	rules, more, err := w.r.ruleIn(w.key, false, w.outcome.part(), rule)
	if err != nil { // It was checked: this cannot be.
		rules = []ruleset.Rule{w.r.denial(w.key, err.Error())}
	}
	w.rules = append(w.rules, rules...)
	for _, c := range more {
		w.add(c.Name, c.Rules)
	}
}

func (w *writer) add(name string, rules []ruleset.Rule) {
	w.r.setChain(&ruleset.Chain{Name: name, Rules: rules})
	w.outcome.chains = append(w.outcome.chains, name)
}

// flush writes what has been decided.
func (w *writer) flush() {
	deny := ruleset.Rule{Statements: []ruleset.Statement{w.r.deny(w.key)}}
	if w.decided.closed() {
		w.finish(noted(deny, "denied"))
		return
	}
	w.say(allowed, always(allowing()...))
	w.say(denied, deny)
	if w.inTier {
		w.say(passed, always(ruleset.Verdict{Kind: ruleset.Return}))
	}
	w.decided = decisions{}
}

// finish writes what has been decided, and that all else is denied.
func (w *writer) finish(denial ruleset.Rule) {
	all := w.decided.every(allowed)
	w.say(allowed, always(allowing()...))
	if w.inTier {
		w.say(passed, always(ruleset.Verdict{Kind: ruleset.Return}))
	}
	if !all {
		w.rules = append(w.rules, denial)
	}
	w.decided = decisions{}
}

// say writes the rules for what has been decided in one way.
func (w *writer) say(d decision, rule ruleset.Rule) {
	for _, matches := range w.decided.matches(d) {
		rule.Matches = matches
		w.rules = append(w.rules, rule)
	}
}

// allowing tells the chain that asked that the packet may go on. It returns there, for that chain alone knows what the priority was before.
func allowing() []ruleset.Statement {
	return []ruleset.Statement{ruleset.Assign{Field: carrier, Value: carryAllowed}, ruleset.Verdict{Kind: ruleset.Return}}
}
