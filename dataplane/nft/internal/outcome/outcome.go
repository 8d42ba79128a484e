// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/classify"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/reuse"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// outcome is what the rules of a group decide for some classes: those rules of its tiers and
// profiles that hold for the other side's address, compiled to a chain. Equal outcomes are shared.
type outcome struct {
	classify.Numbered
	chain string
	uses  int
	parts int
	// chains are the names of the chains that only this outcome uses. ruleChains are those of the
	// chains of its rules, which outcomes share.
	chains, ruleChains []string
}

// part returns a new name for another chain of the outcome.
func (o *outcome) part() string {
	o.parts++
	return o.chain + "-" + strconv.Itoa(o.parts)
}

// affected reports whether one of the chains is bad. A nil outcome has none.
func (o *outcome) affected(isBad func(chain string) bool) bool {
	return o != nil && (slices.ContainsFunc(o.chains, isBad) || slices.ContainsFunc(o.ruleChains, isBad))
}

// step is a rule, or the end of a tier. The end has the default action of the tier, and its name in
// end.
type step struct {
	rule   *match.Merged
	plain  bool
	action policy.Action
	end    string
}

// outcomes has the outcomes of all groups.
type outcomes struct {
	cfg     *Config
	indexes *indexes
	byKey   map[string]*outcome
	numbers classify.Numbers
	// renumber is set if the number of an outcome changed: all elements are written again.
	renumber bool
	// idle are outcomes that may be no longer in use.
	idle map[*outcome]struct{}
}

func newOutcomes(cfg *Config, ix *indexes) *outcomes {
	return &outcomes{
		cfg: cfg, indexes: ix, byKey: map[string]*outcome{}, numbers: classify.NewNumbers(cfg.OutcomeNumber),
		idle: map[*outcome]struct{}{},
	}
}

// of returns the outcome of a class, and adds a reference to it.
func (s *outcomes) of(g *Group, c *classify.Class) *outcome {
	tiers, key := s.steps(g, c)
	o := s.byKey[key]
	if o == nil {
		o = &outcome{
			Numbered: classify.NewNumbered(key),
			chain:    g.Stage.Name() + "outcome-" + string(g.Dir) + "/" + sets.Hash(key),
		}
		s.byKey[key] = o
		s.renumber = s.numbers.Add(&o.Numbered) || s.renumber
		w := &chainWriter{cfg: s.cfg, outcome: o, list: g.List, family: c.Family()}
		w.write(tiers)
	}
	o.uses++
	s.idle[o] = struct{}{}
	return o
}

// drop removes a reference to an outcome, which may be nil.
func (s *outcomes) drop(o *outcome) {
	if o == nil {
		return
	}
	o.uses--
	s.idle[o] = struct{}{}
}

// removeIdle removes the outcomes without references. It reports whether the number of another
// outcome changed since the last call.
func (s *outcomes) removeIdle() (renumber bool) {
	for o := range s.idle {
		if o.uses > 0 {
			continue
		}
		delete(s.byKey, o.Content())
		s.renumber = s.numbers.Remove(&o.Numbered) || s.renumber
		for _, name := range o.chains {
			s.cfg.Chains.Drop(name)
		}
	}
	s.idle = reuse.Map(s.idle)
	renumber, s.renumber = s.renumber, false
	return renumber
}

// steps returns the rules of a group that hold for the addresses of a class, for each tier that a
// packet can reach. The key has all that the outcome depends on.
func (s *outcomes) steps(g *Group, c *classify.Class) ([][]step, string) {
	var key strings.Builder
	key.WriteString(g.Stage.Name() + string(g.Dir))
	var tiers [][]step
	for _, t := range g.tiers {
		if !t.profile && t.enforced == 0 { // S20
			continue
		}
		steps, decided := s.tierSteps(t, c, &key)
		tiers = append(tiers, steps)
		if decided {
			return tiers, key.String()
		}
	}
	key.WriteString("\nend")
	if g.rest == policy.Allow {
		key.WriteString(" allowed")
	}
	return append(tiers, []step{{action: g.rest, end: "no tier or profile allowed it"}}), key.String() // S25, S33
}

// tierSteps returns the steps of one tier, and reports whether they decide about every packet.
func (s *outcomes) tierSteps(t *tierIndex, c *classify.Class, key *strings.Builder) (steps []step, decided bool) {
	key.WriteString("\n/")
	passes := false // whether some packets pass to the next tier
	for _, i := range s.indexes.candidates(t, c) {
		for k := range t.places[i].rules {
			rule := &t.places[i].rules[k]
			if !rule.holds(c) {
				continue
			}
			rest := rule.rest(t.profile, t.list.Dir)
			if !rule.plain {
				rest.IPVersion = int(c.Family())
			}
			key.WriteByte('\n')
			rest.WriteKey(key, rule.plain)
			if !rule.plain {
				s.indexes.writeShapes(key, rest)
			} else if s.cfg.eachRule(t.list) {
				fmt.Fprintf(key, " %q", rest.ID)
			}
			steps = append(steps, step{rule: rest, plain: rule.plain, action: rest.Action})
			passes = passes || rest.Action == policy.Pass
			if rule.always {
				return steps, !passes
			}
		}
	}
	if t.profile || t.list.Stage.Partial() { // S36
		return steps, false
	}
	fmt.Fprintf(key, "\nend %q %q", t.spec.Tier, t.spec.DefaultAction)
	steps = append(steps, step{action: t.spec.DefaultAction, end: "end of tier " + t.spec.Tier})
	return steps, t.spec.DefaultAction == policy.Deny && !passes // S26, S27
}

// chainWriter writes the chains of an outcome.
type chainWriter struct {
	cfg     *Config
	outcome *outcome
	list    match.List
	family  sets.Family
	rules   []ruleset.Rule
	// decided has the decisions since the last rule was written. If each rule counts or logs,
	// targets has the rules that made them.
	decided decisions
	targets []target
	// inTier is set if the rules are those of a chain of one tier, see jumpToTier.
	inTier bool
}

// eachRule reports whether each rule of the outcome counts or logs.
func (w *chainWriter) eachRule() bool { return w.cfg.eachRule(w.list) }

// write writes the chains for the steps of all tiers.
func (w *chainWriter) write(tiers [][]step) {
	for _, steps := range tiers {
		if w.passesOthers(steps) {
			w.flush()
			w.jumpToTier(steps)
		} else {
			w.tier(steps)
		}
	}
	w.flush()
	w.add(w.outcome.chain, w.rules)
}

// passesOthers reports whether a tier needs a chain of its own. It does if a Pass rule counts, logs
// or is not plain, and if a rule that is not plain follows a Pass rule: some packets skip that
// rule.
func (w *chainWriter) passesOthers(steps []step) bool {
	passes := false
	for i := range steps {
		s := &steps[i]
		if s.rule == nil {
			continue
		}
		passes = passes || s.action == policy.Pass
		if passes && (!s.plain || w.eachRule()) {
			return true
		}
	}
	return false
}

// tier writes the steps of a tier.
func (w *chainWriter) tier(steps []step) {
	for i := range steps {
		s := &steps[i]
		switch {
		case s.rule != nil && s.plain && w.eachRule() && match.MatchesAll(s.rule.Rule):
			// It also decides about packets whose port cannot be read, where other rules have all
			// ports.
			w.plain(s.rule)
			w.finish(build.Always(w.targets[len(w.targets)-1].verdict))
		case s.rule != nil && s.plain:
			w.plain(s.rule)
		case s.rule != nil:
			w.flush()
			w.nonPlain(s.rule)
		case s.action == policy.Allow && w.eachRule():
			w.finish(build.Always(w.cfg.Writer.Allow()...))
		case s.action == policy.Allow:
			w.decided.rest(allowed)
		case s.action != policy.Deny:
		case !w.inTier && w.decided.anyPassed():
			w.decided.rest(denied)
		default:
			w.finish(w.cfg.Writer.Denial(s.end))
		}
	}
	if !w.inTier {
		w.decided.reopen()
	}
}

// jumpToTier writes the steps of a tier as a separate chain. Packets that are passed or allowed
// return from it.
func (w *chainWriter) jumpToTier(steps []step) {
	name := w.outcome.part()
	part := &chainWriter{cfg: w.cfg, outcome: w.outcome, list: w.list, family: w.family, inTier: true}
	part.tier(steps)
	part.flush()
	w.add(name, part.rules)
	w.rules = append(w.rules, w.cfg.Writer.Call(name)...)
}

// plain adds the decisions of a plain rule.
func (w *chainWriter) plain(rule *match.Merged) {
	result := decisionOf(rule.Action)
	if w.eachRule() {
		w.targets = append(w.targets, target{w.target(rule), result == denied})
		result = firstTarget + decision(len(w.targets)-1)
	}
	w.decided.rule(&rule.Rule, w.family, result)
}

// target returns the verdict that leads to the chain of a rule that decides, and records that
// chain.
func (w *chainWriter) target(rule *match.Merged) ruleset.Verdict {
	v := w.cfg.Writer.Target(rule)
	if v.Chain != "" {
		w.outcome.ruleChains = append(w.outcome.ruleChains, v.Chain)
	}
	return v
}

// nonPlain writes a rule that is not plain.
func (w *chainWriter) nonPlain(rule *match.Merged) {
	if w.eachRule() && rule.Action != policy.Log {
		w.target(rule)
	}
	rules, more, err := w.cfg.Writer.Rule(w.list, rule, w.outcome.part())
	if err != nil { // impossible: the rule is valid
		rules = []ruleset.Rule{w.cfg.Writer.Denial(err.Error())}
	}
	w.rules = append(w.rules, rules...)
	for _, c := range more {
		w.add(c.Name, c.Rules)
	}
}

func (w *chainWriter) add(name string, rules []ruleset.Rule) {
	w.cfg.Chains.Set(&ruleset.Chain{Name: name, Rules: rules})
	w.outcome.chains = append(w.outcome.chains, name)
}

// flush writes the decisions.
func (w *chainWriter) flush() {
	if w.eachRule() {
		w.writeTargets()
		return
	}
	deny := ruleset.Rule{Statements: []ruleset.Statement{w.cfg.Writer.Deny()}}
	if w.decided.closed() {
		w.finish(build.Commented(deny, "denied"))
		return
	}
	w.writeDecided(allowed, build.Always(w.cfg.Writer.Allow()...))
	w.writeDecided(denied, deny)
	if w.inTier {
		w.writeDecided(passed, build.Always(build.Return()))
	}
	w.decided = decisions{}
}

// finish writes the decisions. The last rule decides about all other packets.
func (w *chainWriter) finish(last ruleset.Rule) {
	if w.eachRule() {
		if all := w.writeTargets(); !all {
			w.rules = append(w.rules, last)
		}
		return
	}
	all := w.decided.every(allowed)
	w.writeDecided(allowed, build.Always(w.cfg.Writer.Allow()...))
	if w.inTier {
		w.writeDecided(passed, build.Always(build.Return()))
	}
	if !all {
		w.rules = append(w.rules, last)
	}
	w.decided = decisions{}
}

// writeDecided writes the rules for the packets with a decision.
func (w *chainWriter) writeDecided(d decision, rule ruleset.Rule) {
	for _, matches := range w.decided.matches(d, w.list.Stage.Original()) {
		rule.Matches = matches
		w.rules = append(w.rules, rule)
	}
}
