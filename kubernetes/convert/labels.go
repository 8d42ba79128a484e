// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Every pod has this label, and no network set has it. Selectors that come from Kubernetes require
// it, so they match only pods.
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

// maxOwnLabels is the maximum number of an object's own labels. It leaves room for derived labels.
const maxOwnLabels = 1000

// fewLabels returns a copy of the labels without those over the limit, which are reported. If the
// object were refused instead, a user who may change it could remove it from the peers that a rule
// denies.
func fewLabels(p *problems, labels map[string]string) map[string]string {
	if len(labels) <= maxOwnLabels {
		return maps.Clone(labels)
	}
	few := make(map[string]string, maxOwnLabels)
	for _, k := range slices.Sorted(maps.Keys(labels))[:maxOwnLabels] {
		few[k] = labels[k]
	}
	p.warnf("metadata.labels", "%d labels are more than %d: the last in order of their names are left out", len(labels),
		maxOwnLabels)
	return few
}

// ownLabels returns a copy of the labels without reserved ones and those over the limit, which are
// reported.
func ownLabels(p *problems, labels map[string]string) map[string]string {
	own := maps.Clone(labels)
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if reserved(k) {
			p.warnf(labelPath(k), "the label is reserved and left out: Wayleave sets it itself")
			delete(own, k)
		}
	}
	return fewLabels(p, own)
}

// labelNamespaceName sets the labels that follow from the name of an object's namespace. They are
// independent of the Namespace object.
func labelNamespaceName(labels map[string]string, namespace string) {
	labels[policy.NamespaceLabelPrefix+labelName] = namespace
	labels[policy.NamespaceLabelPrefix+corev1.LabelMetadataName] = namespace
}

// reserved reports whether only a converter may set a label.
func reserved(k string) bool {
	return k == policy.LabelNamespace || k == policy.LabelServiceAccount || k == labelOrchestrator ||
		strings.HasPrefix(k, NodeLabelPrefix) ||
		strings.HasPrefix(k, policy.NamespaceLabelPrefix) || strings.HasPrefix(k, policy.ServiceAccountLabelPrefix)
}

// labelNames sets the labels of a pod that follow from the names of its namespace and service
// account.
func labelNames(labels map[string]string, namespace, account string) {
	labelNamespaceName(labels, namespace)
	if account != "" {
		labels[policy.ServiceAccountLabelPrefix+labelName] = account
	}
}

// podSelector converts a selector over the labels of pods. For Kubernetes, no pod has a reserved
// label. A condition that such a label exists is never true, and a condition that it is absent is
// always true. Both are reported with ErrIgnored.
func podSelector(p *problems, path *field.Path, s *metav1.LabelSelector) *selector.Selector {
	if !checkLabelSelector(p, path, s) {
		return nil
	}
	rest, never := metav1.LabelSelector{MatchLabels: maps.Clone(s.MatchLabels)}, false
	remark := func(key string) {
		p.warn(path.String(), fmt.Errorf("%w: the label %s is reserved: no pod has it", ErrIgnored, key))
	}
	for _, k := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		if reserved(k) {
			never = true
			remark(k)
		}
	}
	for _, e := range s.MatchExpressions {
		if !reserved(e.Key) {
			rest.MatchExpressions = append(rest.MatchExpressions, e)
			continue
		}
		never = never || e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpExists
		remark(e.Key)
	}
	if never {
		return selector.Not(selector.All())
	}
	return labelSelector(p, path, &rest)
}

// labelSelector converts a Kubernetes label selector. An empty one matches everything. It returns
// nil and reports an invalid one.
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

// checkLabelSelector reports selectors that the API server would refuse, in a fixed order.
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

// knownNamespace returns a condition that a selector over namespaces needs if it can match because
// a label is absent. The condition is that the labels of the namespace are known. The result is nil
// if no condition is needed. The name of a namespace is known from every object in it, all other
// labels only from the Namespace object.
func knownNamespace(s *metav1.LabelSelector) *selector.Selector {
	var named *selector.Selector
	for _, e := range s.MatchExpressions {
		if e.Operator != metav1.LabelSelectorOpNotIn && e.Operator != metav1.LabelSelectorOpDoesNotExist {
			continue
		}
		if e.Key != corev1.LabelMetadataName && e.Key != labelName {
			return selector.Has(labelKnown)
		}
		named = selector.Has(labelName)
	}
	return named
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

// selectorText returns the text of a selector, or "" for nil. It reports a text that is too long
// for the parser.
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
