// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"reflect"
	"strconv"
)

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
	KindHostEndpoint     Kind = "HostEndpoint"
	KindIPPool           Kind = "IPPool"
	KindBlock            Kind = "Block"
	KindNode             Kind = "Node"
	KindServiceBackends  Kind = "ServiceBackends"
)

// Key identifies a resource. Namespace is empty for global objects. Keys are
// comparable; Compare orders them. Names and namespaces hold no slash, but for the name of
// a Block, which is its CIDR. Key is a plain value; it is safe for concurrent use.
type Key struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Resource is one object of the desired state: *Policy, *Tier, *Profile, *NetworkSet,
// *WorkloadEndpoint, *HostEndpoint, *IPPool, *Block, *Node or *ServiceBackends. The set is
// closed. Readers may share a Resource that nobody changes.
type Resource interface {
	// Key returns the identity that the resource's own fields give it.
	Key() Key
	// Validate reports every problem of the resource as one *ValidationError, or nil.
	Validate() error

	equal(Resource) bool // compares field by field; neither is nil
}

// Update says what the state of one object now is. A nil Resource means that the
// object is absent. Only the latest update of a key counts; updates may repeat
// themselves, arrive in any order between objects, and delete what never was. Readers may
// share an Update that nobody changes.
type Update struct {
	Key      Key
	Resource Resource
}

// Kinds returns all kinds, in the order in which they are declared. The result is the caller's to
// change.
func Kinds() []Kind {
	return []Kind{
		KindPolicy, KindStagedPolicy, KindTier, KindProfile, KindNetworkSet, KindWorkloadEndpoint,
		KindHostEndpoint, KindIPPool, KindBlock, KindNode, KindServiceBackends,
	}
}

// newResource returns an empty resource of the kind, nil for one that does not exist. A new
// kind is a constant, an entry of Kinds, a case here, and a type with the methods of Resource.
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

// absent reports whether r is nil, or a nil pointer of one of the kinds.
func absent(r Resource) bool { return r == nil || reflect.ValueOf(r).IsNil() }

// String returns "Kind/namespace/name", or "Kind/name" for a global object. The text is a quoted Go
// string if a part of it is not printable: the names of an invalid object can hold line breaks,
// and must not begin a line of a log.
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

// Equal reports whether two resources are of the same kind and say the same, field by
// field; a list or map without entries equals a nil one. Values are compared as they
// are written: make both Canonical first where that may differ. Two nil resources are equal.
func Equal(a, b Resource) bool {
	if absent(a) || absent(b) {
		return absent(a) && absent(b)
	}
	return a.equal(b)
}

func equalPointers[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// Clone returns a deep copy of r, to edit while others read r. Nil stays nil.
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

// Canonical returns a copy of r in which equal things are written equally: prefixes are masked and
// unmapped (the addresses of a Node, which are no prefixes, only unmapped), addresses unmapped, the
// types of a policy in their usual case, MAC addresses in small letters. What has no canonical
// form, as a mapped address with a zone, or a mapped prefix with less than 96 bits, stays as it is,
// for Validate to refuse. Nil stays nil.
func Canonical(r Resource) Resource {
	c := Clone(r)
	if c != nil {
		makeCanonical(c)
	}
	return c
}
