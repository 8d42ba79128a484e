// SPDX-License-Identifier: Apache-2.0

package policy

// Labels and prefixes with a fixed meaning. They are those of the Calico v3 API, so that its
// selectors have the same meaning here.
const (
	// LabelNamespace is a label of every namespaced endpoint and network set. Its value is the name
	// of the namespace. The Namespace field implies it. If the object itself has this label, its
	// value must be the same.
	LabelNamespace = "projectcalico.org/namespace"
	// LabelServiceAccount is the label with the name of an endpoint's service account. The producer
	// of the endpoint must set it.
	LabelServiceAccount = "projectcalico.org/serviceaccount"
	// NamespaceLabelPrefix is the prefix of the labels of an endpoint's namespace: the
	// namespaceSelector `env == "prod"` matches the label `pcns.env`. Endpoints inherit these
	// labels from a profile, which the producer must make. Namespaced network sets do not have
	// them.
	NamespaceLabelPrefix = "pcns."
	// ServiceAccountLabelPrefix is the prefix of the labels of an endpoint's service account.
	ServiceAccountLabelPrefix = "pcsa."
)
