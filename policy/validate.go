// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wayleave/wayleave/selector"
)

// Limits of what one resource may hold, in bytes or entries. They are far above what
// anybody writes, and keep one object from costing the whole node.
const (
	maxName       = 265 // 253, as in Kubernetes, and the prefix that a converter puts before it
	maxLabelName  = 512
	maxLabelValue = 4 << 10
	maxLabels     = 1024
	maxAnnotation = 64 << 10
	maxRules      = 10_000 // per direction
	maxPorts      = 10_000 // per list
	maxAddresses  = 256    // per endpoint
	maxProfiles   = 256    // per endpoint
)

// validator collects what is wrong with a resource.
type validator struct{ report }

// err returns the problems as a *ValidationError, or nil.
func (v *validator) err(key Key) error {
	if len(v.problems) == 0 {
		return nil
	}
	return &ValidationError{Key: key, Problems: v.problems}
}

// Validate reports every problem of the policy as one *ValidationError, or nil.
func (p *Policy) Validate() error {
	v := &validator{}
	v.namespace(p.Namespace)
	v.name("name", p.Name)
	if p.Tier != "" {
		v.name("tier", p.Tier)
	}
	v.order(p.Order)
	v.selector("selector", p.Selector)
	v.prefixedSelector("namespaceSelector", p.NamespaceSelector, NamespaceLabelPrefix)
	if p.Namespace != "" && p.NamespaceSelector != "" {
		v.add("namespaceSelector", "not allowed in a policy that has a namespace")
	}
	v.prefixedSelector("serviceAccountSelector", p.ServiceAccountSelector, ServiceAccountLabelPrefix)
	v.types(p.Types)
	v.rules("ingress", p.Ingress)
	v.rules("egress", p.Egress)
	for i, h := range p.PerformanceHints {
		if h != AssumeNeededOnEveryNode {
			v.add(index("performanceHints", i), "unknown hint %q", clip(string(h)))
		}
	}
	return v.err(p.Key())
}

// Validate reports every problem of the tier as one *ValidationError, or nil.
func (t *Tier) Validate() error {
	v := &validator{}
	v.name("name", t.Name)
	v.order(t.Order)
	switch t.DefaultAction {
	case "", Deny, Pass:
	default:
		v.add("defaultAction", "want Deny or Pass, not %q", clip(string(t.DefaultAction)))
	}
	if b, ok := BuiltinTier(t.Name); ok {
		if !equalPointers(t.Order, b.Order) {
			v.add("order", "the built-in tier %q has order %.0f", t.Name, *b.Order)
		}
		if t.Action() != b.Action() {
			v.add("defaultAction", "the built-in tier %q has default action %s", t.Name, b.DefaultAction)
		}
	}
	return v.err(t.Key())
}

// Validate reports every problem of the profile as one *ValidationError, or nil.
func (p *Profile) Validate() error {
	v := &validator{}
	v.name("name", p.Name)
	v.labels("labelsToApply", p.LabelsToApply)
	if _, ok := p.LabelsToApply[LabelNamespace]; ok {
		v.add(join("labelsToApply", LabelNamespace), "not for a profile to set: it follows the namespace of the endpoint")
	}
	v.rules("ingress", p.Ingress)
	v.rules("egress", p.Egress)
	return v.err(p.Key())
}

// Validate reports every problem of the network set as one *ValidationError, or nil.
func (n *NetworkSet) Validate() error {
	v := &validator{}
	v.namespace(n.Namespace)
	v.name("name", n.Name)
	v.labels("labels", n.Labels)
	v.namespaceLabel(n.Labels, n.Namespace)
	v.nets("nets", n.Nets)
	return v.err(n.Key())
}

// Validate reports every problem of the update as one *ValidationError, or nil: its key must be the
// resource's own, the resource valid. A nil Resource is a deletion and always valid;
// a nil pointer of one of the kinds is neither.
func (u Update) Validate() error {
	if u.Resource == nil {
		return nil
	}
	v := &validator{}
	if absent(u.Resource) {
		v.add("", "the resource is a nil %T; a deletion has a nil Resource", u.Resource)
		return v.err(u.Key)
	}
	if own := u.Resource.Key(); own != u.Key {
		v.add("", "the update is for another object than its resource, %s", clip(own.String()))
		return v.err(u.Key)
	}
	return u.Resource.Validate()
}

// namespace checks an optional namespace.
func (v *validator) namespace(s string) {
	if s != "" {
		v.name("namespace", s)
	}
}

// name checks a required name. The characters leave names safe to print, to quote and to
// join with slashes.
func (v *validator) name(field, s string) {
	const extra = "-_.:@+~"
	switch {
	case s == "":
		v.add(field, "required")
	case len(s) > maxName:
		v.add(field, "longer than %d bytes", maxName)
	case !onlyOf(s, extra):
		v.add(field, "%q has other characters than letters, digits and %s", clip(s), extra)
	}
}

func (v *validator) order(order *float64) {
	if order != nil && (math.IsNaN(*order) || math.IsInf(*order, 0)) {
		v.add("order", "want a finite number, or none to come last")
	}
}

// selector checks an optional selector.
func (v *validator) selector(field, s string) { v.prefixedSelector(field, s, "") }

// prefixedSelector checks an optional selector over labels that will get a prefix.
func (v *validator) prefixedSelector(field, s, prefix string) {
	if s == "" || !v.text(field, s, selector.MaxLength, "\t") {
		return
	}
	sel, err := selector.Parse(s)
	if err == nil {
		err = sel.PrefixLabels(prefix).Err()
	}
	if err != nil {
		v.add(field, "%s", strings.TrimPrefix(err.Error(), "selector: "))
	}
}

func (v *validator) types(types []Type) {
	seen := map[Type]bool{}
	for i, t := range types {
		t = t.canonical()
		switch {
		case t != Ingress && t != Egress:
			v.add(index("types", i), "want Ingress or Egress, not %q", clip(string(t)))
		case seen[t]:
			v.add(index("types", i), "%s is given twice", t)
		}
		seen[t] = true
	}
}

// labels checks label names, which must be usable in selectors, and values.
func (v *validator) labels(field string, labels map[string]string) {
	if len(labels) > maxLabels {
		v.add(field, "more than %d labels", maxLabels)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		at := join(field, name)
		if name == "" || len(name) > maxLabelName || !onlyOf(name, "_./-") {
			v.add(at, "a label's name is 1 to %d letters, digits and _./-", maxLabelName)
		}
		v.text(at, labels[name], maxLabelValue, "")
	}
}

// namespaceLabel refuses a namespace label that contradicts the object's namespace.
func (v *validator) namespaceLabel(labels map[string]string, namespace string) {
	if got, ok := labels[LabelNamespace]; ok && (got != namespace || namespace == "") {
		v.add(join("labels", LabelNamespace), "follows the namespace of the object; leave it out")
	}
}

func (v *validator) nets(field string, nets Nets) {
	for i, p := range nets {
		if why := netProblem(p); why != "" {
			v.add(index(field, i), "%s", why)
		}
	}
}

// text checks text from outside: valid UTF-8 without control characters other than those
// of allowed, and not too long.
func (v *validator) text(field, s string, most int, allowed string) bool {
	switch {
	case len(s) > most:
		v.add(field, "longer than %d bytes", most)
	case !utf8.ValidString(s) || strings.ContainsRune(s, utf8.RuneError):
		v.add(field, "no valid Unicode text")
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune(allowed, r) }):
		v.add(field, "control characters are not allowed")
	default:
		return true
	}
	return false
}

// atMost checks the length of a list.
func (v *validator) atMost(field string, n, most int) bool {
	if n > most {
		v.add(field, "%d entries are more than %d", n, most)
	}
	return n <= most
}
