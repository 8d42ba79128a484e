// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// compiledPolicy is a policy with its selectors parsed.
type compiledPolicy struct {
	*policy.Policy
	key      policy.Key
	replaced bool // if staged policies were enforced
	subject  scope
	rules    ruleLists
}

// ruleLists are the rules of a policy or profile for both directions.
type ruleLists struct{ ingress, egress ruleList }

// of returns the rules of a direction.
func (l *ruleLists) of(dir policy.Type) ruleList {
	if dir == policy.Egress {
		return l.egress
	}
	return l.ingress
}

// ruleList has the rules of a policy or profile for one direction.
type ruleList struct {
	rules []rule
	ids   []string
}

// rule is a rule as a list of checks, one for each condition. It matches a packet if all checks
// hold. Without checks, it matches every packet.
type rule struct {
	action      policy.Action
	annotations map[string]string
	doubts      []policy.Problem
	checks      []check
}

// check is one condition of a rule.
type check struct {
	holds func(*packet) bool
	// why returns the field that does not match a packet, and the reason.
	why func(*packet) Mismatch
}

// packet is a flow with the objects of the world on both sides.
type packet struct {
	Flow
	source, destination side
}

// compiler compiles rules to checks.
type compiler struct{ services map[serviceName]*service }

func (c *compiler) profile(r *policy.Profile) (*profile, error) {
	rules, err := c.lists(r.Key(), r.Ingress, r.Egress)
	return &profile{source: r, labels: r.LabelsToApply, rules: rules}, err
}

func (c *compiler) policy(r *policy.Policy) (*compiledPolicy, error) {
	p := &compiledPolicy{Policy: r, key: r.Key()}
	var err error
	p.subject, err = compileScope(scopeFields{
		namespace: r.Namespace, namespaceSelector: r.NamespaceSelector,
		accountSelector: r.ServiceAccountSelector, selector: r.Selector,
	})
	if err != nil {
		return nil, err
	}
	p.rules, err = c.lists(p.key, r.Ingress, r.Egress)
	return p, err
}

func (c *compiler) lists(owner policy.Key, ingress, egress []policy.Rule) (l ruleLists, err error) {
	if l.ingress, err = c.rules(owner, policy.Ingress, ingress); err != nil {
		return l, err
	}
	l.egress, err = c.rules(owner, policy.Egress, egress)
	return l, err
}

func (c *compiler) rules(owner policy.Key, dir policy.Type, rules []policy.Rule) (ruleList, error) {
	if len(rules) == 0 {
		return ruleList{}, nil
	}
	list := ruleList{ids: policy.RuleIDs(owner, dir, rules), rules: make([]rule, 0, len(rules))}
	for i := range rules {
		checks, err := c.rule(owner.Namespace, &rules[i])
		if err != nil {
			return ruleList{}, fmt.Errorf("verdict: %s: %s rule %d: %w", owner, dir, i+1, err)
		}
		r := rule{action: rules[i].Action, checks: checks, doubts: rules[i].Doubts}
		if m := rules[i].Metadata; m != nil {
			r.annotations = m.Annotations
		}
		list.rules = append(list.rules, r)
	}
	return list, nil
}

// rule compiles a rule of a policy in the namespace to checks.
func (c *compiler) rule(namespace string, r *policy.Rule) ([]check, error) {
	if len(r.Doubts) > 0 {
		return doubtChecks(r), nil
	}
	checks := packetChecks(r)
	for _, s := range []struct {
		name   string
		entity *policy.EntityRule
		of     func(*packet) *side
	}{
		{"source", &r.Source, func(p *packet) *side { return &p.source }},
		{"destination", &r.Destination, func(p *packet) *side { return &p.destination }},
	} {
		more, err := c.entity(namespace, s.name, s.entity, s.of)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		checks = append(checks, more...)
	}
	return checks, nil
}

// doubtChecks returns checks for a rule in doubt. It matches everything if it denies, otherwise
// nothing (S167).
func doubtChecks(r *policy.Rule) []check {
	if r.Action == policy.Deny {
		return nil
	}
	doubt := r.Doubts[0]
	return []check{{
		holds: func(*packet) bool { return false },
		why:   func(*packet) Mismatch { return Mismatch{Field: doubt.Field, Reason: doubt.Msg} },
	}}
}

// packetChecks compiles the conditions that are not on one side of the packet.
func packetChecks(r *policy.Rule) []check {
	var checks []check
	add := func(field string, holds func(*packet) bool, why func(*packet) string) {
		checks = append(checks, check{holds, func(p *packet) Mismatch {
			return Mismatch{Field: field, Reason: why(p)}
		}})
	}
	if v := r.IPVersion; v != 0 {
		add("ipVersion", func(p *packet) bool { return p.ipVersion() == v },
			func(p *packet) string { return fmt.Sprintf("the packet is IPv%d, not IPv%d", p.ipVersion(), v) })
	}
	if proto := r.Protocol; proto != 0 {
		add("protocol", func(p *packet) bool { return p.Protocol == proto && protocolFits(proto, p.ipVersion()) },
			func(p *packet) string {
				return fmt.Sprintf("the packet is %s over IPv%d, not %s", p.Protocol, p.ipVersion(), proto)
			})
	}
	if proto := r.NotProtocol; proto != 0 {
		add("notProtocol", func(p *packet) bool { return p.Protocol != proto },
			func(*packet) string { return fmt.Sprintf("the packet is %s", proto) })
	}
	icmp := func(p *packet) string { return fmt.Sprintf("the packet is %s", p.Flow) }
	if m := r.ICMP; m != nil {
		add("icmp", func(p *packet) bool { return icmpMatches(m, p) }, icmp)
	}
	if m := r.NotICMP; m != nil {
		add("notICMP", func(p *packet) bool { return !icmpMatches(m, p) }, icmp)
	}
	if want := r.DSCP; len(want) > 0 {
		add("dscp", func(p *packet) bool { return slices.Contains(want, p.DSCP) },
			func(p *packet) string { return fmt.Sprintf("the packet has DSCP %s, none of %s", p.DSCP, list(want)) })
	}
	if not := r.NotDSCP; len(not) > 0 {
		add("notDSCP", func(p *packet) bool { return !slices.Contains(not, p.DSCP) },
			func(p *packet) string { return fmt.Sprintf("the packet has DSCP %s, one of %s", p.DSCP, list(not)) })
	}
	return checks
}

// icmpMatches reports whether the packet is ICMP of the type and, if there is one, of the code.
func icmpMatches(m *policy.ICMP, p *packet) bool {
	return p.isICMP() && m.Type != nil && int(p.ICMPType) == *m.Type &&
		(m.Code == nil || int(p.ICMPCode) == *m.Code)
}
