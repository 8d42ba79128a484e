// SPDX-License-Identifier: Apache-2.0

package policy

// NetworkSet has labelled networks, which rules can select as they select endpoints.
type NetworkSet struct {
	// Namespace of the set; empty for a global one.
	Namespace string `json:"namespace,omitempty"`
	// Name of the set. Required.
	Name string `json:"name"`
	// Labels of the set, for selectors. Empty means none.
	Labels map[string]string `json:"labels,omitempty"`
	// Nets of the set, of both families. It may have duplicates. Empty means that no address is in
	// the set.
	Nets Nets `json:"nets,omitempty"`
}

// Key returns the network set's key.
func (n *NetworkSet) Key() Key {
	return Key{Kind: KindNetworkSet, Namespace: n.Namespace, Name: n.Name}
}

func (*NetworkSet) resource() {}

// Validate reports all problems of the network set as one *ValidationError, or nil.
func (n *NetworkSet) Validate() error {
	v := &validator{}
	v.namespace(n.Namespace)
	v.name("name", n.Name)
	v.labels("labels", n.Labels)
	v.namespaceLabel(n.Labels, n.Namespace)
	v.nets("nets", n.Nets)
	return v.err(n.Key())
}
