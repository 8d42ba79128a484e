// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
)

// Prefix of the name of the profile that stands for a namespace.
const namespaceProfilePrefix = "kns."

// labelName is the label of every namespace with its name, as Calico's selectors know it.
const labelName = "projectcalico.org/name"

// labelKnown is the label of every namespace whose object is known. Of others only the name is
// known.
const labelKnown = "wayleave.dev/known"

// Namespace turns a namespace into the profile that its pods list: it hands down the namespace's
// labels, each with the prefix "pcns.", and allows all traffic, which counts for pods that no
// policy selects. The labels projectcalico.org/name and kubernetes.io/metadata.name are always
// there, with the namespace's name; that is how the API server does it with the second. The label
// wayleave.dev/known is there to tell that the namespace's labels are known. Every error is an
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
