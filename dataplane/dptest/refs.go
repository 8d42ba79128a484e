// SPDX-License-Identifier: Apache-2.0

package dptest

import (
	"iter"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// refs counts who refers to what.
type refs struct {
	sets     map[dataplane.IPSetID]int
	policies map[policy.Key]int
	profiles map[string]int
	// tunnels that routes lead through.
	tunnels map[dataplane.TunnelKey]int
}

func newRefs() refs {
	return refs{map[dataplane.IPSetID]int{}, map[policy.Key]int{}, map[string]int{}, map[dataplane.TunnelKey]int{}}
}

// rules adds n to the count of every set in the rules.
func (r refs) rules(ingress, egress []dataplane.Rule, n int) {
	for _, rules := range [][]dataplane.Rule{ingress, egress} {
		for id := range setsOf(rules) {
			r.sets[id] += n
		}
	}
}

// endpoint adds n to the count of everything that the endpoint refers to.
func (r refs) endpoint(e *dataplane.Endpoint, n int) {
	r.lists(n, e.Profiles, e.Ingress, e.Egress)
}

// host adds n to the count of everything that the host endpoint refers to.
func (r refs) host(h *dataplane.HostEndpoint, n int) { r.lists(n, h.Profiles, listsOf(h)...) }

func (r refs) lists(n int, profiles []string, lists ...[]dataplane.TierPolicies) {
	for k := range policiesOf(lists) {
		r.policies[k] += n
	}
	for _, name := range profiles {
		r.profiles[name] += n
	}
}

// setsOf yields every set that the rules refer to, with the type that they expect.
func setsOf(rules []dataplane.Rule) iter.Seq2[dataplane.IPSetID, dataplane.IPSetType] {
	return func(yield func(dataplane.IPSetID, dataplane.IPSetType) bool) {
		for i := range rules {
			for _, m := range []*dataplane.Match{&rules[i].Source, &rules[i].Destination} {
				if !yieldSets(m.Sets, dataplane.IPSetNets, yield) ||
					!yieldSets(m.NotSets, dataplane.IPSetNets, yield) || !yieldSets(m.PortSets, dataplane.IPSetPorts,
					yield) || !yieldSets(m.NotPortSets, dataplane.IPSetPorts, yield) {
					return
				}
			}
		}
	}
}

func yieldSets(
	ids []dataplane.IPSetID, t dataplane.IPSetType, yield func(dataplane.IPSetID, dataplane.IPSetType) bool,
) bool {
	for _, id := range ids {
		if !yield(id, t) {
			return false
		}
	}
	return true
}

// policiesOf yields the keys of the policies in the lists.
func policiesOf(lists [][]dataplane.TierPolicies) iter.Seq[policy.Key] {
	return func(yield func(policy.Key) bool) {
		for _, tiers := range lists {
			for _, t := range tiers {
				for _, k := range t.Policies {
					if !yield(k) {
						return
					}
				}
			}
		}
	}
}
