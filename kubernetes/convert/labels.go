// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Every pod carries this label, and no network set does. Selectors that come from
// Kubernetes ask for it, so that they never match anything but pods.
const (
	labelOrchestrator = "projectcalico.org/orchestrator"
	kubernetes        = "k8s"
)

// checkLabels reports labels that Kubernetes would refuse.
func checkLabels(p *problems, labels map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		for _, msg := range validation.IsQualifiedName(k) {
			p.addf(labelPath(k), "%s", msg)
		}
		for _, msg := range validation.IsValidLabelValue(labels[k]) {
			p.addf(labelPath(k), "%s", msg)
		}
	}
}

// labelPath returns the path of a label.
func labelPath(key string) string { return "metadata.labels[" + strconv.Quote(key) + "]" }

// checkReservedLabels reports labels that only a converter may set.
func checkReservedLabels(p *problems, labels map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if reserved(k) {
			p.addf(labelPath(k), "the label is reserved: it is derived from the object, never given")
		}
	}
}

// reserved reports whether a label is one that only a converter may set.
func reserved(k string) bool {
	return k == policy.LabelNamespace || k == policy.LabelServiceAccount || k == labelOrchestrator || strings.HasPrefix(k, NodeLabelPrefix) ||
		strings.HasPrefix(k, policy.NamespaceLabelPrefix) || strings.HasPrefix(k, policy.ServiceAccountLabelPrefix)
}

// podSelector translates a selector over the labels of pods. Labels that are derived are refused: to Kubernetes
// they do not exist.
func podSelector(p *problems, path *field.Path, s *metav1.LabelSelector) *selector.Selector {
	keys := slices.Sorted(maps.Keys(s.MatchLabels))
	for _, e := range s.MatchExpressions {
		keys = append(keys, e.Key)
	}
	if i := slices.IndexFunc(keys, reserved); i >= 0 {
		p.addf(path.String(), "the label %s is reserved: no pod has it", keys[i])
		return nil
	}
	return labelSelector(p, path, s)
}

// labelSelector translates a Kubernetes label selector. An empty one matches everything.
// It returns nil where anything is wrong with it, and reports that.
func labelSelector(p *problems, path *field.Path, s *metav1.LabelSelector) *selector.Selector {
	if !checkLabelSelector(p, path, s) {
		return nil
	}
	var terms []*selector.Selector
	for _, k := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		terms = append(terms, selector.Equal(k, s.MatchLabels[k]))
	}
	for _, e := range s.MatchExpressions {
		switch e.Operator {
		case metav1.LabelSelectorOpIn:
			terms = append(terms, selector.In(e.Key, e.Values...))
		case metav1.LabelSelectorOpNotIn:
			terms = append(terms, selector.NotIn(e.Key, e.Values...))
		case metav1.LabelSelectorOpExists:
			terms = append(terms, selector.Has(e.Key))
		case metav1.LabelSelectorOpDoesNotExist:
			terms = append(terms, selector.Not(selector.Has(e.Key)))
		}
	}
	return selector.And(terms...)
}

// checkLabelSelector reports what the API server would refuse, in a fixed order.
func checkLabelSelector(p *problems, path *field.Path, s *metav1.LabelSelector) bool {
	list := metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, path)
	slices.SortStableFunc(list, func(a, b *field.Error) int {
		return strings.Compare(a.Error(), b.Error())
	})
	for _, e := range list {
		p.add(e.Field, errors.New(e.ErrorBody()))
	}
	return len(list) == 0
}

// matchesAbsence reports whether a selector may match objects that lack every label.
func matchesAbsence(s *metav1.LabelSelector) bool {
	return slices.ContainsFunc(s.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool {
		return e.Operator == metav1.LabelSelectorOpNotIn || e.Operator == metav1.LabelSelectorOpDoesNotExist
	})
}

// podSelectorText returns the text of a selector limited to pods, or "" for nil.
func podSelectorText(p *problems, path *field.Path, s *selector.Selector) string {
	if s == nil {
		return ""
	}
	pod := selector.Equal(labelOrchestrator, kubernetes)
	if s.ID() == selector.All().ID() {
		return pod.String()
	}
	return selectorText(p, path, selector.And(pod, s))
}

// selectorText returns the text of a selector, or "" for nil. It reports a text that the parser refuses,
// because it is too long.
func selectorText(p *problems, path *field.Path, s *selector.Selector) string {
	if s == nil {
		return ""
	}
	text := s.String()
	if _, err := selector.Parse(text); err != nil {
		p.add(path.String(), err)
		return ""
	}
	return text
}
