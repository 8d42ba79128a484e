// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// walk is one evaluation of an endpoint's policy in one direction.
type walk struct {
	evaluation
	packet   *packet
	endpoint *object
	list     policyList
	// atNode adds the checks of the node on packets from a workload.
	atNode bool
	// state is the state of connection tracking for the packet.
	state State
	// failsafe means that failsafe ports apply.
	failsafe bool
	// noPolicyOutcome is the outcome if no policy of the list selects the endpoint. The normal list
	// does not use it.
	noPolicyOutcome Outcome
	// enforceStaged evaluates staged policies as if they were enforced.
	enforceStaged bool
	// previous is the result of an earlier walk without enforceStaged, or nil.
	previous *Direction
	// result is the result of the walk.
	result *Direction
}

func (w *walk) decide(o Outcome, by Decision) { w.result.Outcome, w.result.Decision = o, by }

// run evaluates until there is a decision. There always is one.
func (w *walk) run() {
	governed := w.list == normal || w.governed()
	if governed && w.beforePolicy() {
		return
	}
	for _, t := range w.e.tiers {
		if w.tier(t) {
			return
		}
	}
	switch {
	case !governed:
		w.decide(w.noPolicyOutcome, Decision{By: ByNoPolicy})
	case w.list == forward:
		w.decide(Allow, Decision{By: ByEndOfTiers})
	case w.list != normal: // S36, S37
		w.decide(NotApplicable, Decision{By: ByEndOfTiers})
	default:
		w.profiles()
	}
}

// beforePolicy evaluates the checks before policy. It reports whether one decided.
func (w *walk) beforePolicy() (decided bool) {
	sender := w.endpoint.workload
	if !w.atNode || w.result.Type != policy.Egress {
		sender = nil
	}
	switch {
	case w.endpoint.down():
		w.decide(Deny, Decision{By: ByAdminState})
	case sender != nil && !ownsSource(sender, w.packet.Src):
		w.decide(Deny, Decision{By: ByFalseSource})
	case w.list != untracked && w.state == StateEstablished:
		w.decide(Allow, Decision{By: ByEstablished})
	case w.list != untracked && w.state == StateInvalid && !w.e.host.KeepInvalid:
		w.decide(Deny, Decision{By: ByInvalidState})
	case sender != nil && w.encapsulated():
		w.decide(Deny, Decision{By: ByEncapsulation})
	case w.failsafe:
		return w.byFailsafe()
	default:
		return false
	}
	return true
}

// down reports whether the endpoint's administrative state is down.
func (o *object) down() bool { return o.workload != nil && o.workload.AdminState == policy.AdminDown }

// ownsSource reports whether a workload may send from an address (S119). Its floating addresses are
// not among these: the kernel translates the source of replies after policy.
func ownsSource(r *policy.WorkloadEndpoint, addr netip.Addr) bool {
	return slices.Contains(r.Addresses, addr) || contains(r.AllowSpoofedSourcePrefixes, addr)
}

// encapsulated reports whether the packet contains another packet that policy does not see (S120).
func (w *walk) encapsulated() bool {
	return slices.ContainsFunc(w.e.forbidden, func(e policy.Encapsulation) bool {
		return e.Carries(w.packet.Protocol, w.packet.DstPort)
	})
}

// byFailsafe decides about failsafe ports. Untracked and pre-DNAT policy do not apply to them.
func (w *walk) byFailsafe() (decided bool) {
	f, ok := w.failsafePort()
	if !ok {
		return false
	}
	outcome := Allow
	if w.list != normal {
		outcome = NotApplicable
	}
	w.decide(outcome, Decision{By: ByFailsafe, Detail: f.String()})
	return true
}

// governed reports whether an enforced policy of the list selects the endpoint.
func (w *walk) governed() bool {
	for _, t := range w.e.tiers {
		for _, p := range t.policies(w.list, w.result.Type) {
			if w.selects(p) && w.enforces(p) {
				return true
			}
		}
	}
	return false
}

// tier evaluates one tier and reports whether it decided. It records no step for a tier without a
// policy for the endpoint in this direction.
func (w *walk) tier(t *tier) (decided bool) {
	var steps []PolicyStep
	var action policy.Action
	enforced := false
	var by Decision
	policies, previous := t.policies(w.list, w.result.Type), w.previousSteps(t)
	for i, p := range policies {
		var known *PolicyStep
		if len(previous) > 0 && previous[0].Policy == p.key {
			known, previous = &previous[0], previous[1:]
		}
		if known == nil && !p.subject.selects(w.endpoint) || w.enforceStaged && p.replaced {
			continue
		}
		var rules ruleResult
		if known != nil {
			rules = known.ruleResult()
		} else {
			rules = w.rules(p.rules.of(w.result.Type))
		}
		if w.log != nil {
			if len(steps) == cap(steps) { // append would grow in small steps
				steps = slices.Grow(steps, min(3*len(steps)+1, len(policies)-i))
			}
			steps = append(steps, PolicyStep{Policy: p.key, Staged: p.Staged, Rules: rules.steps, Action: rules.action})
		}
		if !w.enforces(p) {
			continue
		}
		enforced = true
		if rules.action != "" {
			by = Decision{
				By: ByRule, Tier: t.Name, Policy: p.key, RuleID: rules.id, Annotations: rules.annotations,
				Doubts: rules.doubts,
			}
			action = rules.action
			break
		}
	}
	end := enforced && action == "" && (w.list == normal || w.list == forward) // S26, S36
	if end {
		by = Decision{By: ByEndOfTier, Tier: t.Name}
		action = t.Action()
	}
	if len(steps) > 0 {
		w.result.Tiers = append(w.result.Tiers, TierStep{
			Name: t.Name, Missing: t.missing, DefaultAction: t.Action(), Policies: steps, Action: action, Default: end,
		})
	}
	if action == "" || action == policy.Pass {
		return false
	}
	w.decide(outcomeOf(action), by)
	return true
}

// previousSteps returns the steps of the previous walk for the policies of a tier. The results of
// their rules are the same in this walk.
func (w *walk) previousSteps(t *tier) []PolicyStep {
	if w.previous == nil {
		return nil
	}
	for _, step := range w.previous.Tiers {
		if step.Name == t.Name {
			return step.Policies
		}
	}
	return nil
}

// ruleResult returns the result of a policy's rules, without the steps.
func (s *PolicyStep) ruleResult() ruleResult {
	if s.Action == "" {
		return ruleResult{}
	}
	last := &s.Rules[len(s.Rules)-1]
	return ruleResult{action: s.Action, id: last.ID, annotations: last.Annotations, doubts: last.Doubts}
}

// staged reports whether enforcing staged policies can change the walk: a staged policy selects the
// endpoint, or a policy that it would replace does.
func (w *walk) staged() bool {
	return slices.ContainsFunc(w.e.staging.policies(w.list, w.result.Type), func(p *compiledPolicy) bool {
		return p.subject.selects(w.endpoint)
	})
}

// selects reports whether the policy selects the endpoint.
func (w *walk) selects(p *compiledPolicy) bool {
	if w.enforceStaged && p.replaced {
		return false // the staged policy replaces it
	}
	return p.subject.selects(w.endpoint)
}

// enforces reports whether the policy is enforced in this walk.
func (w *walk) enforces(p *compiledPolicy) bool { return !p.Staged || w.enforceStaged }

// profiles evaluates the endpoint's profiles. If none decides, the packet is denied.
func (w *walk) profiles() {
	for _, name := range w.endpoint.profiles {
		if w.profile(name) {
			return
		}
	}
	w.decide(Deny, Decision{By: ByEndOfProfiles})
}

// profile evaluates one profile and reports whether it decided.
func (w *walk) profile(name string) (decided bool) {
	step := ProfileStep{Profile: name}
	by := Decision{By: ByRule, Profile: name}
	profile := w.e.profiles[name]
	if profile == nil {
		step.Missing, step.Action = true, policy.Deny
		by.By = ByMissingProfile
	} else {
		rules := w.rules(profile.rules.of(w.result.Type))
		step.Rules, step.Action = rules.steps, rules.action
		by.RuleID, by.Annotations = rules.id, rules.annotations
	}
	if w.log != nil {
		w.result.Profiles = append(w.result.Profiles, step)
	}
	if step.Action == "" {
		return false
	}
	w.decide(outcomeOf(step.Action), by)
	return true
}

// outcomeOf returns the outcome of a final action. Every action but Allow denies, also the Pass of
// a profile.
func outcomeOf(a policy.Action) Outcome {
	if a == policy.Allow {
		return Allow
	}
	return Deny
}

// ruleResult is the result of a list of rules.
type ruleResult struct {
	// action is that of the rule that decided, with its id, annotations and doubts. It is empty if
	// no rule decided.
	action      policy.Action
	id          string
	annotations map[string]string
	doubts      []policy.Problem
	steps       []RuleStep
}

// rules evaluates rules in order: the first one that matches decides, except for Log.
func (w *walk) rules(list ruleList) ruleResult {
	var result ruleResult
	if w.log != nil {
		result.steps = w.log.rules.reserve(len(list.rules))
	}
	for i := range list.rules {
		r := &list.rules[i]
		failed := r.failed(w.packet)
		if w.log != nil {
			step := RuleStep{ID: list.ids[i], Action: r.action, Annotations: r.annotations, Doubts: r.doubts}
			if failed != nil {
				step.Mismatch = w.mismatch(failed)
			}
			result.steps = append(result.steps, step)
		}
		if failed != nil || r.action == policy.Log {
			continue
		}
		result.action, result.id, result.annotations, result.doubts = r.action, list.ids[i], r.annotations, r.doubts
		break
	}
	if w.log != nil {
		result.steps = w.log.rules.commit(result.steps)
	}
	return result
}

// mismatch returns the reason why a check does not hold.
func (w *walk) mismatch(failed *check) *Mismatch {
	m := w.log.mismatches.commit(append(w.log.mismatches.reserve(1), failed.why(w.packet)))
	return &m[0]
}

// failed returns the first check that does not hold, or nil if the rule matches.
func (r *rule) failed(p *packet) *check {
	for i := range r.checks {
		if !r.checks[i].holds(p) {
			return &r.checks[i]
		}
	}
	return nil
}
