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
	// changed is set by an event that may change the desired state. ownKeysChanged is set if the keys of this
	// node's resource have changed since they were last compared with those of the devices.
	changed, ownKeysChanged bool
	nodes                   map[string]*dataplane.Node
	routes                  map[netip.Prefix]*dataplane.Route
	hosts                   map[policy.Key]*dataplane.HostEndpoint
	// uplinks are the interfaces with the node's addresses, unless these have changed since they were looked up.
	uplinks      []string
	uplinksKnown bool
	// encrypting is set once this node's resource had keys, also those of an earlier process.
	encrypting bool
	// encrypted are the prefixes that lead to nodes with keys, and own those of this node that need encryption
	// (Config.RequireEncryption), as of the last desired state.
	encrypted, own map[netip.Prefix]struct{}
}

func newState(cfg *Config) *state {
	return &state{
		cfg:       cfg,
		nodes:     map[string]*dataplane.Node{},
		routes:    map[netip.Prefix]*dataplane.Route{},
		hosts:     map[policy.Key]*dataplane.HostEndpoint{},
		encrypted: map[netip.Prefix]struct{}{},
	}
}

// clone returns a copy that can be updated.
func (s *state) clone() *state {
	c := *s
	c.nodes, c.routes, c.hosts = maps.Clone(s.nodes), maps.Clone(s.routes), maps.Clone(s.hosts)
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
				s.ownKeysChanged = s.ownKeysChanged || old == nil ||
					!slices.Equal(old.WireguardKeys, e.Node.WireguardKeys)
				s.encrypting = s.encrypting || len(e.Node.WireguardKeys) > 0
				s.uplinksKnown = s.uplinksKnown && old != nil && slices.Equal(old.Addresses, e.Node.Addresses)
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
			s.hosts[e.Key] = e.HostEndpoint
			s.changed = s.changed || s.cfg.HostEncryption
		case *dataplane.HostEndpointRemove:
			delete(s.hosts, e.Key)
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

// markRoute records that a route changes. A route of this node matters only if it is inside an encrypted prefix, or
// if RequireEncryption does not cover it yet. So most changes of local pods cost nothing.
func (s *state) markRoute(r *dataplane.Route) {
	switch {
	case r == nil || r.Type == dataplane.RoutePool:
	case r.Type.Remote():
		s.changed = true
	default:
		s.changed = s.changed || hasShorterPrefix(s.encrypted, r.Dst) ||
			s.cfg.RequireEncryption && !hasShorterPrefix(s.own, r.Dst)
	}
}

// hasShorterPrefix reports whether a set has a shorter prefix that contains p.
func hasShorterPrefix(set map[netip.Prefix]struct{}, p netip.Prefix) bool {
	for bits := p.Bits() - 1; bits >= 0; bits-- {
		if _, ok := set[netip.PrefixFrom(p.Addr(), bits).Masked()]; ok {
			return true
		}
	}
	return false
}

// peer is another node that announces keys.
type peer struct {
	node string
	// devices has the node's keys for the devices of this node, in their order.
	devices []peerDevice
	// prefixes that are reached through the node, sorted; hosts are its own addresses.
	prefixes, hosts []netip.Prefix
	// err is why what goes to the node is dropped.
	err error
}

// peerDevice is one device of a peer.
type peerDevice struct {
	key      wgtypes.Key
	endpoint netip.AddrPort
	rotating bool
}

// allowed returns the allowed IPs of the peer, from which it may send, sorted. Its own addresses are always among
// them: the peer may have HostEncryption already.
func (p *peer) allowed() []netip.Prefix {
	all := append(slices.Clone(p.prefixes), p.hosts...)
	slices.SortFunc(all, dataplane.ComparePrefixes)
	return all
}

// peers returns the nodes that announce keys, by name. own are the public keys of this node's devices, each
// zero if it is not known.
func (s *state) peers(own []wgtypes.Key) map[string]*peer {
	all := map[string]*peer{}
	// If several nodes announce the same key, it belongs to this node, or else to the first by name.
	owners := map[wgtypes.Key]string{}
	for _, key := range own {
		if key != (wgtypes.Key{}) {
			owners[key] = s.cfg.Node
		}
	}
	family := s.family()
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.nodes[name]
		if name == s.cfg.Node || len(n.WireguardKeys) == 0 {
			continue
		}
		p := &peer{node: name}
		all[name] = p
		address, err := endpointAddress(n, family)
		if err != nil {
			p.err = err
			continue
		}
		for i, k := range n.WireguardKeys {
			key, err := wgtypes.ParseKey(k.PublicKey)
			if err != nil {
				p.err = fmt.Errorf("%w: invalid key: %w", ErrPeer, err)
				break
			}
			if owner, taken := owners[key]; taken {
				p.err = fmt.Errorf("%w: %s announces the key %s, too", ErrPeer, owner, key)
				break
			}
			owners[key] = name
			if i < len(own) {
				p.devices = append(p.devices, peerDevice{key, netip.AddrPortFrom(address, k.Port), k.Rotating})
			}
		}
	}
	for _, dst := range slices.SortedFunc(maps.Keys(s.routes), dataplane.ComparePrefixes) {
		r := s.routes[dst]
		p := all[r.Node]
		switch {
		case p == nil || !r.Type.Remote():
		case r.Type == dataplane.RouteRemoteHost:
			p.hosts = append(p.hosts, dst)
		default:
			p.prefixes = append(p.prefixes, dst)
		}
	}
	return all
}

// family returns the IP version that nodes are reached by: that of this node's first address.
func (s *state) family() int {
	if n := s.nodes[s.cfg.Node]; n != nil && len(n.Addresses) > 0 && n.Addresses[0].Addr().Is6() {
		return 6
	}
	return 4
}

// isNodeAddress reports whether this node's resource has an address.
func (s *state) isNodeAddress(a netip.Addr) bool {
	n := s.nodes[s.cfg.Node]
	return n != nil && slices.ContainsFunc(n.Addresses, func(p netip.Prefix) bool { return p.Addr() == a })
}

// endpointAddress returns the address of a node that encrypted packets go to: the first of the family, or
// else its first.
func endpointAddress(n *dataplane.Node, family int) (netip.Addr, error) {
	if len(n.Addresses) == 0 {
		return netip.Addr{}, fmt.Errorf("%w: it has no address", ErrPeer)
	}
	for _, p := range n.Addresses {
		if p.Addr().Is6() == (family == 6) {
			return p.Addr(), nil
		}
	}
	return n.Addresses[0].Addr(), nil
}

// ownAddress returns the address of this node's devices of a family, if there is one.
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

// announced returns whether this node's resource has the key of each device.
func (s *state) announced(own []wgtypes.Key) []bool {
	list, keys := make([]bool, len(own)), s.ownKeys()
	for i, key := range own {
		list[i] = i < len(keys) && keys[i].PublicKey == key.String()
	}
	return list
}

// ownKeys returns the keys of this node's resource.
func (s *state) ownKeys() []policy.WireguardKey {
	if n := s.nodes[s.cfg.Node]; n != nil {
		return n.WireguardKeys
	}
	return nil
}

// hostFaults returns the host endpoints that do not see what is encrypted, with ErrHostEndpoint: those of
// other interfaces, unless there is one of all interfaces or one of each device.
func (s *state) hostFaults() map[policy.Key]error {
	faults, seen := map[policy.Key]error{}, map[string]bool{}
	if !s.cfg.HostEncryption {
		return faults
	}
	for key, h := range s.hosts {
		seen[h.Interface] = true
		faults[key] = fmt.Errorf("%w: use the interface %q", ErrHostEndpoint, policy.AllInterfaces)
	}
	missing := slices.ContainsFunc(s.cfg.Devices, func(d Device) bool { return !seen[d.Name] })
	if seen[policy.AllInterfaces] || !missing {
		clear(faults)
	}
	return faults
}
