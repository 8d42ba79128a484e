// SPDX-License-Identifier: Apache-2.0

package policy

// Labels and prefixes with a fixed meaning. They are the ones of the Calico v3 API, so that
// selectors written for it mean the same here.
const (
	// LabelNamespace is the label under which every namespaced endpoint and network set
	// carries the name of its namespace. It is implied by the Namespace field; a label of
	// this name on the object itself is invalid unless it says the same.
	LabelNamespace = "projectcalico.org/namespace"
	// LabelServiceAccount is the label with the name of the endpoint's service account. The
	// producer of the endpoint sets it.
	LabelServiceAccount = "projectcalico.org/serviceaccount"
	// NamespaceLabelPrefix stands before the labels of the endpoint's namespace: a
	// namespaceSelector `env == "prod"` sees the label `pcns.env`. Endpoints inherit them from a
	// profile; namespaced network sets do not have them. They are for the producer to set.
	NamespaceLabelPrefix = "pcns."
	// ServiceAccountLabelPrefix stands before the labels of the endpoint's service account.
	ServiceAccountLabelPrefix = "pcsa."
)
