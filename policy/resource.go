// SPDX-License-Identifier: Apache-2.0

package policy

// Kind names a type of resource, as in the "kind" field of its JSON form. It is a plain
// value and safe for concurrent use.
type Kind string

// The kinds. A staged policy has a kind of its own, so that a policy and its staged
// successor can stand side by side under one name.
const (
	KindPolicy           Kind = "Policy"
	KindStagedPolicy     Kind = "StagedPolicy"
	KindTier             Kind = "Tier"
	KindProfile          Kind = "Profile"
	KindNetworkSet       Kind = "NetworkSet"
	KindWorkloadEndpoint Kind = "WorkloadEndpoint"
)

// Key identifies a resource. Namespace is empty for global objects. Keys are
// comparable; Compare orders them. Names and namespaces hold no slash. Key is a plain value; it is safe for concurrent use.
type Key struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Resource is one object of the desired state: *Policy, *Tier, *Profile, *NetworkSet
// or *WorkloadEndpoint. The set is closed. Readers may share a Resource that nobody
// changes.
type Resource interface {
	// Key returns the identity that the resource's own fields give it.
	Key() Key
	// Validate reports every problem of the resource as one *ValidationError, or nil.
	Validate() error

	resource()
}

// Update says what the state of one object now is. A nil Resource means that the
// object is absent. Only the latest update of a key counts; updates may repeat
// themselves, arrive in any order between objects, and delete what never was. Readers may
// share an Update that nobody changes.
type Update struct {
	Key      Key
	Resource Resource
}

var (
	_ Resource = (*Policy)(nil)
	_ Resource = (*Tier)(nil)
	_ Resource = (*Profile)(nil)
	_ Resource = (*NetworkSet)(nil)
	_ Resource = (*WorkloadEndpoint)(nil)
)

// String returns "Kind/namespace/name", or "Kind/name" for a global object.
func (k Key) String() string {
	if k.Namespace == "" {
		return string(k.Kind) + "/" + k.Name
	}
	return string(k.Kind) + "/" + k.Namespace + "/" + k.Name
}

func (*Policy) resource()           {}
func (*Tier) resource()             {}
func (*Profile) resource()          {}
func (*NetworkSet) resource()       {}
func (*WorkloadEndpoint) resource() {}

// Key returns the policy's identity; its kind says whether it is staged.
func (p *Policy) Key() Key {
	kind := KindPolicy
	if p.Staged {
		kind = KindStagedPolicy
	}
	return Key{Kind: kind, Namespace: p.Namespace, Name: p.Name}
}

// Key returns the tier's identity.
func (t *Tier) Key() Key { return Key{Kind: KindTier, Name: t.Name} }

// Key returns the profile's identity.
func (p *Profile) Key() Key { return Key{Kind: KindProfile, Name: p.Name} }

// Key returns the network set's identity.
func (n *NetworkSet) Key() Key {
	return Key{Kind: KindNetworkSet, Namespace: n.Namespace, Name: n.Name}
}

// Key returns the endpoint's identity. It does not include the node: an endpoint that
// moves to another node keeps its key.
func (w *WorkloadEndpoint) Key() Key {
	return Key{Kind: KindWorkloadEndpoint, Namespace: w.Namespace, Name: w.Name}
}
