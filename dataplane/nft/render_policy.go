// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// listKey names one of the two rule lists of a policy or profile.
type listKey struct {
	owner policy.Key
	dir   direction
}

// ruleList is a rendered list of rules.
type ruleList struct {
	rules []ruleset.Rule
	// passes says that one of the rules is a Pass: a return, which must be the tier's own.
	passes bool
	err    error
}

func accept() ruleset.Verdict { return ruleset.Verdict{Kind: ruleset.Accept} }
func drop() ruleset.Verdict   { return ruleset.Verdict{Kind: ruleset.Drop} }

func jump(chain string) ruleset.Verdict {
	return ruleset.Verdict{Kind: ruleset.Jump, Chain: chain}
}

// staged reports whether the policy must not be enforced (S20).
func staged(k policy.Key, p *dataplane.Policy) bool {
	return p.Staged || k.Kind == policy.KindStagedPolicy
}

// policies renders the rules of every policy that is enforced.
func (r *run) policies() {
	all := r.renderer.policies
	for _, key := range slices.SortedFunc(maps.Keys(all), policy.Key.Compare) {
		p := all[key]
		if staged(key, p) {
			continue
		}
		err := errors.Join(r.list(key, ingress, p.Ingress), r.list(key, egress, p.Egress))
		if err != nil {
			r.fail(key, err)
			continue
		}
		for _, dir := range []direction{ingress, egress} {
			if l := r.lists[listKey{key, dir}]; !l.passes && len(l.rules) > 0 {
				r.add(&ruleset.Chain{Name: policyChain(key, dir), Rules: l.rules})
			}
		}
	}
}

func policyChain(key policy.Key, dir direction) string { return keyName("pol-"+string(dir), key) }

func profileKey(name string) policy.Key { return policy.Key{Kind: policy.KindProfile, Name: name} }

func profileChain(name string, dir direction) string { return objectName("prof-"+string(dir), name) }

// profiles renders the rules of every profile.
func (r *run) profiles() {
	all := r.renderer.profiles
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p, key := all[name], profileKey(name)
		err := errors.Join(r.list(key, ingress, p.Ingress), r.list(key, egress, p.Egress))
		if err != nil {
			r.fail(key, err)
			continue
		}
		for _, dir := range []direction{ingress, egress} {
			r.add(&ruleset.Chain{Name: profileChain(name, dir), Rules: r.lists[listKey{key, dir}].rules})
		}
	}
}

// list renders one list of rules and keeps the result.
func (r *run) list(owner policy.Key, dir direction, rules []dataplane.Rule) error {
	var l ruleList
	for i := range rules {
		more, err := r.rule(owner, dir, i, &rules[i])
		if err != nil {
			l.err = fmt.Errorf("%s rule %d: %w", dir, i, err)
			break
		}
		l.rules = append(l.rules, more...)
		l.passes = l.passes || rules[i].Action == policy.Pass && owner.Kind != policy.KindProfile
	}
	r.lists[listKey{owner, dir}] = l
	return l.err
}

// rule renders one rule.
func (r *run) rule(owner policy.Key, dir direction, index int, rule *dataplane.Rule) ([]ruleset.Rule, error) {
	alts, overlap, err := r.renderer.alternatives(rule)
	if err != nil {
		return nil, err
	}
	statements, err := r.action(owner, rule)
	if err != nil {
		return nil, err
	}
	once := rule.Action == policy.Log && overlap && len(alts) > 1
	if once {
		statements = append(statements, ruleset.Verdict{Kind: ruleset.Return})
	}
	var out []ruleset.Rule
	for _, matches := range alts {
		out = append(out, ruleset.Rule{Matches: matches, Statements: statements, Comment: comment(rule.ID)})
	}
	if once {
		// A packet that matches several alternatives is logged for the first, in a chain of its own.
		prefix := "log-pol-" + string(dir)
		if owner.Kind == policy.KindProfile {
			prefix = "log-prof-" + string(dir)
		}
		name := r.add(&ruleset.Chain{Name: keyName(prefix, owner, strconv.Itoa(index)), Rules: out})
		out = []ruleset.Rule{{Statements: []ruleset.Statement{jump(name)}, Comment: comment(rule.ID)}}
	}
	return out, nil
}

// action returns what the rule does.
func (r *run) action(owner policy.Key, rule *dataplane.Rule) ([]ruleset.Statement, error) {
	switch rule.Action {
	case policy.Allow:
		return []ruleset.Statement{accept()}, nil
	case policy.Deny:
		return []ruleset.Statement{drop()}, nil
	case policy.Pass:
		if owner.Kind == policy.KindProfile {
			return []ruleset.Statement{drop()}, nil // S32
		}
		return []ruleset.Statement{ruleset.Verdict{Kind: ruleset.Return}}, nil
	case policy.Log:
		prefix := quotable(r.renderer.cfg.LogPrefix+" "+rule.ID, ruleset.MaxLogPrefix-2) + ": "
		return []ruleset.Statement{ruleset.Log{Prefix: prefix}}, nil
	default:
		return nil, fmt.Errorf("unknown action %q", rule.Action)
	}
}

// tier returns the name of the chain for one tier of an endpoint, which all endpoints share that have just these
// policies in it, or "" if none of them is enforced.
func (r *run) tier(dir direction, t dataplane.TierPolicies) (string, error) {
	identity := []string{t.Tier, string(t.DefaultAction)}
	var enforced []policy.Key
	for _, key := range t.Policies {
		p := r.renderer.policies[key]
		if p == nil {
			return "", fmt.Errorf("tier %s: %s does not exist", t.Tier, key)
		}
		if staged(key, p) {
			continue
		}
		if err := r.listError(key); err != nil {
			return "", fmt.Errorf("tier %s: %s: %w", t.Tier, key, err)
		}
		enforced = append(enforced, key)
		identity = append(identity, string(key.Kind), key.Namespace, key.Name)
	}
	if len(enforced) == 0 {
		return "", nil // S20
	}
	if t.DefaultAction != policy.Deny && t.DefaultAction != policy.Pass {
		return "", fmt.Errorf("tier %s: unknown default action %q", t.Tier, t.DefaultAction)
	}
	name := objectName("tier-"+string(dir), t.Tier, hash(identity...))
	if r.chains[name] == nil {
		r.add(r.tierChain(name, dir, t, enforced))
	}
	return name, nil
}

// listError returns what is wrong with the rules of a policy or profile.
func (r *run) listError(owner policy.Key) error {
	return errors.Join(r.lists[listKey{owner, ingress}].err, r.lists[listKey{owner, egress}].err)
}

func (r *run) tierChain(name string, dir direction, t dataplane.TierPolicies, enforced []policy.Key) *ruleset.Chain {
	c := &ruleset.Chain{Name: name}
	for _, key := range enforced {
		switch l := r.lists[listKey{key, dir}]; {
		case l.passes:
			c.Rules = append(c.Rules, l.rules...)
		case len(l.rules) > 0:
			c.Rules = append(c.Rules, ruleset.Rule{Statements: []ruleset.Statement{jump(policyChain(key, dir))}})
		}
	}
	if t.DefaultAction == policy.Deny { // S26, S27
		c.Rules = append(c.Rules, ruleset.Rule{
			Statements: []ruleset.Statement{drop()}, Comment: comment("end of tier " + t.Tier),
		})
	}
	return c
}
