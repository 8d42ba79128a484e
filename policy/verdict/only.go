// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// Only returns an Evaluator that is faster than e, because it has only the policies that select at
// least one of the given endpoints. Both Evaluators return the same verdict for a flow, unless one
// of the policies that Only leaves out decides about the flow. The endpoints are workload endpoints
// and host endpoints. Keys that the world does not have are ignored.
func (e *Evaluator) Only(endpoints ...policy.Key) *Evaluator {
	only, kept := *e, map[*compiledPolicy]bool{}
	only.policies, only.tiers = e.selecting(endpoints...), nil
	for _, p := range only.policies {
		kept[p] = true
	}
	only.staging = e.staging.only(kept)
	for _, t := range e.tiers {
		only.tiers = append(only.tiers, &tier{Tier: t.Tier, missing: t.missing, listed: t.listed.only(kept)})
	}
	return &only
}

// Policies returns the keys of the enforced policies that select an endpoint, in order.
func (e *Evaluator) Policies(endpoint policy.Key) (keys []policy.Key) {
	for _, p := range e.selecting(endpoint) {
		if !p.Staged {
			keys = append(keys, p.key)
		}
	}
	return keys
}

// selecting returns the policies that select one of the endpoints.
func (e *Evaluator) selecting(endpoints ...policy.Key) (policies []*compiledPolicy) {
	objects := e.endpoints(endpoints)
	for _, p := range e.policies {
		if slices.ContainsFunc(objects, p.subject.selects) {
			policies = append(policies, p)
		}
	}
	return policies
}

// endpoints returns the endpoints with these keys that the world has.
func (e *Evaluator) endpoints(keys []policy.Key) (objects []*object) {
	for _, key := range keys {
		if o := e.workloads[key]; o != nil {
			objects = append(objects, o)
		}
		for _, n := range e.nodes {
			for _, o := range n.hosts {
				if o.key == key {
					objects = append(objects, o)
				}
			}
		}
	}
	return objects
}

// only returns the policies of t that are in kept.
func (t *listed) only(kept map[*compiledPolicy]bool) (some listed) {
	filter := func(policies []*compiledPolicy) (out []*compiledPolicy) {
		for _, p := range policies {
			if kept[p] {
				out = append(out, p)
			}
		}
		return out
	}
	for l := range lists {
		some.ingress[l], some.egress[l] = filter(t.ingress[l]), filter(t.egress[l])
	}
	return some
}
