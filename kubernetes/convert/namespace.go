// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
)

// namespaceProfilePrefix is the prefix of the name of a namespace's profile.
const namespaceProfilePrefix = "kns."

// labelName is the label of every namespace with its name, as in Calico's selectors.
const labelName = "projectcalico.org/name"

// labelKnown is a label of every namespace whose Namespace object was converted. If the object of a
// namespace is missing, only the name of the namespace is known, and not its labels.
const labelKnown = "wayleave.dev/known"

// Namespace converts a namespace to the profile of its pods. The profile allows all traffic of pods
// that no policy selects. It has the labels of the namespace, each with the prefix "pcns.", and
// always these labels with the same prefix:
//
//   - projectcalico.org/name and kubernetes.io/metadata.name have the name of the namespace. (The
//     API server sets the second label, too.)
//   - wayleave.dev/known means that the Namespace object was converted, so that the profile has all
//     labels of the namespace. With wayleave.dev/known, selectors can distinguish a namespace that
//     lacks a label from a namespace whose labels are unknown.
//
// Every error is an *Error.
func (c Converter) Namespace(ns *corev1.Namespace) (*policy.Profile, []error) {
	p, _ := begin(coreVersion, "Namespace", ns, false)
	checkLabels(p, ns.Labels)
	labels := make(map[string]string, len(ns.Labels)+3)
	for k, v := range fewLabels(p, ns.Labels) {
		labels[policy.NamespaceLabelPrefix+k] = v
	}
	labelNamespaceName(labels, ns.Name)
	labels[policy.NamespaceLabelPrefix+labelKnown] = "true"
	profile := &policy.Profile{
		Name:          namespaceProfilePrefix + ns.Name,
		LabelsToApply: labels,
		Ingress:       []policy.Rule{{Action: policy.Allow}},
		Egress:        []policy.Rule{{Action: policy.Allow}},
	}
	return finish(profile, p, renamed("name", "metadata.name", "labelsToApply", "metadata.labels"))
}
