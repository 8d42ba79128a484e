// SPDX-License-Identifier: Apache-2.0

package policy

import "reflect"

// rules decodes the rules of a policy or profile for one direction. In a policy, an error in a rule
// closes only that rule. If the value is not a list, one closed rule replaces it.
func (d *decoder) rules(path string, n *jsonNode, to *[]Rule) {
	if !d.closes {
		d.readByKind(path, n, reflect.ValueOf(to).Elem())
		return
	}
	var own decoder
	if !own.want(path, n, jsonList) {
		*to = make([]Rule, 1)
		(*to)[0].Close(own.problems...)
		return
	}
	for i, item := range n.items {
		*to = append(*to, policyRule(index(path, i), item))
	}
}

// policyRule decodes a rule, and closes it if there is any error.
func policyRule(path string, n *jsonNode) (r Rule) {
	var own decoder
	own.read(path, n, reflect.ValueOf(&r).Elem())
	if len(own.problems) == 0 {
		return r
	}
	if why := r.Action.problem(); why != "" && r.Action != "" {
		own.add(join(path, "action"), "%s", why)
	}
	r.Close(own.problems...)
	return r
}

// hints decodes performance hints, which do not change verdicts. A hint that cannot be decoded
// becomes an unknown one.
func (d *decoder) hints(path string, n *jsonNode, to *[]PerformanceHint) {
	var own decoder
	if own.readByKind(path, n, reflect.ValueOf(to).Elem()); len(own.problems) > 0 {
		*to = append(*to, PerformanceHint(sumUp(own.problems)))
	}
}
