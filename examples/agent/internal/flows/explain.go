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

// Origins has the places (file and line) of rules and policies in the manifests.
type Origins struct {
	// Rules has the places of rules, by the rule's ID.
	Rules map[string]manifest.RuleOrigin
	// Policies has the places of policies.
	Policies map[policy.Key]manifest.PolicyOrigin
}

// explanation is the JSON form of an explanation. Origins has the places of the explanation's rules
// in manifests, and PolicyOrigins those of its policies without rules.
type explanation struct {
	*verdict.Explanation
	Origins       map[string]manifest.RuleOrigin   `json:"origins,omitempty"`
	PolicyOrigins map[string]manifest.PolicyOrigin `json:"policyOrigins,omitempty"`
}

// Explain explains the decisions of policy about flows. An explanation also has the places (file
// and line) of its rules in manifests. To get them, Explain calls the function find once, with the
// policies of all explanations. If find does not return the place of a rule, the explanation shows
// the rule without a place. For a policy of which the explanation has no rule, Explain shows the
// place of the policy. If find does not return it, Explain shows the object from which the policy
// was made.
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
		used := explanation{x, map[string]manifest.RuleOrigin{}, map[string]manifest.PolicyOrigin{}}
		text := x.Text(verdict.Origins{Rule: func(ruleID string) string {
			origin, ok := known.Rules[ruleID]
			if !ok {
				return ""
			}
			origin = origin.Narrow(x.Flow.Src, x.Flow.Dst, x.Flow.DstPort)
			used.Origins[ruleID] = origin
			return origin.String()
		}, Policy: func(key policy.Key) string {
			origin, ok := known.Policies[key]
			if !ok {
				return ""
			}
			used.PolicyOrigins[key.String()] = origin
			return origin.String()
		}})
		data, err := json.Marshal(used)
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
