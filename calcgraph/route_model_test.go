// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

var routeSteps = flag.Int("routesteps", 1500, "how many steps each random network of routes takes")

// TestRandomNetworks changes networks at random, with random flushes, and compares the output with
// a computation from scratch: 24 seeds of 1,500 steps.
func TestRandomNetworks(t *testing.T) {
	for seed := uint64(1); seed <= 24; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runNetwork(t, seed, *routeSteps) })
	}
}

func FuzzRoutes(f *testing.F) {
	f.Add(uint64(1))
	f.Add(uint64(1 << 33))
	f.Fuzz(func(t *testing.T, seed uint64) { runNetwork(t, seed, 200) })
}

func runNetwork(t *testing.T, seed uint64, steps int) {
	gen := networkGen{rand.New(rand.NewPCG(seed, 5))}
	unreachable := gen.IntN(2) == 0
	n := newNetworkWith(t, unreachable)
	for step := range steps {
		n.update(gen.update())
		if gen.IntN(3) > 0 {
			continue
		}
		n.flush()
		m := model{current: n.current, unreachable: unreachable}
		require.Equal(t, m.state(), n.state(), "seed %d, step %d", seed, step)
	}
	keys := slices.SortedFunc(maps.Keys(n.current), policy.Key.Compare)
	gen.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, k := range keys {
		n.update(policy.Update{Key: k})
		if gen.IntN(2) == 0 {
			n.flush()
		}
	}
	n.flush()
	n.requireEmpty()
}

// networkGen makes updates of few objects with few addresses, so that these often coincide.
type networkGen struct{ *rand.Rand }

func (g networkGen) pick(list ...string) string { return list[g.IntN(len(list))] }

func (g networkGen) name() string { return g.pick("n1", "n1", "a", "b", "remotehostname", "z") }

// addr returns a workload's address, or rarely a node's.
func (g networkGen) addr() netip.Addr {
	if g.IntN(12) == 0 {
		return g.nodeAddr().Addr()
	}
	if g.IntN(3) == 0 {
		return netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(g.IntN(24))})
	}
	return netip.AddrFrom4([4]byte{10, 0, byte(g.IntN(2)), byte(g.IntN(12))})
}

func (g networkGen) nodeAddr() netip.Prefix {
	if g.IntN(12) == 0 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(g.IntN(4))}), 24) // in a block
	}
	if g.IntN(3) == 0 {
		a := netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x99, 14: byte(g.IntN(2)), 15: byte(g.IntN(3))})
		return netip.PrefixFrom(a, []int{112, 120, 128}[g.IntN(3)])
	}
	a := netip.AddrFrom4([4]byte{192, 168, byte(g.IntN(2)), byte(1 + g.IntN(3))})
	return netip.PrefixFrom(a, []int{16, 24, 32}[g.IntN(3)])
}

func (g networkGen) update() policy.Update {
	r := []func() policy.Resource{g.pool, g.block, g.block, g.node, g.node, g.endpoint, g.endpoint}[g.IntN(7)]()
	u := policy.Update{Key: r.Key(), Resource: r}
	if g.IntN(4) == 0 {
		u.Resource = nil
	}
	return u
}

func (g networkGen) pool() policy.Resource {
	p := &policy.IPPool{Name: g.pick("p", "q", "r", "s"), NATOutgoing: g.IntN(2) == 0, Disabled: g.IntN(2) == 0}
	p.CIDR = netip.MustParsePrefix(g.pick("10.0.0.0/16", "10.0.0.0/16", "10.0.1.0/24", "10.0.0.4/30", "fd00::/16",
		"fd00::/124", "192.168.0.0/16", "10.0.0.1/32", "0.0.0.0/0"))
	modes := []policy.EncapMode{"", policy.EncapNever, policy.EncapAlways, policy.EncapCrossSubnet}
	if g.IntN(4) > 0 {
		p.VXLANMode = modes[g.IntN(4)]
	} else {
		p.IPIPMode = modes[g.IntN(4)]
	}
	return p
}

func (g networkGen) block() policy.Resource {
	b := &policy.Block{Node: g.name()}
	b.CIDR = netip.MustParsePrefix(
		g.pick("10.0.0.0/29", "10.0.0.0/30", "10.0.0.8/29", "10.0.1.0/28", "10.0.1.2/32", "fd00::/124", "fd00::8/125"),
	)
	if g.IntN(6) == 0 {
		b.Node = ""
	}
	for range g.IntN(3) {
		b.Borrowed = append(b.Borrowed, policy.BorrowedAddress{Address: g.addr(), Node: g.name()})
	}
	return b
}

func (g networkGen) node() policy.Resource {
	n := &policy.Node{Name: g.name()}
	for range g.IntN(4) {
		n.Addresses = append(n.Addresses, g.nodeAddr())
	}
	if g.IntN(8) == 0 {
		n.Addresses = append(n.Addresses, netip.MustParsePrefix(g.pick("127.0.0.1/8", "fe80::1/64", "0.0.0.0/32")))
	}
	if a := g.addr(); a.Is4() && g.IntN(4) > 0 {
		n.IPv4VXLANTunnelAddr = a
	}
	if a := g.addr(); a.Is6() {
		n.IPv6VXLANTunnelAddr = a
	}
	if a := g.addr(); a.Is4() && g.IntN(4) > 0 {
		n.IPv4IPIPTunnelAddr = a
	}
	if g.IntN(8) == 0 { // one address for both
		n.IPv4IPIPTunnelAddr = n.IPv4VXLANTunnelAddr
	}
	if g.IntN(6) == 0 {
		n.VXLANTunnelMACAddr = g.pick("02:00:00:00:00:01", "02:00:00:00:00:02")
	}
	if g.IntN(2) == 0 {
		key := "jQRCQ2kHpoQZXCXzKGbVWRXVXJH6s8V7qUCkh1HSAlE="
		n.WireguardKeys = []policy.WireguardKey{{PublicKey: key, Port: 51820}}
	}
	if a := g.addr(); g.IntN(2) == 0 {
		if n.IPv4WireguardAddr = a; a.Is6() {
			n.IPv4WireguardAddr, n.IPv6WireguardAddr = netip.Addr{}, a
		}
	}
	return n
}

func (g networkGen) endpoint() policy.Resource {
	w := &policy.WorkloadEndpoint{Name: g.pick("u", "v", "w", "x", "y"), Node: g.name()}
	for range g.IntN(3) {
		w.Addresses = append(w.Addresses, g.addr())
	}
	return w
}

// model computes tunnels and routes from scratch, prefix by prefix, from all resources.
type model struct {
	current     map[policy.Key]policy.Resource
	unreachable bool // as in calcgraph.Config
}

func (m model) state() string {
	tunnels := m.tunnels()
	routes := map[netip.Prefix]dataplane.Route{}
	for dst := range m.prefixes() {
		if r, ok := m.route(dst, tunnels); ok {
			routes[dst] = r
		}
	}
	return networkState(tunnels, routes)
}

func all[R policy.Resource](m model) []R {
	var out []R
	for _, k := range slices.SortedFunc(maps.Keys(m.current), policy.Key.Compare) {
		if r, ok := m.current[k].(R); ok {
			out = append(out, r)
		}
	}
	return out
}

func bad(a netip.Addr) bool {
	return !a.IsValid() || a.IsUnspecified() || a.IsLoopback() || (a.Is6() && a.IsLinkLocalUnicast())
}

func full(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

func version(a netip.Addr) int {
	if a.Is4() {
		return 4
	}
	return 6
}

// own returns a node's first address of the IP version.
func (m model) own(name string, v int) netip.Prefix {
	for _, n := range all[*policy.Node](m) {
		for _, a := range n.Addresses {
			if n.Name == name && version(a.Addr()) == v && !bad(a.Addr()) {
				return a
			}
		}
	}
	return netip.Prefix{}
}

func (m model) tunnels() map[dataplane.TunnelKey]dataplane.Tunnel {
	var candidates []dataplane.Tunnel
	for _, n := range all[*policy.Node](m) {
		for _, v := range []int{4, 6} {
			addr, mac, seed := n.IPv4VXLANTunnelAddr, n.VXLANTunnelMACAddr, n.Name
			if v == 6 {
				addr, mac, seed = n.IPv6VXLANTunnelAddr, n.VXLANTunnelMACAddrV6, n.Name+"-v6"
			}
			if mac == "" {
				sum := sha1.Sum([]byte(seed))
				mac = "66"
				for _, b := range sum[:5] {
					mac += ":" + hex.EncodeToString([]byte{b})
				}
			}
			if parent := m.own(n.Name, v); parent.IsValid() && !bad(addr) && !ownAddress(n, addr) {
				candidates = append(candidates, dataplane.Tunnel{
					Node: n.Name, IPVersion: v, Address: addr, MAC: mac, ParentAddress: parent.Addr(),
					Local: n.Name == node,
				})
			}
		}
		ipip := n.IPv4IPIPTunnelAddr
		if parent := m.own(n.Name, 4); parent.IsValid() && !bad(ipip) && !ownAddress(n, ipip) {
			candidates = append(candidates, dataplane.Tunnel{
				Node: n.Name, IPVersion: 4, Encapsulation: dataplane.EncapIPIP, Address: ipip,
				ParentAddress: parent.Addr(), Local: n.Name == node,
			})
		}
	}
	out := map[dataplane.TunnelKey]dataplane.Tunnel{}
	for _, c := range candidates {
		if !slices.ContainsFunc(candidates, func(o dataplane.Tunnel) bool {
			sameMAC := o.MAC == c.MAC && c.MAC != ""
			return before(o.Node, c.Node) && o.IPVersion == c.IPVersion && (o.Address == c.Address || sameMAC)
		}) {
			out[c.Key()] = c
		}
	}
	return out
}

// ownAddress reports whether an address of a tunnel is also one of the node itself.
func ownAddress(n *policy.Node, a netip.Addr) bool {
	for _, p := range n.Addresses {
		if p.Addr() == a {
			return true
		}
	}
	return false
}

// before reports whether node a takes precedence over node b for an address that both have.
func before(a, b string) bool { return a != b && (a == node || b != node && a < b) }

// only returns the name if it is in the list.
func only(name string, list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(n string) bool { return n != name })
}

// prefixes returns the prefixes of all resources.
func (m model) prefixes() map[netip.Prefix]bool {
	out := map[netip.Prefix]bool{}
	for _, r := range m.current {
		switch r := r.(type) {
		case *policy.IPPool:
			out[r.CIDR] = true
		case *policy.Block:
			out[r.CIDR] = true
			for _, l := range r.Borrowed {
				out[full(l.Address)] = true
			}
		case *policy.Node:
			for _, a := range r.Addresses {
				out[full(a.Addr())] = true
			}
			for _, a := range r.TunnelAddresses() {
				if a.IsValid() {
					out[full(a)] = true
				}
			}
		case *policy.WorkloadEndpoint:
			for _, a := range r.Addresses {
				out[full(a)] = true
			}
		}
	}
	return out
}

// owner returns the first claimant of the prefix in the order of precedence, and its kind.
func (m model) owner(dst netip.Prefix, block int) (claimant string, local, remote dataplane.RouteType) {
	var workloads, tunnels, hosts, borrowers, owners []string
	addr := dst.Addr()
	if dst.IsSingleIP() && !bad(addr) {
		for _, w := range all[*policy.WorkloadEndpoint](m) {
			if w.Node == node && slices.Contains(w.Addresses, addr) {
				workloads = append(workloads, w.Node)
			}
		}
		for _, n := range all[*policy.Node](m) {
			wireguard := addr == n.IPv4WireguardAddr || addr == n.IPv6WireguardAddr
			if wireguard ||
				(addr == n.IPv4VXLANTunnelAddr || addr == n.IPv6VXLANTunnelAddr || addr == n.IPv4IPIPTunnelAddr) &&
					m.own(n.Name, version(addr)).IsValid() {
				tunnels = append(tunnels, n.Name)
			}
			if slices.ContainsFunc(n.Addresses, func(p netip.Prefix) bool { return p.Addr() == addr }) {
				hosts = append(hosts, n.Name)
			}
		}
		for _, b := range all[*policy.Block](m) {
			for _, l := range b.Borrowed {
				if l.Address == addr && b.CIDR.Contains(addr) && b.CIDR.Bits() == block && l.Node != b.Node {
					borrowers = append(borrowers, l.Node)
				}
			}
		}
	}
	for _, b := range all[*policy.Block](m) {
		if b.CIDR == dst && b.Node != "" {
			owners = append(owners, b.Node)
		}
	}
	for _, c := range []struct {
		names         []string
		local, remote dataplane.RouteType
	}{
		{workloads, dataplane.RouteLocalWorkload, 0},
		{only(node, tunnels), dataplane.RouteLocalTunnel, 0},
		{only(node, hosts), dataplane.RouteLocalHost, 0},
		{tunnels, dataplane.RouteLocalTunnel, dataplane.RouteRemoteTunnel},
		{hosts, dataplane.RouteLocalHost, dataplane.RouteRemoteHost},
		{borrowers, dataplane.RouteBlackhole, dataplane.RouteRemoteWorkload},
		{owners, dataplane.RouteBlackhole, dataplane.RouteRemoteWorkload},
	} {
		if len(c.names) > 0 {
			return slices.Min(c.names), c.local, c.remote
		}
	}
	return "", 0, 0
}

func (m model) route(dst netip.Prefix, tunnels map[dataplane.TunnelKey]dataplane.Tunnel) (dataplane.Route, bool) {
	covers := func(p netip.Prefix) bool { return p.Bits() <= dst.Bits() && p.Contains(dst.Addr()) }
	r := dataplane.Route{Dst: dst}
	isPool, inner := false, -1
	for _, p := range all[*policy.IPPool](m) { // by name: of two with the same CIDR, the first one is used
		if covers(p.CIDR) && p.CIDR.Bits() > inner {
			inner = p.CIDR.Bits()
			isPool = p.CIDR == dst
			r.NATOutgoing = p.NATOutgoing
			r.Pool = map[string]dataplane.PoolType{
				"": dataplane.PoolDirect, "vAlways": dataplane.PoolVXLAN,
				"vCrossSubnet": dataplane.PoolVXLANCrossSubnet, "iAlways": dataplane.PoolIPIP,
				"iCrossSubnet": dataplane.PoolIPIPCrossSubnet,
			}[mode("v", p.VXLANMode)+mode("i", p.IPIPMode)]
		}
	}
	owner := ""
	inner = -1
	for _, b := range all[*policy.Block](m) {
		if covers(b.CIDR) && b.CIDR.Bits() > inner {
			owner, inner = b.Node, b.CIDR.Bits()
		}
	}
	inBlock := inner >= 0
	claimant, local, remote := m.owner(dst, inner)
	if claimant == "" {
		return r, isPool
	}
	r.Node = claimant
	r.Type = local
	if claimant != node {
		r.Type = remote
		r.NodeAddress = m.own(claimant, version(dst.Addr())).Addr()
		mine, theirs := m.own(node, version(dst.Addr())), m.own(claimant, version(dst.Addr()))
		r.SameSubnet = strings.HasSuffix(r.Pool.String(), "cross-subnet") && mine.IsValid() && theirs.IsValid() &&
			mine.Bits() < mine.Addr().BitLen() && theirs.Bits() < theirs.Addr().BitLen() && mine.Contains(theirs.Addr())
	}
	host := r.Type == dataplane.RouteLocalHost || r.Type == dataplane.RouteRemoteHost
	r.Borrowed = inBlock && owner != claimant && !host
	if claimant == node || host || r.Pool == dataplane.PoolNone {
		return r, true
	}
	if !m.hasPath(&r, tunnels) {
		r.Type = dataplane.RouteRemoteUnreachable
		return r, m.unreachable || m.encrypts()
	}
	return r, true
}

// encrypts reports whether this node has WireGuard keys.
func (m model) encrypts() bool {
	return slices.ContainsFunc(all[*policy.Node](m), func(n *policy.Node) bool {
		return n.Name == node && len(n.WireguardKeys) > 0
	})
}

// hasPath reports whether packets can travel to the node of a route in a pool.
func (m model) hasPath(r *dataplane.Route, tunnels map[dataplane.TunnelKey]dataplane.Tunnel) bool {
	key := dataplane.TunnelKey{Node: r.Node, IPVersion: version(r.Dst.Addr())}
	switch { // IP in IP is for IPv4 only, so no node has an IPv6 tunnel
	case r.Pool == dataplane.PoolIPIP, r.Pool == dataplane.PoolIPIPCrossSubnet && !r.SameSubnet:
		key.Encapsulation = dataplane.EncapIPIP
		fallthrough
	case r.Pool == dataplane.PoolVXLAN, r.Pool == dataplane.PoolVXLANCrossSubnet && !r.SameSubnet:
		_, ok := tunnels[key]
		return ok
	}
	return r.NodeAddress.IsValid()
}

func mode(prefix string, m policy.EncapMode) string {
	if cmp.Or(m, policy.EncapNever) == policy.EncapNever {
		return ""
	}
	return prefix + string(m)
}
