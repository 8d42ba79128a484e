// SPDX-License-Identifier: Apache-2.0

package dptest

import (
	"fmt"
	"iter"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// refs counts the references to each object.
type refs map[object]int

// add adds n to the count of everything that an object refers to.
func (r refs) add(v any, n int) {
	for o := range referents(v) {
		r[o] += n
	}
}

// referents yields what an object refers to, and the type that a set must have.
func referents(v any) iter.Seq2[object, dataplane.IPSetType] {
	return func(yield func(object, dataplane.IPSetType) bool) {
		switch v := v.(type) {
		case *dataplane.Policy:
			_ = eachSet(v.Ingress, yield) && eachSet(v.Egress, yield)
		case *dataplane.Profile:
			_ = eachSet(v.Ingress, yield) && eachSet(v.Egress, yield)
		case *dataplane.Endpoint:
			eachPolicy(v.Profiles, [][]dataplane.TierPolicies{v.Ingress, v.Egress}, yield)
		case *dataplane.HostEndpoint:
			eachPolicy(v.Profiles, listsOf(v), yield)
		case *dataplane.Route:
			if k, ok := v.Tunnel(); ok {
				yield(object{"Tunnel", k}, 0)
			}
		}
	}
}

// eachSet yields every set that the rules refer to.
func eachSet(rules []dataplane.Rule, yield func(object, dataplane.IPSetType) bool) bool {
	for i := range rules {
		for _, m := range []*dataplane.Match{&rules[i].Source, &rules[i].Destination} {
			for j, ids := range [][]dataplane.IPSetID{m.Sets, m.NotSets, m.PortSets, m.NotPortSets} {
				typ := dataplane.IPSetNets
				if j >= 2 {
					typ = dataplane.IPSetPorts
				}
				for _, id := range ids {
					if !yield(object{"IPSet", id}, typ) {
						return false
					}
				}
			}
		}
	}
	return true
}

// eachPolicy yields the policies in the lists, and then the profiles.
func eachPolicy(
	profiles []string, lists [][]dataplane.TierPolicies, yield func(object, dataplane.IPSetType) bool,
) {
	for k := range policiesOf(lists) {
		if !yield(object{"Policy", k}, 0) {
			return
		}
	}
	for _, name := range profiles {
		if !yield(object{"Profile", name}, 0) {
			return
		}
	}
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

// checkReferents checks that what an object refers to exists, and that the sets have the right
// type.
func (s *State) checkReferents(v any) string {
	for o, typ := range referents(v) {
		exists, name := false, fmt.Sprint(o.id)
		switch id := o.id.(type) {
		case dataplane.IPSetID:
			var set Set
			if set, exists = s.Sets[id]; exists && set.Type != typ {
				return fmt.Sprintf("refers to set %s of type %s as %s", id, set.Type, typ)
			}
			name = "set " + name
		case policy.Key:
			_, exists = s.Policies[id]
			name = "policy " + name
		case string:
			_, exists = s.Profiles[id]
			name = "profile " + name
		case dataplane.TunnelKey:
			_, exists = s.Tunnels[id]
			name = "tunnel " + name // S96
		}
		if !exists {
			return "refers to the absent " + name
		}
	}
	return ""
}
