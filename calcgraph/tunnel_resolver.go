// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"cmp"
	"crypto/sha1"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// TunnelReceiver receives the tunnel endpoints. TunnelUpdate is called only for a tunnel endpoint
// that is new or has changed.
type TunnelReceiver interface {
	TunnelUpdate(t *dataplane.Tunnel)
	TunnelRemove(k dataplane.TunnelKey)
}

// TunnelResolverConfig configures a TunnelResolver.
type TunnelResolverConfig struct {
	// Node is the name of the node whose tunnel endpoints are local. Required.
	Node string
	// Tunnels receives the tunnel endpoints. Required.
	Tunnels TunnelReceiver
}

func (c TunnelResolverConfig) validate() error {
	var errs []error
	if c.Node == "" {
		errs = append(errs, errors.New("calcgraph: TunnelResolverConfig.Node: required"))
	}
	if c.Tunnels == nil {
		errs = append(errs, errors.New("calcgraph: TunnelResolverConfig.Tunnels: required"))
	}
	return errors.Join(errs...)
}

// TunnelResolver computes the tunnel endpoints of all nodes. A node can have three: VXLAN over
// IPv4, VXLAN over IPv6, and IP in IP over IPv4. For each tunnel endpoint, the Node resource must
// have two addresses: the tunnel address, and in the field Addresses another address of the same
// family.
//
// Several nodes may claim the same MAC address. They may also claim the same tunnel address, even
// for different encapsulations. Then only one of these nodes can get its tunnel endpoint: the
// resolver's own node, or else the node with the smallest name.
//
// If two nodes had the same tunnel address, replies to this address would reach the wrong node. If
// two VXLAN nodes had the same tunnel address or the same MAC address, all VXLAN traffic for one
// node would reach the other node.
//
// A TunnelResolver is not safe for concurrent use.
type TunnelResolver struct {
	cfg     TunnelResolverConfig
	tunnels shrinkingMap[dataplane.TunnelKey, tunnelState]
	// claims has the nodes that claim an address, sorted by compareNodes. The first node gets the
	// address.
	claims shrinkingMap[tunnelClaim, []string]
	dirty  shrinkingMap[dataplane.TunnelKey, struct{}]
}

// tunnelState has the endpoint that a node claims (candidate) and the one last sent to the receiver
// (sent). Either may be nil. Neither is ever changed.
type tunnelState struct{ candidate, sent *dataplane.Tunnel }

// tunnelClaim is an address that only one node can have: a tunnel address or a MAC address.
type tunnelClaim struct {
	version int
	address netip.Addr
	mac     string
}

// NewTunnelResolver returns a TunnelResolver without nodes. It fails if the configuration is
// invalid.
func NewTunnelResolver(cfg TunnelResolverConfig) (*TunnelResolver, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &TunnelResolver{cfg: cfg}, nil
}

// UpdateNode adds or replaces a node.
func (r *TunnelResolver) UpdateNode(n *policy.Node) {
	for _, k := range tunnelKeys(n.Name) {
		r.set(k, r.candidate(k, n))
	}
}

// DeleteNode removes a node, if it exists.
func (r *TunnelResolver) DeleteNode(name string) {
	for _, k := range tunnelKeys(name) {
		r.set(k, nil)
	}
}

// tunnelKeys returns the keys of all tunnel endpoints that a node may have.
func tunnelKeys(node string) [3]dataplane.TunnelKey {
	return [...]dataplane.TunnelKey{
		{Node: node, IPVersion: 4},
		{Node: node, IPVersion: 6},
		{Node: node, IPVersion: 4, Encapsulation: dataplane.EncapIPIP},
	}
}

// candidate returns the tunnel endpoint of a node, or nil. It ignores claims of other nodes.
func (r *TunnelResolver) candidate(k dataplane.TunnelKey, n *policy.Node) *dataplane.Tunnel {
	address, mac := n.IPv4VXLANTunnelAddr, n.VXLANTunnelMACAddr
	switch {
	case k.Encapsulation == dataplane.EncapIPIP:
		address, mac = n.IPv4IPIPTunnelAddr, ""
	case k.IPVersion == 6:
		address, mac = n.IPv6VXLANTunnelAddr, n.VXLANTunnelMACAddrV6
	}
	address = address.Unmap()
	parent := firstAddresses(n)[(k.IPVersion-4)/2]
	if !routable(address) || address.Is4() != (k.IPVersion == 4) || !parent.IsValid() || hasAddress(n, address) {
		return nil
	}
	if k.Encapsulation == dataplane.EncapVXLAN {
		mac = cmp.Or(strings.ToLower(mac), defaultMAC(k))
	}
	return &dataplane.Tunnel{
		Node: n.Name, IPVersion: k.IPVersion, Encapsulation: k.Encapsulation, Address: address,
		ParentAddress: parent.Addr(), MAC: mac, Local: n.Name == r.cfg.Node,
	}
}

// hasAddress reports whether an address is one of the node's own. A tunnel with that address would
// route its packets into itself.
func hasAddress(n *policy.Node, address netip.Addr) bool {
	return slices.ContainsFunc(n.Addresses, func(p netip.Prefix) bool { return p.Addr().Unmap() == address })
}

// set adds, replaces or removes the candidate of a key.
func (r *TunnelResolver) set(key dataplane.TunnelKey, candidate *dataplane.Tunnel) {
	state := r.tunnels.m[key]
	old := state.candidate
	state.candidate = candidate
	if state.candidate.Equal(old) {
		return
	}
	r.claim(state.candidate)
	r.unclaim(old)
	r.put(key, state)
	if state == (tunnelState{}) {
		r.dirty.drop(key) // immediately, because there is no flush before InSync
		return
	}
	r.dirty.set(key, struct{}{})
}

// defaultMAC returns the MAC address derived from the name of a node: the letter "f", and the first
// bytes of a hash. The letter makes the MAC address a locally administered unicast address. All
// nodes compute the same address.
func defaultMAC(k dataplane.TunnelKey) string {
	name := k.Node
	if k.IPVersion == 6 {
		name += "-v6"
	}
	sum := sha1.Sum([]byte(name))
	return fmt.Sprintf("66:%02x:%02x:%02x:%02x:%02x", sum[0], sum[1], sum[2], sum[3], sum[4])
}

func claimsOf(t *dataplane.Tunnel) []tunnelClaim {
	if t == nil {
		return nil
	}
	claims := []tunnelClaim{{version: t.IPVersion, address: t.Address}, {version: t.IPVersion, mac: t.MAC}}
	if t.MAC == "" {
		return claims[:1]
	}
	return claims
}

// compareNodes orders nodes by name, with the resolver's own node before all others, so that no
// other node gets its addresses.
func (r *TunnelResolver) compareNodes(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == r.cfg.Node:
		return -1
	case b == r.cfg.Node:
		return 1
	}
	return strings.Compare(a, b)
}

// claim adds a candidate's claims. A node with one address for both encapsulations may have the
// same claim several times. The same holds for any node for a moment, while its candidate is
// replaced.
func (r *TunnelResolver) claim(t *dataplane.Tunnel) {
	for _, c := range claimsOf(t) {
		at, _ := slices.BinarySearchFunc(r.claims.m[c], t.Node, r.compareNodes)
		nodes := slices.Insert(r.claims.m[c], at, t.Node)
		r.claims.set(c, nodes)
		if at == 0 && len(nodes) > 1 {
			r.markDirty(nodes[1], t.IPVersion)
		}
	}
}

func (r *TunnelResolver) unclaim(t *dataplane.Tunnel) {
	for _, c := range claimsOf(t) {
		at, _ := slices.BinarySearchFunc(r.claims.m[c], t.Node, r.compareNodes)
		nodes := shrunk(slices.Delete(r.claims.m[c], at, at+1))
		if len(nodes) == 0 {
			r.claims.drop(c)
			continue
		}
		r.claims.set(c, nodes)
		if at == 0 {
			r.markDirty(nodes[0], t.IPVersion)
		}
	}
}

// markDirty marks the tunnel endpoints of a node and IP version for the next Flush.
func (r *TunnelResolver) markDirty(node string, version int) {
	for _, k := range tunnelKeys(node) {
		if _, known := r.tunnels.m[k]; known && k.IPVersion == version {
			r.dirty.set(k, struct{}{})
		}
	}
}

// Flush sends the tunnel endpoints that have changed since the last flush, sorted by key. Removals
// come first, because a new endpoint may have the address of a removed one.
func (r *TunnelResolver) Flush() {
	if len(r.dirty.m) == 0 {
		return
	}
	keys := slices.SortedFunc(maps.Keys(r.dirty.m), dataplane.TunnelKey.Compare)
	for _, k := range keys {
		state := r.tunnels.m[k]
		if state.sent != nil && !r.wins(state.candidate) {
			state.sent = nil
			r.put(k, state)
			r.cfg.Tunnels.TunnelRemove(k)
		}
	}
	for _, k := range keys {
		state := r.tunnels.m[k]
		if r.wins(state.candidate) && !state.candidate.Equal(state.sent) {
			state.sent = state.candidate
			r.cfg.Tunnels.TunnelUpdate(state.sent)
		}
		r.put(k, state)
	}
	if r.dirty.peak > maxDirty {
		r.dirty = shrinkingMap[dataplane.TunnelKey, struct{}]{}
	}
	clear(r.dirty.m)
}

// put stores the state, or deletes it if it is empty.
func (r *TunnelResolver) put(k dataplane.TunnelKey, state tunnelState) {
	if state == (tunnelState{}) {
		r.tunnels.drop(k)
		return
	}
	r.tunnels.set(k, state)
}

// wins reports whether t is not nil and its node is the first claimant of each of its addresses, in
// the order of compareNodes.
func (r *TunnelResolver) wins(t *dataplane.Tunnel) bool {
	return t != nil && !slices.ContainsFunc(claimsOf(t), func(c tunnelClaim) bool { return r.claims.m[c][0] != t.Node })
}

// bothTunnels sends to two receivers.
type bothTunnels [2]TunnelReceiver

func (b bothTunnels) TunnelUpdate(t *dataplane.Tunnel) {
	b[0].TunnelUpdate(t)
	b[1].TunnelUpdate(t)
}

func (b bothTunnels) TunnelRemove(k dataplane.TunnelKey) {
	b[0].TunnelRemove(k)
	b[1].TunnelRemove(k)
}

// poolType returns how traffic between nodes is sent for a pool.
func poolType(p *policy.IPPool) dataplane.PoolType {
	switch {
	case p.VXLANMode == policy.EncapAlways:
		return dataplane.PoolVXLAN
	case p.VXLANMode == policy.EncapCrossSubnet:
		return dataplane.PoolVXLANCrossSubnet
	case p.IPIPMode == policy.EncapAlways:
		return dataplane.PoolIPIP
	case p.IPIPMode == policy.EncapCrossSubnet:
		return dataplane.PoolIPIPCrossSubnet
	default:
		return dataplane.PoolDirect
	}
}
