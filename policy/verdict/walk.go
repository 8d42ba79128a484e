// SPDX-License-Identifier: Apache-2.0

package verdict

import "github.com/wayleave/wayleave/policy"

// walk is one walk through the policy of an endpoint.
type walk struct {
	e        *Evaluator
	packet   *packet
	endpoint *object
	// trace records all that was looked at, not just the decision.
	trace bool
	// promote counts staged policies as if they were enforced.
	promote bool
	// to is what the walk fills.
	to *Direction
}

// Evaluate judges a flow.
func (e *Evaluator) Evaluate(f Flow) Result { return e.judge(f, false).Result }

// Explain judges a flow and shows the work.
func (e *Evaluator) Explain(f Flow) *Explanation { return e.judge(f, true) }

func (e *Evaluator) judge(f Flow, trace bool) *Explanation {
	f = f.canonical()
	x := &Explanation{Flow: f}
	if err := f.Validate(); err != nil {
		invalid := Decision{By: ByInvalidFlow, Detail: err.Error()}
		x.Egress = &Direction{Type: policy.Egress, Outcome: Deny, Decision: invalid}
		x.Ingress = &Direction{Type: policy.Ingress, Outcome: Deny, Decision: invalid}
	} else {
		p := &packet{
			Flow:        f,
			source:      side{addr: f.Src, port: f.SrcPort, objects: e.objectsAt(f.Src)},
			destination: side{addr: f.Dst, port: f.DstPort, objects: e.objectsAt(f.Dst)},
		}
		x.Egress = e.direction(policy.Egress, e.endpoint(f.SrcEndpoint, f.Src), p, trace)
		x.Ingress = e.direction(policy.Ingress, e.endpoint(f.DstEndpoint, f.Dst), p, trace)
	}
	x.Result = combine(x.Egress.Outcome, x.Ingress.Outcome)
	return x
}

func (e *Evaluator) direction(dir policy.Type, endpoint *object, p *packet, trace bool) *Direction {
	if endpoint == nil {
		return &Direction{Type: dir, Outcome: NotApplicable, Decision: Decision{By: ByNoEndpoint}}
	}
	d := &Direction{Type: dir, Endpoint: endpoint.key}
	(&walk{e: e, packet: p, endpoint: endpoint, trace: trace, to: d}).run()
	if trace && len(e.staged) > 0 {
		next := &Direction{Type: dir, Endpoint: endpoint.key}
		(&walk{e: e, packet: p, endpoint: endpoint, promote: true, to: next}).run()
		d.IfStagedEnforced = next.Outcome
	}
	return d
}

func (w *walk) decide(o Outcome, by Decision) { w.to.Outcome, w.to.Decision = o, by }

// run walks until something decides. The last thing always does.
func (w *walk) run() {
	if w.endpoint.endpoint.AdminState == policy.AdminDown {
		w.decide(Deny, Decision{By: ByAdminState})
		return
	}
	for _, t := range w.e.tiers {
		if w.tier(t) {
			return
		}
	}
	for _, name := range w.endpoint.endpoint.Profiles {
		if w.profile(name) {
			return
		}
	}
	w.decide(Deny, Decision{By: ByEndOfProfiles})
}

// tier walks one tier and reports whether it decided. A tier without a policy for the endpoint in
// this direction is not even mentioned.
func (w *walk) tier(t *tier) (decided bool) {
	step := TierStep{Name: t.Name, Missing: t.missing, DefaultAction: t.Action()}
	enforced := false
	var by Decision
	for _, p := range t.policies {
		if !w.concerns(p) {
			continue
		}
		rules := w.rules(p.rules(w.to.Type))
		step.Policies = append(step.Policies,
			PolicyStep{Policy: p.key, Staged: p.Staged, Rules: rules.steps, Action: rules.action})
		if p.Staged && !w.promote {
			continue
		}
		enforced = true
		if rules.action != "" {
			by = Decision{By: ByRule, Tier: t.Name, Policy: p.key, RuleID: rules.id, Annotations: rules.annotations}
			step.Action = rules.action
			break
		}
	}
	if len(step.Policies) == 0 {
		return false
	}
	if enforced && step.Action == "" {
		by = Decision{By: ByEndOfTier, Tier: t.Name}
		step.Action, step.Default = step.DefaultAction, true
	}
	if w.trace {
		w.to.Tiers = append(w.to.Tiers, step)
	}
	if !enforced || step.Action == policy.Pass {
		return false
	}
	w.decide(outcomeOf(step.Action), by)
	return true
}

// concerns reports whether the policy selects the endpoint and counts for the direction.
func (w *walk) concerns(p *compiledPolicy) bool {
	if w.promote && !p.Staged && w.e.staged[p.key] {
		return false // its staged successor stands in for it
	}
	return p.AppliesTo(w.to.Type) && p.subject.selects(w.endpoint)
}

// profile walks one profile and reports whether it decided.
func (w *walk) profile(name string) (decided bool) {
	step := ProfileStep{Profile: name}
	by := Decision{By: ByRule, Profile: name}
	profile := w.e.profiles[name]
	if profile == nil {
		step.Missing, step.Action = true, policy.Deny
		by.By = ByMissingProfile
	} else {
		rules := w.rules(profile.rules(w.to.Type))
		step.Rules, step.Action = rules.steps, rules.action
		by.RuleID, by.Annotations = rules.id, rules.annotations
	}
	if w.trace {
		w.to.Profiles = append(w.to.Profiles, step)
	}
	if step.Action == "" {
		return false
	}
	w.decide(outcomeOf(step.Action), by)
	return true
}

// outcomeOf translates a final action. Whatever is not Allow denies: so does Pass, which
// only profiles let come this far.
func outcomeOf(a policy.Action) Outcome {
	if a == policy.Allow {
		return Allow
	}
	return Deny
}

// ruleWalk is what came of walking a list of rules.
type ruleWalk struct {
	// action of the rule that decided, with its id and annotations; empty if none did.
	action      policy.Action
	id          string
	annotations map[string]string
	steps       []RuleStep
}

// rules walks the rules: the first that matches decides, except that Log never does.
func (w *walk) rules(list ruleList) ruleWalk {
	var result ruleWalk
	var ids []string
	if w.trace {
		ids = list.ids()
	}
	for i, r := range list.rules {
		failed := r.failed(w.packet)
		if w.trace {
			step := RuleStep{ID: ids[i], Action: r.action, Annotations: r.annotations}
			if failed != nil {
				mismatch := failed.why(w.packet)
				step.Mismatch = &mismatch
			}
			result.steps = append(result.steps, step)
		}
		if failed != nil || r.action == policy.Log {
			continue
		}
		result.action, result.annotations = r.action, r.annotations
		if w.trace {
			result.id = ids[i]
		}
		break
	}
	return result
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

func (p *compiledPolicy) rules(dir policy.Type) ruleList {
	if dir == policy.Egress {
		return p.egress
	}
	return p.ingress
}

func (p *profile) rules(dir policy.Type) ruleList {
	if dir == policy.Egress {
		return p.egress
	}
	return p.ingress
}
