// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"net/netip"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// NodeReceiver receives the nodes. An update may repeat an earlier one.
type NodeReceiver interface {
	NodeUpdate(n *dataplane.Node)
	NodeRemove(name string)
}

// PoolReceiver receives the pools. An update may repeat an earlier one.
type PoolReceiver interface {
	PoolUpdate(p *dataplane.Pool)
	PoolRemove(name string)
}

// ServiceReceiver receives the backends of services. An update may repeat an earlier one.
type ServiceReceiver interface {
	ServiceUpdate(s *dataplane.Service)
	ServiceRemove(key policy.Key)
}

// NamespaceReceiver receives the namespaces. An update may repeat an earlier one. A removal may be
// sent although no update was sent before.
type NamespaceReceiver interface {
	NamespaceUpdate(n *dataplane.Namespace)
	NamespaceRemove(name string)
}

// ServiceAccountReceiver receives the service accounts. An update may repeat an earlier one. A
// removal may be sent although no update was sent before.
type ServiceAccountReceiver interface {
	ServiceAccountUpdate(a *dataplane.ServiceAccount)
	ServiceAccountRemove(k dataplane.ServiceAccountKey)
}

// Relay passes on resources for dataplanes that use the names, labels or addresses of these
// resources. It converts each resource to an event for the receiver of its kind. If that receiver
// is nil, it ignores the resource. A Relay has no state.
//
// A Relay is safe for concurrent use if its receivers are.
type Relay struct {
	// Receivers of each kind. Each is optional.
	Nodes           NodeReceiver
	Pools           PoolReceiver
	Services        ServiceReceiver
	Namespaces      NamespaceReceiver
	ServiceAccounts ServiceAccountReceiver
}

// The prefixes of the names of profiles for namespaces and service accounts. Converters of
// Kubernetes objects name these profiles "kns.NAMESPACE" and "ksa.NAMESPACE.NAME".
const (
	namespaceProfile      = "kns."
	serviceAccountProfile = "ksa."
)

// UpdateNode sends an update of a node.
func (p *Relay) UpdateNode(n *policy.Node) {
	if p.Nodes == nil {
		return
	}
	addrs := make([]netip.Prefix, 0, len(n.Addresses))
	for _, a := range n.Addresses {
		if a = unmapped(a); a.IsValid() {
			addrs = append(addrs, a)
		}
	}
	var devices []netip.Addr
	for _, a := range []netip.Addr{n.IPv4WireguardAddr.Unmap(), n.IPv6WireguardAddr} {
		if a.IsValid() {
			devices = append(devices, a)
		}
	}
	p.Nodes.NodeUpdate(&dataplane.Node{
		Name: n.Name, Addresses: addrs, WireguardAddresses: devices, WireguardKeys: n.WireguardKeys, Labels: n.Labels,
	})
}

// DeleteNode sends the removal of a node.
func (p *Relay) DeleteNode(name string) {
	if p.Nodes != nil {
		p.Nodes.NodeRemove(name)
	}
}

// UpdatePool sends an update of a pool. If the pool has no CIDR, UpdatePool sends the removal of
// the pool instead.
func (p *Relay) UpdatePool(pool *policy.IPPool) {
	cidr := canonical(pool.CIDR)
	switch {
	case p.Pools == nil:
	case !cidr.IsValid():
		p.Pools.PoolRemove(pool.Name)
	default:
		p.Pools.PoolUpdate(&dataplane.Pool{
			Name: pool.Name, CIDR: cidr, Type: poolType(pool), NATOutgoing: pool.NATOutgoing, Disabled: pool.Disabled,
		})
	}
}

// DeletePool sends the removal of a pool.
func (p *Relay) DeletePool(name string) {
	if p.Pools != nil {
		p.Pools.PoolRemove(name)
	}
}

// UpdateService sends an update of the backends of one ServiceBackends resource. A service may have
// several of these resources.
func (p *Relay) UpdateService(s *policy.ServiceBackends) {
	if p.Services != nil {
		p.Services.ServiceUpdate(&dataplane.Service{
			Key: s.Key(), Name: s.Service, Addresses: sortedAddrs(s.Addresses), Ports: s.Ports,
		})
	}
}

// DeleteService sends the removal of the backends of one ServiceBackends resource.
func (p *Relay) DeleteService(key policy.Key) {
	if p.Services != nil {
		p.Services.ServiceRemove(key)
	}
}

// UpdateProfile sends an update of a namespace or service account, with the labels from the
// profile. The profile of a namespace is named kns.NAMESPACE. The profile of a service account is
// named ksa.NAMESPACE.NAME. UpdateProfile ignores profiles with other names.
func (p *Relay) UpdateProfile(profile *policy.Profile) {
	if name, ok := namespaceOf(profile.Name); ok && p.Namespaces != nil {
		p.Namespaces.NamespaceUpdate(&dataplane.Namespace{
			Name: name, Labels: strip(profile.LabelsToApply, policy.NamespaceLabelPrefix),
		})
	}
	if key, ok := serviceAccountOf(profile.Name); ok && p.ServiceAccounts != nil {
		p.ServiceAccounts.ServiceAccountUpdate(&dataplane.ServiceAccount{
			Key: key, Labels: strip(profile.LabelsToApply, policy.ServiceAccountLabelPrefix),
		})
	}
}

// DeleteProfile sends the removal of the namespace or service account to which the profile belongs.
// DeleteProfile ignores the same profiles as UpdateProfile.
func (p *Relay) DeleteProfile(name string) {
	if namespace, ok := namespaceOf(name); ok && p.Namespaces != nil {
		p.Namespaces.NamespaceRemove(namespace)
	}
	if key, ok := serviceAccountOf(name); ok && p.ServiceAccounts != nil {
		p.ServiceAccounts.ServiceAccountRemove(key)
	}
}

func namespaceOf(profile string) (string, bool) {
	name, ok := strings.CutPrefix(profile, namespaceProfile)
	return name, ok && name != ""
}

func serviceAccountOf(profile string) (dataplane.ServiceAccountKey, bool) {
	rest, ok := strings.CutPrefix(profile, serviceAccountProfile)
	namespace, name, dot := strings.Cut(rest, ".") // a namespace has no dots, a service account can have some
	return dataplane.ServiceAccountKey{Namespace: namespace, Name: name}, ok && dot && namespace != "" && name != ""
}

// strip returns the labels whose names have the prefix, and removes the prefix from the names.
func strip(labels map[string]string, prefix string) map[string]string {
	out := make(map[string]string, len(labels))
	for k, v := range labels {
		if name, ok := strings.CutPrefix(k, prefix); ok && name != "" {
			out[name] = v
		}
	}
	return out
}
