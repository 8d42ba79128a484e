// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// stage says for which place on a packet's way a list of rules is rendered.
type stage uint8

const (
	// stageFilter is where most policy is: of workloads, and of the host for its own and for forwarded traffic.
	stageFilter stage = iota
	// stageRaw is before connection tracking: what untracked policy allows is not tracked.
	stageRaw
	// stagePreDNAT is before destination NAT.
	stagePreDNAT
	// stageRawAgain finds out once more what untracked policy has allowed, and stagePreDNATAgain what pre-DNAT
	// policy has, from the destination that connection tracking remembers: without marks on
	// packets nothing else tells. They write no log.
	stageRawAgain
	stagePreDNATAgain
	// stageHostOut is stageFilter for what the host itself sends, where policy rejects: some of that is judged after routing,
	// where the kernel cannot.
	stageHostOut
	// stageClass is stageFilter for what is written as classes: what allows there says so in the packet, and returns.
	stageClass
	// stageRawDNAT asks untracked policy about what the host sent and was translated, at the interface that it leaves by, from the
	// destination that it had at first. It can only deny there: what it would have allowed is tracked by then.
	stageRawDNAT
)

// name begins the names of the chains of a stage.
func (s stage) name() string {
	switch s {
	case stageRaw:
		return "raw-"
	case stagePreDNAT:
		return "prednat-"
	case stageRawAgain:
		return "again-raw-"
	case stagePreDNATAgain:
		return "again-prednat-"
	case stageHostOut:
		return "host-"
	case stageRawDNAT:
		return "dnat-raw-"
	default:
		return ""
	}
}

// again reports whether the stage repeats another one.
func (s stage) again() bool { return s == stageRawAgain || s == stagePreDNATAgain }

// ruleOwner is a policy or a profile: whatever has lists of rules. One that others refer to and that is not there has
// neither policy nor profile.
type ruleOwner struct {
	key     policy.Key
	policy  *dataplane.Policy
	profile *dataplane.Profile
	lists   map[listKey]*ruleList // nil if it does not exist
	listed  bool                  // lists has been rendered
	err     error                 // of rendering
	sets    map[*ipSet]struct{}
	chains  []string
	tiers   map[*tier]struct{}    // that list the policy
	users   map[*subject]struct{} // that name the profile
	// indexes are those of classes that have the policy or profile. What nothing else has needs no chain.
	indexes map[*tierIndex]struct{}
}

// listKey names one rendering of one of the lists.
type listKey struct {
	dir   direction
	stage stage
}

// ruleList is a rendered list of rules.
type ruleList struct {
	rules []ruleset.Rule
	// chain holds the rules, unless they must be written where they are used: a Pass is a return, which must be
	// that of the tier's own chain.
	chain string
}

func (o *ruleOwner) exists() bool { return o.policy != nil || o.profile != nil }

// staged reports whether the policy must not be enforced (S20).
func (o *ruleOwner) staged() bool {
	return o.key.Kind == policy.KindStagedPolicy || o.policy != nil && o.policy.Staged
}

// stages returns the stages that the rules of a policy or profile are for.
func (r *Renderer) stages(o *ruleOwner) []listKey {
	usual := []listKey{{ingress, stageFilter}, {egress, stageFilter}}
	if r.cfg.Reject {
		usual = append(usual, listKey{egress, stageHostOut})
	}
	switch p := o.policy; {
	case p == nil:
		return usual
	case o.staged():
		return nil
	case p.Untracked:
		return []listKey{{ingress, stageRaw}, {egress, stageRaw}, {ingress, stageRawAgain}, {egress, stageRawAgain}, {egress, stageRawDNAT}}
	case p.PreDNAT:
		return []listKey{{ingress, stagePreDNAT}, {ingress, stagePreDNATAgain}}
	default:
		return usual
	}
}

func (o *ruleOwner) rules(dir direction) []dataplane.Rule {
	switch {
	case o.policy != nil && dir == ingress:
		return o.policy.Ingress
	case o.policy != nil:
		return o.policy.Egress
	case o.profile != nil && dir == ingress:
		return o.profile.Ingress
	case o.profile != nil:
		return o.profile.Egress
	default:
		return nil
	}
}

func profileKey(name string) policy.Key { return policy.Key{Kind: policy.KindProfile, Name: name} }

func (o *ruleOwner) isProfile() bool { return o.key.Kind == policy.KindProfile }

// chainName returns the name of the chain for one list.
func (o *ruleOwner) chainName(k listKey) string {
	if o.isProfile() {
		return objectName(k.stage.name()+"prof-"+string(k.dir), o.key.Name)
	}
	return keyName(k.stage.name()+"pol-"+string(k.dir), o.key)
}

// renderOwner renders the lists of a policy or profile anew, and marks whoever must be, too.
func (r *Renderer) renderOwner(o *ruleOwner) {
	oldErr, oldLists := o.err, o.lists
	oldChains := o.chains
	o.lists, o.err, o.chains, o.listed = nil, nil, nil, false
	r.refer(o)
	if o.exists() {
		o.lists = map[listKey]*ruleList{}
		if !o.staged() { // S20
			o.err = r.check(o)
		}
	}
	if o.exists() && o.err == nil && len(o.tiers)+len(o.users) > 0 {
		r.renderLists(o)
	}
	r.fault(o.key, o.err)
	if o.err != nil {
		oldChains = append(oldChains, o.chains...)
		o.lists, o.chains = map[listKey]*ruleList{}, nil
	}
	for t := range o.indexes {
		r.refile(t, o)
	}
	for _, name := range oldChains {
		if !slices.Contains(o.chains, name) {
			r.dropChain(name)
		}
	}
	if !sameError(oldErr, o.err) || !sameShape(oldLists, o.lists) {
		for t := range o.tiers {
			r.dirtyTiers[t] = struct{}{}
		}
		for s := range o.users {
			r.dirtySubjects[s] = struct{}{}
		}
	}
}

// renderLists renders the lists of a policy or profile that is used in chains.
func (r *Renderer) renderLists(o *ruleOwner) {
	var errs []error
	o.listed = true
	for _, k := range r.stages(o) {
		l, err := r.list(o, k)
		errs = append(errs, err)
		o.lists[k] = l
	}
	o.err = errors.Join(dedupe(errs)...)
}

// needLists sees to it that the lists of a policy or profile are there.
func (r *Renderer) needLists(o *ruleOwner) {
	if o.exists() && o.err == nil && !o.listed {
		r.renderLists(o)
	}
}

// dropLists takes the chains of a policy or profile away that is used in none any more.
func (r *Renderer) dropLists(o *ruleOwner) {
	if len(o.tiers)+len(o.users) > 0 || !o.listed {
		return
	}
	for _, name := range o.chains {
		r.dropChain(name)
	}
	o.lists, o.chains, o.listed = map[listKey]*ruleList{}, nil, false
}

// check returns what cannot be understood of the rules that count.
func (r *Renderer) check(o *ruleOwner) error {
	var errs []error
	m := matcher{lookup: r.set}
	for _, dir := range []direction{ingress, egress} {
		if !slices.ContainsFunc(r.stages(o), func(k listKey) bool { return k.dir == dir }) {
			continue
		}
		rules := o.rules(dir)
		for i := range rules {
			err := m.checkRule(&rules[i])
			if err == nil && !slices.Contains(knownActions(), rules[i].Action) {
				err = fmt.Errorf("unknown action %q", rules[i].Action)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s rule %s: %w", dir, rules[i].ID, err))
				break
			}
		}
	}
	return errors.Join(errs...)
}

func knownActions() []policy.Action {
	return []policy.Action{policy.Allow, policy.Deny, policy.Pass, policy.Log}
}

// dedupe leaves out errors that say the same: a list is rendered for more than one stage.
func dedupe(errs []error) (out []error) {
	for _, err := range errs {
		if err != nil && !slices.ContainsFunc(out, func(o error) bool { return o.Error() == err.Error() }) {
			out = append(out, err)
		}
	}
	return out
}

// sameShape reports whether nobody who uses the lists has to be rendered again: all of them are in chains of the same names. What does
// not exist has no lists, what is staged has none in them.
func sameShape(a, b map[listKey]*ruleList) bool {
	if len(a) != len(b) || (a == nil) != (b == nil) {
		return false
	}
	for k, l := range a {
		m := b[k]
		if m == nil || l.chain != m.chain || (l.chain == "" && len(l.rules)+len(m.rules) > 0) {
			return false
		}
	}
	return true
}

// refer notes the IP sets that the rules refer to.
func (r *Renderer) refer(o *ruleOwner) {
	old := o.sets
	o.sets = map[*ipSet]struct{}{}
	for _, dir := range []direction{ingress, egress} {
		rules := o.rules(dir)
		for i := range rules {
			for _, m := range [...]*dataplane.Match{&rules[i].Source, &rules[i].Destination} {
				for _, ids := range [...][]dataplane.IPSetID{m.Sets, m.NotSets, m.PortSets, m.NotPortSets} {
					for _, id := range ids {
						s := r.set(id)
						s.users[o] = struct{}{}
						o.sets[s] = struct{}{}
					}
				}
			}
		}
	}
	for s := range old {
		if _, ok := o.sets[s]; !ok {
			delete(s.users, o)
			r.forgetSet(s)
		}
	}
}

// list renders one list of rules for one stage, and puts it into chains where that is possible.
func (r *Renderer) list(o *ruleOwner, k listKey) (*ruleList, error) {
	l, rules := &ruleList{}, o.rules(k.dir)
	merged := mergeRules
	if r.cfg.Counters || r.cfg.VerdictLog.Enabled {
		merged = eachRule // what is counted or logged must tell which rule it was
	}
	var extra []*ruleset.Chain
	for i, m := range merged(rules) {
		if (k.stage.again() || k.stage == stageRawDNAT) && !m.repeatable(k.stage) {
			continue
		}
		// Two slashes: with one it could be the name of a policy in the namespace of that name.
		out, more, err := r.ruleIn(k, o.isProfile(), o.chainName(k)+"//log-"+strconv.Itoa(i), &m)
		if err != nil {
			return l, fmt.Errorf("%s rule %s: %w", k.dir, strings.Join(m.ids, " "), err)
		}
		l.rules = append(l.rules, out...)
		extra = append(extra, more...)
	}
	for _, c := range extra {
		r.setChain(c)
		o.chains = append(o.chains, c.Name)
	}
	passes := !o.isProfile() && slices.ContainsFunc(rules, func(r dataplane.Rule) bool { return r.Action == policy.Pass })
	if !passes && len(l.rules) > 0 {
		l.chain = o.chainName(k)
		r.setChain(&ruleset.Chain{Name: l.chain, Rules: l.rules})
		o.chains = append(o.chains, l.chain)
		l.rules = nil
	}
	return l, nil
}

// repeatable prepares a rule for a stage that repeats another one, and reports whether it has a part in it. What a rule denied is not there
// any more, and logs are written. A Pass whose named ports cannot be looked up any more, see portSetMatches, passes all that it may
// have passed, and in stageRawDNAT a Deny denies all that it may have denied: that lets less through.
func (m *mergedRule) repeatable(s stage) bool {
	d := &m.Destination
	if s == stageRawDNAT {
		if m.Action == policy.Deny && len(d.PortSets) > 0 {
			d.Ports, d.PortSets = []policy.Port{policy.PortRange(0, math.MaxUint16)}, nil
		}
		if m.Action == policy.Deny {
			d.NotPortSets = nil
		}
		return m.Action != policy.Log
	}
	if s == stagePreDNATAgain && m.Action == policy.Pass && len(d.PortSets)+len(d.NotPortSets) > 0 {
		if len(d.PortSets) > 0 {
			d.Ports = nil
		}
		d.PortSets, d.NotPortSets = nil, nil
	}
	return m.Action == policy.Allow || m.Action == policy.Pass
}

// ruleIn renders one rule of a policy or profile, and the chain that it may need to log.
func (r *Renderer) ruleIn(k listKey, profile bool, logChain string, rule *mergedRule) ([]ruleset.Rule, []*ruleset.Chain, error) {
	m := matcher{lookup: r.set, original: k.stage == stagePreDNATAgain || k.stage == stageRawDNAT}
	alts, overlap, err := m.alternatives(&rule.Rule)
	if err != nil {
		return nil, nil, err
	}
	statements, err := r.action(k, profile, rule)
	if err != nil {
		return nil, nil, err
	}
	// A packet that matches several alternatives is logged for the first, in a chain of its own.
	once := rule.Action == policy.Log && overlap && len(alts) > 1
	if once {
		statements = append(statements, ruleset.Verdict{Kind: ruleset.Return})
	}
	note := comment(strings.Join(rule.ids, " "))
	out := make([]ruleset.Rule, len(alts))
	for i, matches := range alts {
		out[i] = ruleset.Rule{Matches: matches, Statements: statements, Comment: note}
	}
	if !once {
		return out, nil, nil
	}
	c := &ruleset.Chain{Name: logChain, Rules: out}
	return []ruleset.Rule{{Statements: []ruleset.Statement{jump(c.Name)}, Comment: note}}, []*ruleset.Chain{c}, nil
}

// action returns what the rule does.
func (r *Renderer) action(k listKey, profile bool, rule *mergedRule) ([]ruleset.Statement, error) {
	id := rule.ids[0]
	switch action := rule.Action; {
	case action == policy.Allow && k.stage == stageRaw:
		return append(r.account(k.stage, "allow", id), ruleset.Notrack{}, accept()), nil
	case action == policy.Allow && k.stage == stageClass:
		return append(r.account(k.stage, "allow", id), allowing()...), nil
	case action == policy.Allow:
		return append(r.account(k.stage, "allow", id), accept()), nil
	case action == policy.Deny || action == policy.Pass && profile: // S32
		return append(r.account(k.stage, "deny", id), r.deny(k)), nil
	case action == policy.Pass:
		return append(r.count(k.stage), ruleset.Verdict{Kind: ruleset.Return}), nil
	case action == policy.Log:
		return append(r.count(k.stage), r.logLine(id)...), nil
	default:
		return nil, fmt.Errorf("unknown action %q", rule.Action)
	}
}
