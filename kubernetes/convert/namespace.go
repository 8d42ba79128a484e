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

// labelKnown is the label of every namespace whose object is known. Of other namespaces, only the name is known.
const labelKnown = "wayleave.dev/known"

// Namespace converts a namespace to the profile of its pods. The profile has the labels of the namespace with the
// prefix "pcns.", and allows all traffic of pods that no policy selects. It always has the labels
// projectcalico.org/name and kubernetes.io/metadata.name with the name of the namespace; the API server sets the second
// one in the same way. The label wayleave.dev/known means that the labels of the namespace are known. Every error is an
// *Error.
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
