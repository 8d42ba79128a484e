// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"slices"

	"github.com/wayleave/wayleave/policy"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ruleGroup has the policy rules of one rule of an object.
type ruleGroup struct {
	path   *field.Path
	rules  []policy.Rule
	closed policy.Rule // replaces the rules if the rule is in doubt; has no doubts itself
	// peersField and portsField name the lists of the rule.
	peersField, portsField string
	// peers and ports are those of the rules, which are one for each pair; none if the rule is
	// closed.
	peers []rulePeer
	ports []protocolPorts
}

// close replaces the group's rules by one closed rule.
func (g *ruleGroup) close(found []error) {
	r := g.closed
	r.Close(doubtsOf(found)...)
	g.rules, g.peers, g.ports = []policy.Rule{r}, nil, nil
}

// cross returns an Allow rule for each pair of a peer and a protocol.
func (g *ruleGroup) cross(
	peers []rulePeer, ports []protocolPorts, rule func(policy.EntityRule, []policy.Port) policy.Rule,
) {
	g.peers, g.ports = peers, ports
	g.rules = make([]policy.Rule, 0, len(peers)*len(ports))
	for _, peer := range peers {
		for _, pp := range ports {
			r := rule(peer.EntityRule, slices.Clone(pp.ports))
			r.Action, r.Protocol = policy.Allow, pp.protocol
			g.rules = append(g.rules, r)
		}
	}
}

// assemble returns the rules of a direction. A rule over the limits of package policy is closed. If
// all rules together are over a limit, one closed rule replaces them. The policy stays, because
// without it everything would be allowed. If several closed rules of a direction deny, only the
// first is kept.
func assemble(p *problems, path *field.Path, direction policy.Type, groups []ruleGroup) []policy.Rule {
	all := joined(groups)
	if rulesRefusal(direction, all) == nil {
		return all
	}
	for i := range groups {
		if err := rulesRefusal(direction, groups[i].rules); err != nil {
			p.add(groups[i].path.String(), err)
			groups[i].close(p.list[len(p.list)-1:])
		}
	}
	all = joined(groups)
	err := rulesRefusal(direction, all)
	if err == nil {
		return all
	}
	p.add(path.String(), err)
	first := max(0, slices.IndexFunc(groups, func(g ruleGroup) bool { return g.closed.Action != policy.Allow }))
	groups[first].close(p.list[len(p.list)-1:])
	return groups[first].rules
}

func joined(groups []ruleGroup) []policy.Rule {
	var all []policy.Rule
	for _, g := range groups {
		all = append(all, g.rules...)
	}
	return slices.Clip(all)
}

// rulesRefusal returns the reason why no policy can have the rules, or nil.
func rulesRefusal(direction policy.Type, rules []policy.Rule) error {
	probe := &policy.Policy{Name: "probe"}
	if direction == policy.Ingress {
		probe.Ingress = rules
	} else {
		probe.Egress = rules
	}
	return refusal(probe)
}
