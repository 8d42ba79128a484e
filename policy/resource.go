// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"reflect"
	"strconv"
)

// Kind is a type of resources, as in the "kind" member of JSON.
type Kind string

// The kinds. Staged policies have a separate kind. So a staged policy can have the name of the
// policy that it will replace.
const (
	KindPolicy           Kind = "Policy"
	KindStagedPolicy     Kind = "StagedPolicy"
	KindTier             Kind = "Tier"
	KindProfile          Kind = "Profile"
	KindNetworkSet       Kind = "NetworkSet"
	KindWorkloadEndpoint Kind = "WorkloadEndpoint"
	KindHostEndpoint     Kind = "HostEndpoint"
	KindIPPool           Kind = "IPPool"
	KindBlock            Kind = "Block"
	KindNode             Kind = "Node"
	KindServiceBackends  Kind = "ServiceBackends"
)

// Key identifies a resource. Namespace is empty for global objects. Names and namespaces have no
// slash, except for the name of a Block, which is its CIDR. Keys are comparable, and Compare orders
// them.
type Key struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Resource is one object of the desired state: *Policy, *Tier, *Profile, *NetworkSet,
// *WorkloadEndpoint, *HostEndpoint, *IPPool, *Block, *Node or *ServiceBackends. There are no other
// implementations.
type Resource interface {
	// Key returns the key of the resource.
	Key() Key
	// Validate reports all problems of the resource as one *ValidationError, or nil.
	Validate() error

	resource()
}

// Update is the present state of one object. A nil Resource means that the object does not exist.
// The latest update of a key replaces earlier ones. Updates of different objects may be in any
// order. A repeated update has no effect, and neither has the deletion of an object that does not
// exist.
type Update struct {
	Key      Key
	Resource Resource
}

// Kinds returns all kinds, in the order of their declaration. The caller may change the result.
func Kinds() []Kind {
	return []Kind{
		KindPolicy, KindStagedPolicy, KindTier, KindProfile, KindNetworkSet, KindWorkloadEndpoint,
		KindHostEndpoint, KindIPPool, KindBlock, KindNode, KindServiceBackends,
	}
}

// newResource returns an empty resource of the kind, or nil if the kind does not exist.
func newResource(kind Kind) Resource {
	switch kind {
	case KindPolicy, KindStagedPolicy:
		return &Policy{Staged: kind == KindStagedPolicy}
	case KindTier:
		return &Tier{}
	case KindProfile:
		return &Profile{}
	case KindNetworkSet:
		return &NetworkSet{}
	case KindWorkloadEndpoint:
		return &WorkloadEndpoint{}
	case KindHostEndpoint:
		return &HostEndpoint{}
	case KindIPPool:
		return &IPPool{}
	case KindBlock:
		return &Block{}
	case KindNode:
		return &Node{}
	case KindServiceBackends:
		return &ServiceBackends{}
	}
	return nil
}

// absent reports whether r is nil or a nil pointer.
func absent(r Resource) bool { return r == nil || reflect.ValueOf(r).IsNil() }

// String returns "Kind/namespace/name", or "Kind/name" for a global object. If the text has
// unprintable characters, it is quoted as a Go string. So a line break in the name of an invalid
// object does not begin a new line of a log.
func (k Key) String() string {
	text := string(k.Kind) + "/" + k.Name
	if k.Namespace != "" {
		text = string(k.Kind) + "/" + k.Namespace + "/" + k.Name
	}
	if isPrintable(text) {
		return text
	}
	return strconv.Quote(text)
}

// Equal reports whether two resources have the same kind and equal fields. An empty list or map
// equals a nil one. Equal does not make values canonical: call Canonical first if, for example, a
// prefix may have host bits. Two nil resources are equal.
func Equal(a, b Resource) bool {
	if absent(a) || absent(b) {
		return absent(a) && absent(b)
	}
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	return x.Type() == y.Type() && equal(x.Elem(), y.Elem())
}

func equalPointers[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// Clone returns a deep copy of r, which can be changed. The copy of nil is nil.
func Clone(r Resource) Resource {
	if absent(r) {
		return nil
	}
	c := newResource(r.Key().Kind)
	v := reflect.ValueOf(c).Elem()
	v.Set(reflect.ValueOf(r).Elem())
	deepCopy(v)
	return c
}

// Canonical returns a copy of r with values in canonical form:
//
//   - IPv4-mapped IPv6 addresses and prefixes become IPv4 addresses and prefixes.
//   - The host bits of prefixes are cleared, except those of the addresses of a Node.
//   - The types of a policy get their usual case, and MAC addresses become lower case.
//
// Some values have no canonical form, such as a mapped address with a zone or a mapped prefix
// shorter than 96 bits. They stay unchanged, and Validate refuses them. The copy of nil is nil.
func Canonical(r Resource) Resource {
	c := Clone(r)
	if c != nil {
		makeCanonical(c)
	}
	return c
}
