// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// Node is a machine of the cluster, with the name, addresses and labels that it has in the
// datastore. Several goroutines may read a Node that does not change.
type Node struct {
	// Name identifies the node.
	Name string
	// Addresses of the node, each with the prefix length of its subnet and with host bits. They are
	// in the order of the datastore. Routes lead to the first address of each family.
	Addresses []netip.Prefix
	// WireguardAddresses are the addresses of the node's WireGuard devices: at most one of each
	// family, IPv4 first.
	WireguardAddresses []netip.Addr
	// WireguardKeys are the keys of the node's WireGuard devices. Empty if the node does not
	// encrypt.
	WireguardKeys []policy.WireguardKey
	// Labels of the node.
	Labels map[string]string
}

// Pool is a range of addresses for workloads. Several goroutines may read a Pool that does not
// change.
type Pool struct {
	// Name identifies the pool.
	Name string
	// CIDR of the pool, with no host bits.
	CIDR netip.Prefix
	// Type is the way that packets take between nodes, such as VXLAN. It is never PoolNone.
	Type PoolType
	// NATOutgoing means source NAT. If a packet from the pool goes to an address outside all pools,
	// the sender's node replaces the packet's source by its own address.
	NATOutgoing bool
	// Disabled means that the pool gives out no new addresses. Dataplanes treat it as any other
	// pool.
	Disabled bool
}

// Service has the backends that one resource, a policy.ServiceBackends, lists for a service. Each
// of its Addresses serves each of its Ports. If several resources list backends of the same
// service, as EndpointSlices do in Kubernetes, there is one Service for each of these resources.
// Several goroutines may read a Service that does not change.
type Service struct {
	// Key is the key of the resource ServiceBackends. It identifies the Service.
	Key policy.Key
	// Name of the service, in the namespace of Key.
	Name string
	// Addresses of the backends, sorted.
	Addresses []netip.Addr
	// Ports of the backends, in the order of the datastore.
	Ports []policy.ServicePort
}

// Namespace is a namespace with its labels. Several goroutines may read a Namespace that does not
// change.
type Namespace struct {
	// Name identifies the namespace.
	Name string
	// Labels of the namespace.
	Labels map[string]string
}

// ServiceAccount is a service account with its labels. Several goroutines may read a ServiceAccount
// that does not change.
type ServiceAccount struct {
	// Key identifies the service account.
	Key ServiceAccountKey
	// Labels of the service account.
	Labels map[string]string
}

// ServiceAccountKey identifies a service account. Keys are comparable; Compare orders them.
type ServiceAccountKey struct {
	// Namespace and name of the service account.
	Namespace, Name string
}

// Compare orders keys by namespace and then by name.
func (k ServiceAccountKey) Compare(o ServiceAccountKey) int {
	return cmp.Or(cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

// Equal reports whether the two nodes are the same. The order of lists counts. Nil and empty lists
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

// Equal reports whether the two Services are the same. The order of lists counts. Nil and
// empty lists are the same. A nil Service equals only nil.
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

// Equal reports whether the two service accounts are the same. A nil account equals only nil.
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

// ServiceUpdate makes or replaces a Service.
type ServiceUpdate struct {
	Service *Service
}

// ServiceRemove removes a Service.
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
