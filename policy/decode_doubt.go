// SPDX-License-Identifier: Apache-2.0

package policy

// policyRules reads the rules of a policy for one direction. An error in a rule closes that rule
// alone. If the value is no list, one closed rule replaces it.
func (d *decoder) policyRules(to *[]Rule) reader {
	return func(path string, n *jsonNode) {
		var own decoder
		if own.want(path, n, jsonList) {
			list(d, to, (*decoder).policyRule)(path, n)
			return
		}
		*to = make([]Rule, 1)
		(*to)[0].Close(own.problems...)
	}
}

// hints reads performance hints, which change no verdict. A hint that cannot be read becomes an
// unknown one.
func (d *decoder) hints(to *[]PerformanceHint) reader {
	return func(path string, n *jsonNode) {
		var own decoder
		if list(&own, to, text[PerformanceHint])(path, n); len(own.problems) > 0 {
			*to = append(*to, PerformanceHint(sumUp(own.problems)))
		}
	}
}

// policyRule reads a rule and closes it if anything is wrong.
func (d *decoder) policyRule(r *Rule) reader {
	return func(path string, n *jsonNode) {
		var own decoder
		own.rule(r)(path, n)
		if len(own.problems) == 0 {
			return
		}
		if why := r.Action.problem(); why != "" && r.Action != "" {
			own.add(join(path, "action"), "%s", why)
		}
		r.Close(own.problems...)
	}
}
