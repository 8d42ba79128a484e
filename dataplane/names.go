// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// Node is a machine of the cluster as the datastore has it, for dataplanes that use its name,
// addresses or labels. Readers may share one that nobody changes.
type Node struct {
	// Name of the node, its identity.
	Name string
	// Addresses of the node with the length of their subnets: host bits stay. Their order is that
	// of the datastore; the first of each family is the one that routes go to.
	Addresses []netip.Prefix
	// WireguardAddresses are those of the node's WireGuard devices: at most one of each family, IPv4 first.
	WireguardAddresses []netip.Addr
	// WireguardKeys are the keys of the node's WireGuard devices. Empty if the node does not encrypt.
	WireguardKeys []policy.WireguardKey
	// Labels of the node.
	Labels map[string]string
}

// Pool is a range of addresses that workloads get theirs from. It is a plain value; readers may
// share one that nobody changes.
type Pool struct {
	// Name of the pool, its identity.
	Name string
	// CIDR of the pool, with no host bits.
	CIDR netip.Prefix
	// Type is how traffic between nodes is carried. It is never PoolNone.
	Type PoolType
	// NATOutgoing translates the source of what the pool's addresses send to addresses outside all
	// pools.
	NATOutgoing bool
	// Disabled pools give out no new addresses. They count like any other pool here.
	Disabled bool
}

// Service is a part of what stands behind a service: every address serves every port. Readers may
// share one that nobody changes.
type Service struct {
	// Key of the part; a service may have several. It is the identity.
	Key policy.Key
	// Name of the service, in the namespace of Key.
	Name string
	// Addresses of the backends, sorted.
	Addresses []netip.Addr
	// Ports of the backends, in the order of the datastore.
	Ports []policy.ServicePort
}

// Namespace is a namespace with its labels. Readers may share one that nobody changes.
type Namespace struct {
	// Name of the namespace, its identity.
	Name string
	// Labels of the namespace.
	Labels map[string]string
}

// ServiceAccount is a service account with its labels. Readers may share one that nobody changes.
type ServiceAccount struct {
	// Key is the identity.
	Key ServiceAccountKey
	// Labels of the service account.
	Labels map[string]string
}

// ServiceAccountKey identifies a service account. Keys are comparable; Compare orders them. It is a
// plain value and safe for concurrent use.
type ServiceAccountKey struct {
	// Namespace of the service account, and its Name there.
	Namespace, Name string
}

// Compare orders keys by namespace and then by name.
func (k ServiceAccountKey) Compare(o ServiceAccountKey) int {
	return cmp.Or(cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

// Equal reports whether the two nodes are the same. Lists are compared in order; nil and empty
// are the same. A nil node equals only nil.
func (n *Node) Equal(o *Node) bool {
	if n == nil || o == nil {
		return n == o
	}
	return n.Name == o.Name && slices.Equal(n.Addresses, o.Addresses) && maps.Equal(n.Labels, o.Labels) &&
		slices.Equal(n.WireguardAddresses, o.WireguardAddresses) && slices.Equal(n.WireguardKeys, o.WireguardKeys)
}

// Equal reports whether the two pools are the same. A nil pool equals only nil.
func (p *Pool) Equal(o *Pool) bool { return equalValues(p, o) }

// Equal reports whether the two parts are the same. Lists are compared in order; nil and empty are
// the same. A nil part equals only nil.
func (s *Service) Equal(o *Service) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.Key == o.Key && s.Name == o.Name &&
		slices.Equal(s.Addresses, o.Addresses) && slices.Equal(s.Ports, o.Ports)
}

// Equal reports whether the two namespaces are the same. A nil namespace equals only nil.
func (n *Namespace) Equal(o *Namespace) bool {
	if n == nil || o == nil {
		return n == o
	}
	return n.Name == o.Name && maps.Equal(n.Labels, o.Labels)
}

// Equal reports whether the two service accounts are the same. A nil one equals only nil.
func (a *ServiceAccount) Equal(o *ServiceAccount) bool {
	if a == nil || o == nil {
		return a == o
	}
	return a.Key == o.Key && maps.Equal(a.Labels, o.Labels)
}

// NodeUpdate makes or replaces a node.
type NodeUpdate struct {
	Node *Node
}

// NodeRemove removes a node.
type NodeRemove struct {
	Name string
}

// PoolUpdate makes or replaces a pool.
type PoolUpdate struct {
	Pool *Pool
}

// PoolRemove removes a pool.
type PoolRemove struct {
	Name string
}

// ServiceUpdate makes or replaces a part of a service.
type ServiceUpdate struct {
	Service *Service
}

// ServiceRemove removes a part of a service.
type ServiceRemove struct {
	Key policy.Key
}

// NamespaceUpdate makes or replaces a namespace.
type NamespaceUpdate struct {
	Namespace *Namespace
}

// NamespaceRemove removes a namespace.
type NamespaceRemove struct {
	Name string
}

// ServiceAccountUpdate makes or replaces a service account.
type ServiceAccountUpdate struct {
	ServiceAccount *ServiceAccount
}

// ServiceAccountRemove removes a service account.
type ServiceAccountRemove struct {
	Key ServiceAccountKey
}
