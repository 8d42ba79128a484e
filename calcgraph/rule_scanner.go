// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"cmp"
	"errors"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// IPSetReceiver receives the IP sets that rules refer to. A set that is active is not activated
// again.
type IPSetReceiver interface {
	IPSetActive(spec *IPSetSpec)
	IPSetInactive(id dataplane.IPSetID)
}

var errNoService = errors.New("services: a name and a namespace are required")

// RulesReceiver receives the resolved rules of active policies and profiles. An update may repeat
// an earlier one.
type RulesReceiver interface {
	RulesUpdate(owner policy.Key, rules Rules)
	RulesRemove(owner policy.Key)
}

// Rules are the resolved rules of a policy or profile.
type Rules struct {
	// Tier, Staged, Forward, Untracked and PreDNAT are the fields of the policy, as in
	// dataplane.Policy. They are zero for a profile.
	Tier                                string
	Staged, Forward, Untracked, PreDNAT bool
	// Ingress and Egress rules in order.
	Ingress, Egress []dataplane.Rule
}

// RuleScannerConfig configures a RuleScanner. All fields are required.
type RuleScannerConfig struct {
	Sets  IPSetReceiver
	Rules RulesReceiver
}

// RuleScanner replaces selectors, named ports and services in rules by IP sets. It receives the
// active policies and profiles from ActiveRules. Rules with equal conditions share sets. A set is
// activated before the first rules that refer to it are sent, and deactivated after the last ones
// are removed.
//
// The cost of an update of a policy or profile is proportional to the number of its rules.
//
// A RuleScanner is not safe for concurrent use.
type RuleScanner struct {
	out RuleScannerConfig
	// sets has the sets that owners refer to. An owner is an active policy or profile.
	sets   map[dataplane.IPSetID]*usedSet
	owners map[policy.Key][]*usedSet
	peers  peerCache
	scans  uint64
}

// usedSet is a set that owners refer to.
type usedSet struct {
	spec   *IPSetSpec
	owners int
	scan   uint64 // last scan that used the set
}

var (
	_ PolicyReceiver  = (*RuleScanner)(nil)
	_ ProfileReceiver = (*RuleScanner)(nil)
)

// NewRuleScanner returns a RuleScanner without rules.
func NewRuleScanner(cfg RuleScannerConfig) *RuleScanner {
	return &RuleScanner{
		out:    cfg,
		sets:   map[dataplane.IPSetID]*usedSet{},
		owners: map[policy.Key][]*usedSet{},
	}
}

// PolicyActive resolves a policy's rules. The policy must be valid.
func (r *RuleScanner) PolicyActive(p *policy.Policy) {
	s := r.newScan(p.Key(), p.Namespace)
	rules := Rules{
		Tier: p.TierName(), Staged: p.Staged, Forward: p.ApplyOnForward, Untracked: p.DoNotTrack, PreDNAT: p.PreDNAT,
	}
	if p.AppliesTo(policy.Ingress) {
		rules.Ingress = s.rules(policy.Ingress, p.Ingress)
	}
	if p.AppliesTo(policy.Egress) && !p.PreDNAT { // S38
		rules.Egress = s.rules(policy.Egress, p.Egress)
	}
	r.update(s, rules)
}

// PolicyInactive removes a policy's rules.
func (r *RuleScanner) PolicyInactive(key policy.Key) { r.remove(key) }

// ProfileActive resolves a profile's rules. The profile must be valid.
func (r *RuleScanner) ProfileActive(p *policy.Profile) {
	s := r.newScan(p.Key(), "")
	r.update(s, Rules{
		Ingress: s.rules(policy.Ingress, p.Ingress),
		Egress:  s.rules(policy.Egress, p.Egress),
	})
}

// ProfileInactive removes a profile's rules.
func (r *RuleScanner) ProfileInactive(name string) {
	r.remove((&policy.Profile{Name: name}).Key())
}

// update adds the new references before it releases the old ones, so that a set that is still in
// use stays active.
func (r *RuleScanner) update(s *scan, rules Rules) {
	old := r.owners[s.owner]
	if slices.Equal(old, s.used) {
		r.out.Rules.RulesUpdate(s.owner, rules)
		return
	}
	r.owners[s.owner] = s.used
	for _, set := range s.used {
		if set.owners++; set.owners == 1 {
			r.out.Sets.IPSetActive(set.spec)
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

func (r *RuleScanner) release(sets []*usedSet) {
	for _, set := range sets {
		if set.owners--; set.owners == 0 {
			delete(r.sets, set.spec.ID)
			r.out.Sets.IPSetInactive(set.spec.ID)
		}
	}
}

// scan collects the sets that the rules of one owner refer to, without duplicates, in order of
// appearance.
type scan struct {
	scanner   *RuleScanner
	owner     policy.Key
	namespace string
	used      []*usedSet
}

func (r *RuleScanner) newScan(owner policy.Key, namespace string) *scan {
	r.scans++
	if _, ok := r.owners[owner]; !ok {
		r.owners[owner] = nil
	}
	return &scan{scanner: r, owner: owner, namespace: namespace}
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

// rule resolves one rule. It reports false for a rule that matches nothing: a closed Allow or Log
// (S167). A Graph has already closed rules whose selectors do not parse. If a RuleScanner is used
// without a Graph, this function closes such a rule itself. A closed Allow or Log matches nothing,
// and any other closed rule denies everything.
func (s *scan) rule(r *policy.Rule) (dataplane.Rule, bool) {
	if len(r.Doubts) > 0 && r.Action != policy.Deny {
		return dataplane.Rule{}, false
	}
	rule := dataplane.Rule{
		Action:      r.Action,
		IPVersion:   r.IPVersion,
		Protocol:    r.Protocol,
		NotProtocol: r.NotProtocol,
		HeaderMatch: r.HeaderMatch,
	}
	errSrc := s.match(&rule.Source, &r.Source, r.Protocol, false)
	errDst := s.match(&rule.Destination, &r.Destination, r.Protocol, true)
	if errSrc != nil || errDst != nil {
		return dataplane.Rule{Action: policy.Deny}, r.Action == policy.Deny || r.Action == policy.Pass
	}
	return rule, true
}

// match resolves one side of a rule.
func (s *scan) match(m *dataplane.Match, e *policy.EntityRule, proto policy.Protocol, destination bool) error {
	if e.Services != nil {
		if err := s.service(m, e.Services, destination); err != nil {
			return err
		}
	}
	peers, err := s.scanner.peers.of(s.namespace, e)
	if err != nil {
		return err
	}
	m.Nets, m.NotNets = e.Nets, e.NotNets
	if peers.match != nil {
		m.Sets = append(m.Sets, s.use(peers.match))
	}
	if peers.not != nil {
		m.NotSets = []dataplane.IPSetID{s.use(peers.not)}
	}
	var named []dataplane.IPSetID
	m.Ports, named = s.ports(e.Ports, peers, proto)
	m.PortSets = append(m.PortSets, named...)
	m.NotPorts, m.NotPortSets = s.ports(e.NotPorts, peers, proto)
	return nil
}

// service resolves a service: to addresses if the side is the source, and to addresses with ports
// if it is the destination (S77). Validation ensures that the side has no other conditions.
// Otherwise, the rule would match if either the ports or the service match.
func (s *scan) service(m *dataplane.Match, service *policy.ServiceMatch, destination bool) error {
	namespace := cmp.Or(service.Namespace, s.namespace)
	if namespace == "" || service.Name == "" {
		return errNoService
	}
	if destination {
		m.PortSets = []dataplane.IPSetID{s.use(ServiceSet(namespace, service.Name, dataplane.IPSetPorts))}
	} else {
		m.Sets = []dataplane.IPSetID{s.use(ServiceSet(namespace, service.Name, dataplane.IPSetNets))}
	}
	return nil
}

// ports separates numbers from names, and resolves the names.
func (s *scan) ports(
	ports []policy.Port, peers *peerSets, proto policy.Protocol,
) (numeric []policy.Port, sets []dataplane.IPSetID) {
	for _, port := range ports {
		if port.Name == "" {
			numeric = append(numeric, port)
		} else {
			sets = append(sets, s.use(NamedPortSet(peers.ports, port.Name, proto)))
		}
	}
	return numeric, sets
}

func (s *scan) use(spec *IPSetSpec) dataplane.IPSetID {
	r := s.scanner
	set := r.sets[spec.ID]
	if set == nil {
		set = &usedSet{spec: spec}
		r.sets[spec.ID] = set
	}
	if set.scan != r.scans {
		set.scan = r.scans
		s.used = append(s.used, set)
	}
	return set.spec.ID
}
