// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"errors"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// doubtsOf returns problems as the doubts of a closed rule.
func doubtsOf(found []error) []policy.Problem {
	doubts := make([]policy.Problem, 0, len(found))
	for _, err := range found {
		var wrong *Error
		if errors.As(err, &wrong) {
			doubts = append(doubts, policy.Problem{Field: wrong.Field, Msg: wrong.Err.Error()})
		}
	}
	return doubts
}

// finishPolicy is finish for a policy. It closes invalid rules, and reports them in doubts with the
// paths of the object. It returns nil if the scope of the policy is not understood.
func finishPolicy(out *policy.Policy, p, doubts *problems, path func(string) string) (*policy.Policy, []error) {
	if !p.any() {
		out = admit(out, p, doubts, path)
	}
	if p.any() {
		p.warnings = append(p.warnings, doubts.all()...)
		return nil, p.refused()
	}
	return out, append(p.all(), doubts.all()...)
}

func admit(out *policy.Policy, p, doubts *problems, path func(string) string) *policy.Policy {
	canonical := policy.Canonical(out)
	resource, err := policy.Update{Key: canonical.Key(), Resource: canonical}.Admit()
	var invalid *policy.ValidationError
	if errors.As(err, &invalid) {
		for _, problem := range invalid.Problems {
			p.add(path(problem.Field), errors.New(problem.Msg))
		}
		return nil
	}
	admitted, ok := resource.(*policy.Policy)
	if !ok {
		p.addf("", "internal error: the canonical form is of another kind")
		return nil
	}
	for _, rules := range [][]policy.Rule{admitted.Ingress, admitted.Egress} {
		for i := range rules {
			for j, problem := range rules[i].Doubts {
				if problem.Field == "" || strings.HasPrefix(problem.Field, "spec.") {
					continue // in a rule that is closed already, and was reported
				}
				rules[i].Doubts[j].Field = path(problem.Field)
				doubts.add(path(problem.Field), errors.New(problem.Msg))
			}
		}
	}
	var doubt *policy.DoubtError
	if errors.As(err, &doubt) {
		for _, problem := range doubt.Problems {
			if strings.HasPrefix(problem.Field, "performanceHints") {
				doubts.add(path(problem.Field), errors.New(problem.Msg))
			}
		}
	}
	return admitted
}
