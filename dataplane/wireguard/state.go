// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// state has the nodes, routes and host endpoints of the events.
type state struct {
	cfg    *Config
	inSync bool
	// changed is set by an event that may change the desired state. The field resourceKeysChanged
	// is set if the keys in this node's Node resource have changed since their last comparison with
	// the devices' keys.
	changed, resourceKeysChanged bool

	nodes         map[string]*dataplane.Node
	routes        map[netip.Prefix]*dataplane.Route
	hostEndpoints map[policy.Key]*dataplane.HostEndpoint
	interfaces    localInterfaces
	// encrypting is set once this node's Node resource has had keys, even keys of an earlier
	// process.
	encrypting bool
	// encrypted has the prefixes behind nodes with keys. The list throws has the unencrypted
	// prefixes inside of encrypted ones. ownEncrypted has this node's prefixes to which packets
	// must be encrypted (Config.RequireEncryption). All describe the last desired state.
	encrypted, ownEncrypted map[netip.Prefix]struct{}
	throws                  []netip.Prefix
}

func newState(cfg *Config) *state {
	return &state{
		cfg:           cfg,
		nodes:         map[string]*dataplane.Node{},
		routes:        map[netip.Prefix]*dataplane.Route{},
		hostEndpoints: map[policy.Key]*dataplane.HostEndpoint{},
		encrypted:     map[netip.Prefix]struct{}{},
	}
}

// clone returns a copy that can be updated.
func (s *state) clone() *state {
	c := *s
	c.nodes, c.routes, c.hostEndpoints = maps.Clone(s.nodes), maps.Clone(s.routes), maps.Clone(s.hostEndpoints)
	return &c
}

// update applies a batch.
func (s *state) update(b dataplane.Batch) {
	for _, event := range b.Events {
		switch e := event.(type) {
		case *dataplane.NodeUpdate:
			old := s.nodes[e.Node.Name]
			s.nodes[e.Node.Name] = e.Node
			s.changed = s.changed || !sameNode(old, e.Node)
			if e.Node.Name == s.cfg.Node {
				s.resourceKeysChanged = s.resourceKeysChanged || old == nil ||
					!slices.Equal(old.WireguardKeys, e.Node.WireguardKeys)
				s.encrypting = s.encrypting || len(e.Node.WireguardKeys) > 0
			}
		case *dataplane.NodeRemove:
			delete(s.nodes, e.Name)
			s.changed = true
		case *dataplane.RouteUpdate:
			s.markRoute(s.routes[e.Route.Dst])
			s.routes[e.Route.Dst] = e.Route
			s.markRoute(e.Route)
		case *dataplane.RouteRemove:
			s.markRoute(s.routes[e.Dst])
			delete(s.routes, e.Dst)
		case *dataplane.HostEndpointUpdate:
			s.hostEndpoints[e.Key] = e.HostEndpoint
			s.changed = s.changed || s.cfg.HostEncryption
		case *dataplane.HostEndpointRemove:
			delete(s.hostEndpoints, e.Key)
			s.changed = s.changed || s.cfg.HostEncryption
		case *dataplane.InSync:
			s.inSync, s.changed = true, true
		}
	}
}

// sameNode reports whether two states of a node are the same for this package.
func sameNode(a, b *dataplane.Node) bool {
	return a != nil && slices.Equal(a.Addresses, b.Addresses) &&
		slices.Equal(a.WireguardAddresses, b.WireguardAddresses) && slices.Equal(a.WireguardKeys, b.WireguardKeys)
}

// markRoute records that a route changes. Most changes of local pods need no work here. A route of
// this node only matters in these cases:
//
//   - it is a block, or in no block of this node;
//   - it is inside an encrypted prefix;
//   - RequireEncryption does not cover it yet.
func (s *state) markRoute(r *dataplane.Route) {
	switch {
	case r == nil || r.Type == dataplane.RoutePool:
	case r.Type.Remote(), r.Type == dataplane.RouteBlackhole:
		s.changed = true
	default:
		s.changed = s.changed || hasShorterPrefix(s.encrypted, r.Dst) || !s.inOwnBlock(r.Dst) ||
			s.cfg.RequireEncryption && !hasShorterPrefix(s.ownEncrypted, r.Dst)
	}
}

// hasShorterPrefix reports whether a set has a prefix that contains p and is shorter than p.
func hasShorterPrefix(set map[netip.Prefix]struct{}, p netip.Prefix) bool {
	for bits := p.Bits() - 1; bits >= 0; bits-- {
		if _, ok := set[netip.PrefixFrom(p.Addr(), bits).Masked()]; ok {
			return true
		}
	}
	return false
}

// remoteNode is another node that announces keys, or whose Node resource is missing.
type remoteNode struct {
	name string
	// peers are the node's peers on the devices of this node, in the order of the devices.
	peers []announcedPeer
	// prefixes are the prefixes behind the node. addresses are the node's own addresses. Both lists
	// are sorted.
	prefixes, addresses []netip.Prefix
	// err says why packets to the node are dropped; nil if they are not.
	err error
}

// announcedPeer is the key, endpoint and rotation that a remote node announces for one device.
type announcedPeer struct {
	key      wgtypes.Key
	endpoint netip.AddrPort
	rotating bool
}

// allowedIPs returns the allowed IPs of the node's peers, sorted. They always include the node's
// own addresses, because the remote node may already have HostEncryption.
func (n *remoteNode) allowedIPs() []netip.Prefix {
	all := append(slices.Clone(n.prefixes), n.addresses...)
	slices.SortFunc(all, dataplane.ComparePrefixes)
	return all
}

// remoteNodes returns the remote nodes, by name. ownKeys has the public key of each device of this
// node; zero if a key is not known.
func (s *state) remoteNodes(ownKeys []wgtypes.Key) map[string]*remoteNode {
	all := map[string]*remoteNode{}
	// If several nodes announce the same key, it belongs to this node, or else to the first by
	// name.
	owners := map[wgtypes.Key]string{}
	for _, key := range ownKeys {
		if key != (wgtypes.Key{}) {
			owners[key] = s.cfg.Node
		}
	}
	family := s.family()
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		resource := s.nodes[name]
		if name == s.cfg.Node || len(resource.WireguardKeys) == 0 {
			continue
		}
		n := &remoteNode{name: name}
		all[name] = n
		address, err := endpointAddress(resource, family)
		if err != nil {
			n.err = err
			continue
		}
		for i, k := range resource.WireguardKeys {
			key, err := wgtypes.ParseKey(k.PublicKey)
			if err != nil {
				n.err = fmt.Errorf("%w: invalid key: %w", ErrRemoteNode, err)
				break
			}
			if owner, taken := owners[key]; taken {
				n.err = fmt.Errorf("%w: %s announces the key %s, too", ErrRemoteNode, owner, key)
				break
			}
			owners[key] = name
			if i < len(ownKeys) {
				n.peers = append(n.peers, announcedPeer{key, netip.AddrPortFrom(address, k.Port), k.Rotating})
			}
		}
	}
	for _, dst := range slices.SortedFunc(maps.Keys(s.routes), dataplane.ComparePrefixes) {
		r := s.routes[dst]
		n := all[r.Node]
		if n == nil && s.encrypting && r.Type.Remote() && s.nodes[r.Node] == nil {
			// The node may have keys, so packets to it must not leave unencrypted.
			n = &remoteNode{name: r.Node, err: fmt.Errorf("%w: its Node resource is missing or invalid", ErrRemoteNode)}
			all[r.Node] = n
		}
		switch {
		case n == nil || !r.Type.Remote():
		case r.Type == dataplane.RouteRemoteHost:
			n.addresses = append(n.addresses, dst)
		default:
			n.prefixes = append(n.prefixes, dst)
		}
	}
	return all
}

// family returns the IP version of the outer packets between nodes: that of this node's first
// address.
func (s *state) family() int {
	if n := s.nodes[s.cfg.Node]; n != nil && len(n.Addresses) > 0 && n.Addresses[0].Addr().Is6() {
		return 6
	}
	return 4
}

// endpointAddress returns the address of a node to which encrypted packets are sent: its first
// address of the family, or else its first address.
func endpointAddress(n *dataplane.Node, family int) (netip.Addr, error) {
	if len(n.Addresses) == 0 {
		return netip.Addr{}, fmt.Errorf("%w: it has no address", ErrRemoteNode)
	}
	for _, p := range n.Addresses {
		if p.Addr().Is6() == (family == 6) {
			return p.Addr(), nil
		}
	}
	return n.Addresses[0].Addr(), nil
}

// ownAddress returns the address of the family that this node's devices have, if there is one.
func (s *state) ownAddress(family int) netip.Addr {
	if n := s.nodes[s.cfg.Node]; n != nil {
		for _, a := range n.WireguardAddresses {
			if a.Is6() == (family == 6) {
				return a
			}
		}
	}
	return netip.Addr{}
}

// published reports for each device whether this node's Node resource has its key. ownKeys are the
// keys of the devices.
func (s *state) published(ownKeys []wgtypes.Key) []bool {
	list, keys := make([]bool, len(ownKeys)), s.resourceKeys()
	for i, key := range ownKeys {
		list[i] = i < len(keys) && keys[i].PublicKey == key.String()
	}
	return list
}

// nodeAddresses returns the addresses in this node's Node resource.
func (s *state) nodeAddresses() []netip.Prefix {
	if n := s.nodes[s.cfg.Node]; n != nil {
		return n.Addresses
	}
	return nil
}

// resourceKeys returns the keys in this node's Node resource.
func (s *state) resourceKeys() []policy.WireguardKey {
	if n := s.nodes[s.cfg.Node]; n != nil {
		return n.WireguardKeys
	}
	return nil
}

// hostEndpointFaults returns the faults of host endpoints with Config.HostEncryption. The policy of
// a host endpoint applies to packets inside WireGuard only if the host endpoint is for the
// WireGuard device or for all interfaces. If one host endpoint is for all interfaces, or if each
// device has a host endpoint, there is no fault. Otherwise each host endpoint is at fault.
func (s *state) hostEndpointFaults() map[policy.Key]error {
	faults, seen := map[policy.Key]error{}, map[string]bool{}
	if !s.cfg.HostEncryption {
		return faults
	}
	for key, h := range s.hostEndpoints {
		seen[h.Interface] = true
		faults[key] = fmt.Errorf("%w: use the interface %q", ErrHostEndpoint, policy.AllInterfaces)
	}
	missing := slices.ContainsFunc(s.cfg.Devices, func(d Device) bool { return !seen[d.Name] })
	if seen[policy.AllInterfaces] || !missing {
		clear(faults)
	}
	return faults
}
