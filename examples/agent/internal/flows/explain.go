// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"encoding/json"
	"slices"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// Origins has the place (file and line) of each rule in the manifests, by the rule's ID.
type Origins map[string]manifest.RuleOrigin

// explanation is the JSON form of an explanation. Origins has the places of the explanation's rules
// in manifests.
type explanation struct {
	*verdict.Explanation
	Origins Origins `json:"origins,omitempty"`
}

// Explain explains the decisions of policy about flows. An explanation also has the places (file
// and line) of its rules in manifests. To get them, Explain calls the function find once, with the
// policies of all explanations. If find does not return the place of a rule, the explanation shows
// the rule without a place.
func Explain(
	world verdict.World, list []verdict.Flow, find func(policies []policy.Key) Origins,
) (out []api.Explanation, err error) {
	evaluator := verdict.New(world)
	var explained []*verdict.Explanation
	var policies []policy.Key
	for _, flow := range list {
		x := evaluator.Explain(flow)
		explained, policies = append(explained, x), append(policies, policiesOf(x)...)
	}
	slices.SortFunc(policies, policy.Key.Compare)
	known := find(slices.Compact(policies))
	for _, x := range explained {
		used := Origins{}
		text := x.Text(func(ruleID string) string {
			origin, ok := known[ruleID]
			if !ok {
				return ""
			}
			origin = origin.Narrow(x.Flow.Src, x.Flow.Dst, x.Flow.DstPort)
			used[ruleID] = origin
			return origin.String()
		})
		data, err := json.Marshal(explanation{x, used})
		if err != nil {
			return nil, err
		}
		out = append(out, api.Explanation{Text: text, Explanation: data})
	}
	return out, nil
}

// policiesOf returns the policies whose rules are in an explanation.
func policiesOf(x *verdict.Explanation) (keys []policy.Key) {
	for _, d := range append([]*verdict.Direction{x.Egress, x.Ingress}, x.Stages...) {
		for _, decision := range []verdict.Decision{d.Decision, d.IfStagedDecision} {
			if decision.RuleID != "" && decision.Profile == "" {
				keys = append(keys, decision.Policy)
			}
		}
		for _, tier := range d.Tiers {
			for _, p := range tier.Policies {
				if len(p.Rules) > 0 {
					keys = append(keys, p.Policy)
				}
			}
		}
	}
	return keys
}
