// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// walk is one walk through the policy of an endpoint.
type walk struct {
	judge
	packet   *packet
	endpoint *object
	list     policyList
	// atNode looks at the packet itself too, as the node does that it comes from a workload on.
	atNode bool
	// state is the state of connection tracking for the packet.
	state State
	// failsafe means that failsafe ports count.
	failsafe bool
	// ungoverned is the outcome where no policy of the list is for the endpoint. Not for the normal
	// list.
	ungoverned Outcome
	// promote counts staged policies as if they were enforced.
	promote bool
	// before is what an earlier walk noted that differs in promote alone. Nil: there was none.
	before *Direction
	// to is what the walk fills.
	to *Direction
}

func (w *walk) decide(o Outcome, by Decision) { w.to.Outcome, w.to.Decision = o, by }

// run walks until something decides. The last thing always does.
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
		w.decide(w.ungoverned, Decision{By: ByNoPolicy})
	case w.list == forward:
		w.decide(Allow, Decision{By: ByEndOfTiers})
	case w.list != normal: // S36, S37
		w.decide(NotApplicable, Decision{By: ByEndOfTiers})
	default:
		w.profiles()
	}
}

// beforePolicy reports whether something decided that comes before policy.
func (w *walk) beforePolicy() (decided bool) {
	sender := w.endpoint.workload
	if !w.atNode || w.to.Type != policy.Egress {
		sender = nil
	}
	switch {
	case w.endpoint.down():
		w.decide(Deny, Decision{By: ByAdminState})
	case sender != nil && !owns(sender, w.packet.Src):
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

// down reports whether the endpoint is meant to have no traffic.
func (o *object) down() bool { return o.workload != nil && o.workload.AdminState == policy.AdminDown }

// owns reports whether a workload may send from an address (S119). The floating addresses are not
// among those: replies get them from the kernel, after policy.
func owns(r *policy.WorkloadEndpoint, addr netip.Addr) bool {
	return slices.Contains(r.Addresses, addr) || contains(r.AllowSpoofedSourcePrefixes, addr)
}

// encapsulated reports whether there is another packet in the packet that would escape policy
// (S120).
func (w *walk) encapsulated() bool {
	return slices.ContainsFunc(w.e.forbidden, func(e policy.Encapsulation) bool {
		return e.Carries(w.packet.Protocol, w.packet.DstPort)
	})
}

// byFailsafe decides for failsafe ports: untracked and pre-DNAT policy leave the packet alone.
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

// governed reports whether an enforced policy of the list is for the endpoint.
func (w *walk) governed() bool {
	for _, t := range w.e.tiers {
		for _, p := range t.policies(w.list, w.to.Type) {
			if w.concerns(p) && w.enforces(p) {
				return true
			}
		}
	}
	return false
}

// tier walks one tier and reports whether it decided. A tier without a policy for the endpoint in
// this direction is not even mentioned.
func (w *walk) tier(t *tier) (decided bool) {
	var steps []PolicyStep
	var action policy.Action
	enforced := false
	var by Decision
	policies, noted := t.policies(w.list, w.to.Type), w.noted(t)
	for i, p := range policies {
		var known *PolicyStep
		if len(noted) > 0 && noted[0].Policy == p.key {
			known, noted = &noted[0], noted[1:]
		}
		if known == nil && !p.subject.selects(w.endpoint) || w.promote && p.replaced {
			continue
		}
		var rules ruleWalk
		if known != nil {
			rules = known.result()
		} else {
			rules = w.rules(p.rules.of(w.to.Type))
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
		w.to.Tiers = append(w.to.Tiers, TierStep{
			Name: t.Name, Missing: t.missing, DefaultAction: t.Action(), Policies: steps, Action: action, Default: end,
		})
	}
	if action == "" || action == policy.Pass {
		return false
	}
	w.decide(outcomeOf(action), by)
	return true
}

// noted returns what the earlier walk noted of the policies of a tier. What came of their rules
// then comes of them now.
func (w *walk) noted(t *tier) []PolicyStep {
	if w.before == nil {
		return nil
	}
	for _, step := range w.before.Tiers {
		if step.Name == t.Name {
			return step.Policies
		}
	}
	return nil
}

// result is what came of walking the rules of a policy, without the steps.
func (s *PolicyStep) result() ruleWalk {
	if s.Action == "" {
		return ruleWalk{}
	}
	last := &s.Rules[len(s.Rules)-1]
	return ruleWalk{action: s.Action, id: last.ID, annotations: last.Annotations, doubts: last.Doubts}
}

// staged reports whether it makes a difference to the walk if staged policies are enforced: one is
// for the endpoint, or what one would take the place of is.
func (w *walk) staged() bool {
	return slices.ContainsFunc(w.e.staging.policies(w.list, w.to.Type), func(p *compiledPolicy) bool {
		return p.subject.selects(w.endpoint)
	})
}

// concerns reports whether the policy selects the endpoint.
func (w *walk) concerns(p *compiledPolicy) bool {
	if w.promote && p.replaced {
		return false // its staged successor stands in for it
	}
	return p.subject.selects(w.endpoint)
}

// enforces reports whether the policy counts.
func (w *walk) enforces(p *compiledPolicy) bool { return !p.Staged || w.promote }

// profiles walks the endpoint's profiles. Where none of them decides, nothing is allowed.
func (w *walk) profiles() {
	for _, name := range w.endpoint.profiles {
		if w.profile(name) {
			return
		}
	}
	w.decide(Deny, Decision{By: ByEndOfProfiles})
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
		rules := w.rules(profile.rules.of(w.to.Type))
		step.Rules, step.Action = rules.steps, rules.action
		by.RuleID, by.Annotations = rules.id, rules.annotations
	}
	if w.log != nil {
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
	// action of the rule that decided, with its id, annotations and doubts; empty if none did.
	action      policy.Action
	id          string
	annotations map[string]string
	doubts      []policy.Problem
	steps       []RuleStep
}

// rules walks the rules: the first that matches decides, except that Log never does.
func (w *walk) rules(list ruleList) ruleWalk {
	var result ruleWalk
	if w.log != nil {
		result.steps = w.log.rules.atLeast(len(list.rules))
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
		result.steps = w.log.rules.take(result.steps)
	}
	return result
}

// mismatch notes why a check does not hold.
func (w *walk) mismatch(failed *check) *Mismatch {
	m := w.log.mismatches.take(append(w.log.mismatches.atLeast(1), failed.why(w.packet)))
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
