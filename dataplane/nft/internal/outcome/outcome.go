// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unique"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/classify"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/reuse"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// outcome has the compiled chains of the rules of a group that can match addresses of one class.
//
// Its number depends on the policies, and on the peers that their rules select. It does not depend
// on what the rules decide. So after an edit of ports or actions, classes keep their outcomes, and
// one element of a chainMap leads to another chain.
type outcome struct {
	classify.Numbered
	*compiled
	uses int
	// updated is the value of outcomes.updates when the chains were last compared with the rules.
	updated uint64
}

// compiled has the chains of outcomes with equal rules.
type compiled struct {
	key   string // all that the chains depend on
	chain string // the first chain
	uses  int
	parts int
	// chains has the names of the chains that only these outcomes use. The field ruleChains has the
	// names of the chains of single rules, which other outcomes use, too.
	chains, ruleChains []string
}

// part returns a new name for a further chain.
func (o *compiled) part() string {
	o.parts++
	return o.chain + "-" + strconv.Itoa(o.parts)
}

// affected reports whether one of the outcome's chains is bad. A nil outcome has no chains.
func (o *outcome) affected(isBad func(chain string) bool) bool {
	return o != nil && (slices.ContainsFunc(o.chains, isBad) || slices.ContainsFunc(o.ruleChains, isBad))
}

// step is a rule, or the end of a tier. At the end of a tier, rule is nil, action is the tier's
// default action, and end is a text with the tier's name.
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
	byID    map[string]*outcome
	byKey   map[string]*compiled
	numbers classify.Numbers
	// updates is the number of updates of dirty groups. During one update, rules do not change.
	updates uint64
	// renumber is set if the number of an outcome has changed, so that all elements must be written
	// again.
	renumber bool
	// idle has outcomes that may not be in use any more. idleChains has such chains.
	idle       map[*outcome]struct{}
	idleChains map[*compiled]struct{}
	// peers is scratch space for the peers of the rules of one policy.
	peers map[unique.Handle[string]]struct{}
}

func newOutcomes(cfg *Config, ix *indexes) *outcomes {
	return &outcomes{
		cfg: cfg, indexes: ix, byID: map[string]*outcome{}, byKey: map[string]*compiled{},
		numbers: classify.NewNumbers(cfg.OutcomeNumber),
		idle:    map[*outcome]struct{}{}, idleChains: map[*compiled]struct{}{},
		peers: map[unique.Handle[string]]struct{}{},
	}
}

// of returns the outcome of a class, with the chains of the current rules. It adds a reference to
// the outcome.
func (s *outcomes) of(g *Group, c *classify.Class) *outcome {
	var keys outcomeKeys
	tiers := s.stepsOf(g, c, &keys)
	id := keys.id(c.Family())
	o := s.byID[id]
	if o == nil {
		o = &outcome{Numbered: classify.NewNumbered(id)}
		s.byID[id] = o
		s.renumber = s.numbers.Add(&o.Numbered) || s.renumber
	}
	s.setRules(o, g, c, tiers, keys.rules.String())
	o.uses++
	s.idle[o] = struct{}{}
	return o
}

// refresh gives an outcome the chains of the current rules, once in an update. The class is edited,
// and had this outcome in the group. If the class does not keep the outcome, refresh returns false.
func (s *outcomes) refresh(o *outcome, g *Group, c *classify.Class) bool {
	if o == nil || o.updated == s.updates {
		return o != nil
	}
	var keys outcomeKeys
	tiers := s.stepsOf(g, c, &keys)
	if keys.id(c.Family()) != o.Content() {
		return false
	}
	s.setRules(o, g, c, tiers, keys.rules.String())
	return true
}

// setRules gives an outcome the chains of the rules in tiers.
func (s *outcomes) setRules(o *outcome, g *Group, c *classify.Class, tiers [][]step, key string) {
	if o.compiled == nil || o.key != key {
		s.dropChains(o.compiled)
		o.compiled = s.compile(g, c, tiers, key)
	}
	o.updated = s.updates
}

// stepsOf does what steps does, with keys that are empty.
func (s *outcomes) stepsOf(g *Group, c *classify.Class, keys *outcomeKeys) (tiers [][]step) {
	keys.policies.Grow(keySize)
	keys.rules.Grow(keySize)
	tiers = s.steps(g, c, keys)
	clear(s.peers)
	return tiers
}

// compile returns the chains of the rules in tiers, and adds a reference to the chains.
func (s *outcomes) compile(g *Group, c *classify.Class, tiers [][]step, key string) *compiled {
	o := s.byKey[key]
	if o == nil {
		o = &compiled{key: key, chain: g.Stage.Name() + "outcome-" + string(g.Dir) + "/" + sets.Hash(key)}
		s.byKey[key] = o
		w := &chainWriter{cfg: s.cfg, compiled: o, list: g.List, family: c.Family()}
		w.write(tiers)
	}
	o.uses++
	return o
}

// drop removes a reference to an outcome. The outcome may be nil.
func (s *outcomes) drop(o *outcome) {
	if o == nil {
		return
	}
	o.uses--
	s.idle[o] = struct{}{}
}

// dropChains removes a reference to the chains of outcomes. The chains may be nil.
func (s *outcomes) dropChains(o *compiled) {
	if o == nil {
		return
	}
	o.uses--
	s.idleChains[o] = struct{}{}
}

// removeIdle removes the outcomes without references, and their chains. It reports whether the
// number of another outcome has changed since the last call.
func (s *outcomes) removeIdle() (renumber bool) {
	for o := range s.idle {
		if o.uses > 0 {
			continue
		}
		delete(s.byID, o.Content())
		s.renumber = s.numbers.Remove(&o.Numbered) || s.renumber
		s.dropChains(o.compiled)
	}
	for o := range s.idleChains {
		if o.uses > 0 {
			continue
		}
		delete(s.byKey, o.key)
		for _, name := range o.chains {
			s.cfg.Chains.Drop(name)
		}
	}
	s.idle, s.idleChains = reuse.Map(s.idle), reuse.Map(s.idleChains)
	renumber, s.renumber = s.renumber, false
	return renumber
}

// keySize is a size in bytes. Most keys are not longer.
const keySize = 256

// outcomeKeys collects the inputs of an outcome and of its chains.
type outcomeKeys struct {
	// policies has the policies with the peers of their rules. rules has the rules.
	policies, rules strings.Builder
	// byFamily is set if the chains depend on the family of the class.
	byFamily bool
}

// both writes to both keys.
func (k *outcomeKeys) both(text string) {
	k.policies.WriteString(text)
	k.rules.WriteString(text)
}

// id returns a text that identifies the outcome.
func (k *outcomeKeys) id(f sets.Family) string {
	if k.byFamily {
		k.policies.WriteString("\nfamily " + strconv.Itoa(int(f)))
	}
	h := sha256.Sum256([]byte(k.policies.String()))
	return string(h[:])
}

// steps returns the rules of a group that match a class, for each tier that a packet can reach. It
// writes the keys.
func (s *outcomes) steps(g *Group, c *classify.Class, keys *outcomeKeys) (tiers [][]step) {
	keys.both(g.Stage.Name() + string(g.Dir))
	for _, t := range g.tiers {
		if !t.profile && t.enforced == 0 { // S20
			continue
		}
		steps, decided := s.tierSteps(t, c, keys)
		tiers = append(tiers, steps)
		if decided {
			return tiers
		}
	}
	keys.both("\nend")
	if g.rest == policy.Allow {
		keys.both(" allowed")
	}
	return append(tiers, []step{{action: g.rest, end: "no tier or profile allowed it"}}) // S25, S33
}

// tierSteps returns the steps of one tier. decided reports whether they decide about every packet.
func (s *outcomes) tierSteps(t *tierIndex, c *classify.Class, keys *outcomeKeys) (steps []step, decided bool) {
	keys.both("\n/")
	passes := false // whether some packets pass to the next tier
	for _, i := range s.indexes.candidates(t, c) {
		p := &t.policies[i]
		clear(s.peers)
		for k := range p.rules {
			rule := &p.rules[k]
			if !rule.matchesClass(c) {
				continue
			}
			s.addPeer(keys, p.entry, rule)
			rest := rule.rest(t.profile, t.list.Dir)
			if !rule.plain {
				rest.IPVersion, keys.byFamily = int(c.Family()), true
			}
			keys.rules.WriteByte('\n')
			rest.WriteKey(&keys.rules, rule.plain)
			if !rule.plain {
				s.indexes.writeShapes(&keys.rules, rest)
			} else if s.cfg.eachRule(t.list) {
				fmt.Fprintf(&keys.rules, " %q", rest.ID)
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
	keys.both(t.end)
	steps = append(steps, step{action: t.spec.DefaultAction, end: "end of tier " + t.spec.Tier})
	return steps, t.spec.DefaultAction == policy.Deny && !passes // S26, S27
}

// addPeer writes the policy and the peers of a rule that matches a class. If an earlier rule of the
// policy has the same peers, it writes nothing, because both rules match the same classes.
func (s *outcomes) addPeer(keys *outcomeKeys, e *entry, rule *classRule) {
	if _, seen := s.peers[rule.peer]; seen {
		return
	}
	if len(s.peers) == 0 {
		keys.policies.WriteString("\n" + e.name)
	}
	s.peers[rule.peer] = struct{}{}
	keys.policies.WriteString(" " + rule.peer.Value())
}

// chainWriter writes the chains of an outcome.
type chainWriter struct {
	cfg      *Config
	compiled *compiled
	list     match.List
	family   sets.Family
	rules    []ruleset.Rule
	// decided has the decisions of the plain rules since the last rule was written. If each rule
	// counts or logs, targets has the rules that made these decisions.
	decided decisions
	targets []target
	// inTier is set if the chain has the rules of a single tier: see jumpToTier.
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
	w.add(w.compiled.chain, w.rules)
}

// passesOthers reports whether a tier needs a chain of its own, because some packets skip some of
// its rules. It does in two cases. A Pass rule counts, logs or is not plain. Or a rule that is not
// plain comes after a Pass rule.
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
			// This rule also decides about packets whose port cannot be read. Other rules list all
			// ports, which do not match such packets.
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
			w.decided.decideRest(allowed)
		case s.action != policy.Deny:
		case !w.inTier && w.decided.anyPassed():
			w.decided.decideRest(denied)
		default:
			w.finish(w.cfg.Writer.Denial(s.end))
		}
	}
	if !w.inTier {
		w.decided.reopen()
	}
}

// jumpToTier writes the steps of a tier as a chain of its own. Packets that the tier passes or
// allows return from this chain.
func (w *chainWriter) jumpToTier(steps []step) {
	name := w.compiled.part()
	part := &chainWriter{cfg: w.cfg, compiled: w.compiled, list: w.list, family: w.family, inTier: true}
	part.tier(steps)
	part.flush()
	w.add(name, part.rules)
	w.rules = append(w.rules, w.cfg.Writer.Call(name)...)
}

// plain adds the decisions of a plain rule to decided.
func (w *chainWriter) plain(rule *match.Merged) {
	result := decisionOf(rule.Action)
	if w.eachRule() {
		w.targets = append(w.targets, target{w.target(rule), result == denied})
		result = firstTarget + decision(len(w.targets)-1)
	}
	w.decided.rule(&rule.Rule, w.family, result)
}

// target returns the verdict that leads to the chain of a rule that decides. It also records that
// chain.
func (w *chainWriter) target(rule *match.Merged) ruleset.Verdict {
	v := w.cfg.Writer.Target(rule)
	if v.Chain != "" {
		w.compiled.ruleChains = append(w.compiled.ruleChains, v.Chain)
	}
	return v
}

// nonPlain writes a rule that is not plain.
func (w *chainWriter) nonPlain(rule *match.Merged) {
	if w.eachRule() && rule.Action != policy.Log {
		w.target(rule)
	}
	rules, more, err := w.cfg.Writer.Rule(w.list, rule, w.compiled.part())
	if err != nil { // cannot happen, because the rule is valid
		rules = []ruleset.Rule{w.cfg.Writer.Denial(err.Error())}
	}
	w.rules = append(w.rules, rules...)
	for _, c := range more {
		w.add(c.Name, c.Rules)
	}
}

func (w *chainWriter) add(name string, rules []ruleset.Rule) {
	w.cfg.Chains.Set(&ruleset.Chain{Name: name, Rules: rules})
	w.compiled.chains = append(w.compiled.chains, name)
}

// flush writes the decisions of plain rules as rules of nftables.
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

// finish writes the decisions of plain rules. The rule last then decides about all other packets.
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
