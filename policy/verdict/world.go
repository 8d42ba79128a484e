// SPDX-License-Identifier: Apache-2.0

package verdict

import "github.com/wayleave/wayleave/policy"

// World is a state of the cluster: its resources by key. A nil Resource equals a missing entry.
type World map[policy.Key]policy.Resource

// Set adds resources, or replaces those with the same keys. They must not be changed afterwards.
func (w World) Set(resources ...policy.Resource) {
	for _, r := range resources {
		w[r.Key()] = r
	}
}

// Apply applies updates. An update with a nil Resource deletes.
func (w World) Apply(updates ...policy.Update) {
	for _, u := range updates {
		if u.Resource == nil {
			delete(w, u.Key)
		} else {
			w[u.Key] = u.Resource
		}
	}
}

// Outcome is the result of policy for a flow, in one direction or in both.
type Outcome string

// The outcomes.
const (
	// Allow means that policy allows the flow.
	Allow Outcome = "Allow"
	// Deny means that policy denies the flow.
	Deny Outcome = "Deny"
	// NotApplicable means that there is no endpoint on this side. For a stage on the way through a
	// node, it means that this stage does not decide about the flow.
	NotApplicable Outcome = "NotApplicable"
)

// Result is the result of policy for a flow.
type Result struct {
	// Egress is the outcome at the source endpoint. For a flow through a node, it combines all
	// stages with egress rules: Deny if one denies, NotApplicable if none decides, and Allow
	// otherwise.
	Egress Outcome `json:"egress"`
	// Ingress is the outcome at the destination endpoint. For a flow through a node, it combines
	// all stages with ingress rules, in the same way as Egress combines stages with egress rules.
	// It is computed even if Egress is Deny.
	Ingress Outcome `json:"ingress"`
	// Combined is Deny if Egress or Ingress is Deny, NotApplicable if both are NotApplicable, and
	// Allow otherwise.
	Combined Outcome `json:"combined"`
}

func combine(egress, ingress Outcome) Result {
	r := Result{Egress: egress, Ingress: ingress, Combined: Allow}
	switch {
	case egress == Deny || ingress == Deny:
		r.Combined = Deny
	case egress == NotApplicable && ingress == NotApplicable:
		r.Combined = NotApplicable
	}
	return r
}

// Evaluate returns the verdict of one flow, with the default Config. It compiles the whole world
// for each call. Use New for many flows.
func Evaluate(w World, f Flow) Result { return New(w).Evaluate(f) }

// Explain returns the verdict of one flow with all steps, with the default Config. It compiles the
// whole world for each call. Use New for many flows.
func Explain(w World, f Flow) *Explanation { return New(w).Explain(f) }
