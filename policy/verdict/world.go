// SPDX-License-Identifier: Apache-2.0

package verdict

import "github.com/wayleave/wayleave/policy"

// World is a state of the cluster: its resources by key. The zero value of an entry (a
// nil Resource) is the same as no entry. It is an ordinary map, and as little
// safe for concurrent use.
type World map[policy.Key]policy.Resource

// Set adds the resources, or replaces those of the same key. They must not be changed afterwards.
func (w World) Set(resources ...policy.Resource) {
	for _, r := range resources {
		w[r.Key()] = r
	}
}

// Apply brings the world up to date: an update with a nil Resource deletes.
func (w World) Apply(updates ...policy.Update) {
	for _, u := range updates {
		if u.Resource == nil {
			delete(w, u.Key)
		} else {
			w[u.Key] = u.Resource
		}
	}
}

// Outcome is the result of policy for a flow, in one direction or both.
type Outcome string

// The outcomes.
const (
	// Allow: policy lets the flow pass.
	Allow Outcome = "Allow"
	// Deny: policy drops the flow.
	Deny Outcome = "Deny"
	// NotApplicable: there is no endpoint on this side, and so no policy; or, of a stage on the way
	// through a node, it leaves the decision to others.
	NotApplicable Outcome = "NotApplicable"
)

// Result is the outcome for a flow.
type Result struct {
	// Egress is the outcome at the source endpoint. For a flow at a node: that of all stages with
	// egress rules together, Deny if one denies and NotApplicable if none decides.
	Egress Outcome `json:"egress"`
	// Ingress is the outcome at the destination endpoint, or that of all stages with ingress rules.
	// It is computed even where Egress is Deny.
	Ingress Outcome `json:"ingress"`
	// Combined is Deny if either side denies, NotApplicable if neither side has an
	// endpoint, and Allow otherwise.
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

// Evaluate judges one flow, with the default Config. It reads the whole world each time; use New
// for many flows.
func Evaluate(w World, f Flow) Result { return New(w).Evaluate(f) }

// Explain judges one flow and shows the work, with the default Config. It reads the whole world
// each time; use New for many flows.
func Explain(w World, f Flow) *Explanation { return New(w).Explain(f) }
