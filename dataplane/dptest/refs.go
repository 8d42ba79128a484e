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
}

func newRefs() refs {
	return refs{map[dataplane.IPSetID]int{}, map[policy.Key]int{}, map[string]int{}}
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
	for k := range policiesOf(e) {
		r.policies[k] += n
	}
	for _, name := range e.Profiles {
		r.profiles[name] += n
	}
}

// setsOf yields every set that the rules refer to, with the type that they expect.
func setsOf(rules []dataplane.Rule) iter.Seq2[dataplane.IPSetID, dataplane.IPSetType] {
	return func(yield func(dataplane.IPSetID, dataplane.IPSetType) bool) {
		for i := range rules {
			for _, m := range []*dataplane.Match{&rules[i].Source, &rules[i].Destination} {
				if !yieldSets(m.Sets, dataplane.IPSetNets, yield) || !yieldSets(m.NotSets, dataplane.IPSetNets, yield) ||
					!yieldSets(m.PortSets, dataplane.IPSetPorts, yield) || !yieldSets(m.NotPortSets, dataplane.IPSetPorts, yield) {
					return
				}
			}
		}
	}
}

func yieldSets(ids []dataplane.IPSetID, t dataplane.IPSetType, yield func(dataplane.IPSetID, dataplane.IPSetType) bool) bool {
	for _, id := range ids {
		if !yield(id, t) {
			return false
		}
	}
	return true
}

// policiesOf yields the keys of the policies that the endpoint refers to, per direction.
func policiesOf(e *dataplane.Endpoint) iter.Seq[policy.Key] {
	return func(yield func(policy.Key) bool) {
		for _, tiers := range [][]dataplane.TierPolicies{e.Ingress, e.Egress} {
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
