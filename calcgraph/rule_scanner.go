// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// IPSetReceiver is told which IP sets rules refer to. Each id starts once and stops once.
type IPSetReceiver interface {
	IPSetActive(spec *IPSetSpec)
	IPSetInactive(id dataplane.IPSetID)
}

// RulesReceiver is told the resolved form of active policies and profiles. An update may come
// again for an object that it was told of before.
type RulesReceiver interface {
	RulesUpdate(owner policy.Key, rules Rules)
	RulesRemove(owner policy.Key)
}

// Rules are the resolved rules of a policy or profile.
type Rules struct {
	// Tier and Staged are those of the policy; zero for a profile.
	Tier   string
	Staged bool
	// Ingress and Egress rules in order.
	Ingress, Egress []dataplane.Rule
}

// RuleScannerConfig says where a RuleScanner sends its output. All fields are required.
type RuleScannerConfig struct {
	Sets  IPSetReceiver
	Rules RulesReceiver
}

// RuleScanner replaces the selectors and named ports in active rules by IP sets, which rules with equal
// selectors share. A set is told active before the rules that refer to it, and inactive
// after them. It takes the output of ActiveRules.
//
// A RuleScanner is not safe for concurrent use.
type RuleScanner struct {
	out RuleScannerConfig
	// sets counts for each set how many owners refer to it.
	sets   map[dataplane.IPSetID]int
	owners map[policy.Key][]dataplane.IPSetID
}

var (
	_ PolicyReceiver  = (*RuleScanner)(nil)
	_ ProfileReceiver = (*RuleScanner)(nil)
)

// NewRuleScanner returns an empty node.
func NewRuleScanner(cfg RuleScannerConfig) *RuleScanner {
	return &RuleScanner{
		out:    cfg,
		sets:   map[dataplane.IPSetID]int{},
		owners: map[policy.Key][]dataplane.IPSetID{},
	}
}

// PolicyActive resolves a policy's rules. The policy must be valid.
func (r *RuleScanner) PolicyActive(p *policy.Policy) {
	s := newScan(p.Key(), p.Namespace)
	rules := Rules{Tier: p.TierName(), Staged: p.Staged}
	if p.AppliesTo(policy.Ingress) {
		rules.Ingress = s.rules(policy.Ingress, p.Ingress)
	}
	if p.AppliesTo(policy.Egress) {
		rules.Egress = s.rules(policy.Egress, p.Egress)
	}
	r.update(s, rules)
}

// PolicyInactive withdraws a policy's rules.
func (r *RuleScanner) PolicyInactive(key policy.Key) { r.remove(key) }

// ProfileActive resolves a profile's rules. The profile must be valid.
func (r *RuleScanner) ProfileActive(p *policy.Profile) {
	s := newScan(p.Key(), "")
	r.update(s, Rules{
		Ingress: s.rules(policy.Ingress, p.Ingress),
		Egress:  s.rules(policy.Egress, p.Egress),
	})
}

// ProfileInactive withdraws a profile's rules.
func (r *RuleScanner) ProfileInactive(name string) {
	r.remove((&policy.Profile{Name: name}).Key())
}

// update takes the new references before it lets go of the old ones, so that a set that stays
// in use is left alone.
func (r *RuleScanner) update(s *scan, rules Rules) {
	old := r.owners[s.owner]
	r.owners[s.owner] = s.ids
	for _, id := range s.ids {
		if r.sets[id]++; r.sets[id] == 1 {
			r.out.Sets.IPSetActive(s.specs[id])
		}
	}
	r.out.Rules.RulesUpdate(s.owner, rules)
	r.release(old)
}

func (r *RuleScanner) remove(owner policy.Key) {
	old, ok := r.owners[owner]
	if !ok {
		return
	}
	delete(r.owners, owner)
	r.out.Rules.RulesRemove(owner)
	r.release(old)
}

func (r *RuleScanner) release(ids []dataplane.IPSetID) {
	for _, id := range ids {
		if r.sets[id]--; r.sets[id] == 0 {
			delete(r.sets, id)
			r.out.Sets.IPSetInactive(id)
		}
	}
}

// scan collects the sets that the rules of one owner refer to, each once, in order of appearance.
type scan struct {
	owner     policy.Key
	namespace string
	ids       []dataplane.IPSetID
	specs     map[dataplane.IPSetID]*IPSetSpec
}

func newScan(owner policy.Key, namespace string) *scan {
	return &scan{owner: owner, namespace: namespace, specs: map[dataplane.IPSetID]*IPSetSpec{}}
}

func (s *scan) rules(dir policy.Type, rules []policy.Rule) []dataplane.Rule {
	ids := policy.RuleIDs(s.owner, dir, rules)
	out := make([]dataplane.Rule, 0, len(rules))
	for i := range rules {
		rule, ok := s.rule(&rules[i])
		if !ok {
			continue
		}
		rule.ID = ids[i]
		out = append(out, rule)
	}
	return out
}

// rule resolves one rule. It reports false for a rule whose selectors do not parse. Validation
// keeps such rules out of the graph; for someone who uses the node alone and does not
// validate, an Allow in doubt must match nothing, while other actions in doubt match
// everything on that side and deny.
func (s *scan) rule(r *policy.Rule) (dataplane.Rule, bool) {
	src, errSrc := s.match(&r.Source, r.Protocol)
	dst, errDst := s.match(&r.Destination, r.Protocol)
	if errSrc != nil || errDst != nil {
		return dataplane.Rule{Action: policy.Deny}, r.Action == policy.Deny || r.Action == policy.Pass
	}
	return dataplane.Rule{
		Action:      r.Action,
		IPVersion:   r.IPVersion,
		Protocol:    r.Protocol,
		NotProtocol: r.NotProtocol,
		ICMP:        r.ICMP,
		NotICMP:     r.NotICMP,
		Source:      src,
		Destination: dst,
	}, true
}

func (s *scan) match(e *policy.EntityRule, proto policy.Protocol) (dataplane.Match, error) {
	peers, err := PeersOf(s.namespace, e)
	if err != nil {
		return dataplane.Match{}, err
	}
	m := dataplane.Match{Nets: e.Nets, NotNets: e.NotNets}
	if peers.Match != nil {
		m.Sets = []dataplane.IPSetID{s.use(SelectorSet(peers.Match))}
	}
	if peers.Not != nil {
		m.NotSets = []dataplane.IPSetID{s.use(SelectorSet(peers.Not))}
	}
	named := func(ports []policy.Port) (numeric []policy.Port, sets []dataplane.IPSetID) {
		for _, port := range ports {
			if port.Name == "" {
				numeric = append(numeric, port)
			} else {
				sets = append(sets, s.use(NamedPortSet(peers.Ports, port.Name, proto)))
			}
		}
		return numeric, sets
	}
	m.Ports, m.PortSets = named(e.Ports)
	m.NotPorts, m.NotPortSets = named(e.NotPorts)
	return m, nil
}

func (s *scan) use(spec *IPSetSpec) dataplane.IPSetID {
	if s.specs[spec.ID] == nil {
		s.specs[spec.ID] = spec
		s.ids = append(s.ids, spec.ID)
	}
	return spec.ID
}
