// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wayleave/wayleave/selector"
)

// Limits of one resource, in bytes or entries. Ordinary values are far below them. They limit how
// much memory and time one object can cost a node.
const (
	maxName       = 265 // 253, as in Kubernetes, and the prefix of a converter
	maxLabelName  = 512
	maxLabelValue = 4 << 10
	maxLabels     = 1024
	maxAnnotation = 64 << 10
	maxRules      = 10_000 // per direction
	maxPorts      = 10_000 // per list
	maxAddresses  = 256    // per list of an endpoint or node
	maxProfiles   = 256    // per endpoint
	maxBackends   = 10_000 // addresses of one ServiceBackends; Kubernetes puts at most 1,000 into an EndpointSlice
	maxBorrowed   = 65_536 // per block
)

// validator collects the problems of a resource. It records its place in the resource. It builds
// the path of a field only for a problem, because most resources are valid.
type validator struct {
	report
	place [4]step
	depth int
}

// step is one step of a path: a member of an object or, if index is not negative, an item of a
// member.
type step struct {
	name  string
	index int
}

// enter makes a member, or an item of it, the current object.
func (v *validator) enter(name string, index int) {
	v.place[v.depth] = step{name, index}
	v.depth++
}

func (v *validator) leave() { v.depth-- }

// add adds a problem of a field of the current object.
func (v *validator) add(field, format string, args ...any) {
	path := ""
	for _, s := range v.place[:v.depth] {
		if path = join(path, s.name); s.index >= 0 {
			path = index(path, s.index)
		}
	}
	if path != "" && field != "" {
		path += "."
	}
	v.report.add(path+field, format, args...)
}

// err returns the problems as a *ValidationError, or nil.
func (v *validator) err(key Key) error {
	if len(v.problems) == 0 {
		return nil
	}
	return &ValidationError{Key: key, Problems: v.problems}
}

// Validate reports all problems of the update as one *ValidationError, or nil. The resource must be
// valid and have the same key as the update. A deletion, which has a nil Resource, is valid. An
// update whose Resource is a nil pointer, such as (*Policy)(nil), is invalid.
func (u Update) Validate() error {
	if u.Resource == nil {
		return nil
	}
	if err := u.validateKey(); err != nil {
		return err
	}
	return u.Resource.Validate()
}

// validateKey checks that the resource is not a nil pointer, and that it has the key.
func (u Update) validateKey() error {
	v := &validator{}
	if absent(u.Resource) {
		v.add("", "the resource is a nil %T; a deletion has a nil Resource", u.Resource)
	} else if own := u.Resource.Key(); own != u.Key {
		v.add("", "the resource has another key: %s", clip(own.String()))
	}
	return v.err(u.Key)
}

// namespace checks an optional namespace.
func (v *validator) namespace(s string) {
	if s != "" {
		v.name("namespace", s)
	}
}

// nameMarks are the characters of names besides letters and digits.
const nameMarks = "-_.:@+~"

// name checks a required name. Its characters are safe to print, to quote and to join with slashes.
func (v *validator) name(field, s string) {
	switch {
	case s == "":
		v.add(field, "required")
	case len(s) > maxName:
		v.add(field, "longer than %d bytes", maxName)
	case !onlyOf(s, nameMarks):
		v.add(field, "%q has other characters than letters, digits and %s", clip(s), nameMarks)
	}
}

// nameAt checks a required name in a list.
func (v *validator) nameAt(field string, i int, s string) {
	if s == "" || len(s) > maxName || !onlyOf(s, nameMarks) {
		v.name(index(field, i), s)
	}
}

func (v *validator) order(order *float64) {
	if order != nil && (math.IsNaN(*order) || math.IsInf(*order, 0)) {
		v.add("order", "want a finite number, or no order: the object then comes last")
	}
}

// selector checks an optional selector.
func (v *validator) selector(field, s string) { v.prefixedSelector(field, s, "") }

// prefixedSelector checks an optional selector whose labels get a prefix.
func (v *validator) prefixedSelector(field, s, prefix string) {
	if s == "" || !v.text(field, s, selector.MaxLength, "\t") {
		return
	}
	if err := checkSelector(s, prefix); err != nil {
		v.add(field, "%s", strings.TrimPrefix(err.Error(), "selector: "))
	}
}

func checkSelector(s, prefix string) error {
	if prefix == "" {
		return selector.Check(s)
	}
	sel, err := selector.Parse(s)
	if err != nil {
		return err
	}
	return sel.PrefixLabels(prefix).Err()
}

// labels checks the names of labels, which selectors must be able to mention, and the values.
func (v *validator) labels(field string, labels map[string]string) {
	if len(labels) > maxLabels {
		v.add(field, "more than %d labels", maxLabels)
		return
	}
	var bad []string
	for name, value := range labels {
		if !isLabelName(name) || textProblem(value, maxLabelValue, "") != "" {
			bad = append(bad, name)
		}
	}
	slices.Sort(bad)
	for _, name := range bad {
		at := join(field, name)
		if !isLabelName(name) {
			v.add(at, "a label's name is 1 to %d letters, digits and _./-", maxLabelName)
		}
		v.text(at, labels[name], maxLabelValue, "")
	}
}

func isLabelName(s string) bool {
	return s != "" && len(s) <= maxLabelName && onlyOf(s, "_./-")
}

// namespaceLabel refuses a namespace label that contradicts the object's namespace.
func (v *validator) namespaceLabel(labels map[string]string, namespace string) {
	if got, ok := labels[LabelNamespace]; ok && (got != namespace || namespace == "") {
		v.add(join("labels", LabelNamespace), "the label comes from the object's namespace: leave it out")
	}
}

func (v *validator) nets(field string, nets Nets) {
	for i, p := range nets {
		if why := netProblem(p); why != "" {
			v.add(index(field, i), "%s", why)
		}
	}
}

// text checks that a text is valid UTF-8, not too long, and without control characters except for
// those in allowed.
func (v *validator) text(field, s string, most int, allowed string) bool {
	why := textProblem(s, most, allowed)
	if why != "" {
		v.add(field, "%s", why)
	}
	return why == ""
}

func textProblem(s string, most int, allowed string) string {
	if len(s) > most {
		return fmt.Sprintf("longer than %d bytes", most)
	}
	if isPlain(s) {
		return ""
	}
	for i, r := range s {
		switch {
		case r == utf8.RuneError:
			return "not valid Unicode"
		case unicode.IsControl(r) && !strings.ContainsRune(allowed, r):
			return fmt.Sprintf("control characters are not allowed, as at byte %d", i)
		}
	}
	return ""
}

// isPlain reports whether a text is printable ASCII. Most texts are.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// repeats reports whether an item of a list also occurs before its index. Most lists are short.
// repeats searches these without a map.
func repeats[T comparable](list []T, i int, seen map[T]bool) bool {
	if seen == nil {
		return slices.Contains(list[:i], list[i])
	}
	before := seen[list[i]]
	seen[list[i]] = true
	return before
}

// longList returns the map that repeats needs for a long list.
func longList[T comparable](list []T) map[T]bool {
	if len(list) <= 16 {
		return nil
	}
	return make(map[T]bool, len(list))
}

// atMost checks the length of a list.
func (v *validator) atMost(field string, n, most int) bool {
	if n > most {
		v.add(field, "%d entries are more than %d", n, most)
	}
	return n <= most
}
