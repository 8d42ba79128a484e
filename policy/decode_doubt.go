// SPDX-License-Identifier: Apache-2.0

package policy

import "reflect"

// rules reads the rules of a policy or profile for one direction. In a policy an error in a rule
// closes that rule alone. If the value is no list, one closed rule replaces it.
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

// policyRule reads a rule and closes it if anything is wrong.
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

// hints reads performance hints, which change no verdict. A hint that cannot be read becomes an
// unknown one.
func (d *decoder) hints(path string, n *jsonNode, to *[]PerformanceHint) {
	var own decoder
	if own.readByKind(path, n, reflect.ValueOf(to).Elem()); len(own.problems) > 0 {
		*to = append(*to, PerformanceHint(sumUp(own.problems)))
	}
}
