// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"net/netip"
	"strconv"

	"github.com/wayleave/wayleave/policy"
)

// PoolType is the way that packets to a pool's addresses take between nodes.
type PoolType uint8

// The types of pools.
const (
	// PoolNone means that an address is in no pool. The way to this address is not known, and a
	// dataplane programs no route to it.
	PoolNone PoolType = iota
	// PoolDirect does not encapsulate packets.
	PoolDirect
	// PoolVXLAN encapsulates packets in VXLAN.
	PoolVXLAN
	// PoolVXLANCrossSubnet encapsulates packets in VXLAN between nodes of different subnets, and
	// not within a subnet.
	PoolVXLANCrossSubnet
	// PoolIPIP encapsulates packets in IP in IP.
	PoolIPIP
	// PoolIPIPCrossSubnet encapsulates packets in IP in IP between nodes of different subnets, and
	// not within a subnet.
	PoolIPIPCrossSubnet
)

// String returns "none", "direct", "vxlan", "vxlan-cross-subnet", "ipip" or "ipip-cross-subnet".
func (t PoolType) String() string {
	return nameOf("type", uint8(t), "none", "direct", "vxlan", "vxlan-cross-subnet", "ipip", "ipip-cross-subnet")
}

// Valid reports whether the type is one of the above.
func (t PoolType) Valid() bool { return t <= PoolIPIPCrossSubnet }

// CrossSubnet reports whether pools of the type encapsulate only between nodes of different
// subnets.
func (t PoolType) CrossSubnet() bool {
	return t == PoolVXLANCrossSubnet || t == PoolIPIPCrossSubnet
}

// Encapsulation is the protocol of a tunnel.
type Encapsulation uint8

// The encapsulations.
const (
	// EncapVXLAN is VXLAN.
	EncapVXLAN Encapsulation = iota
	// EncapIPIP is IP in IP, for IPv4 only.
	EncapIPIP
)

// String returns "vxlan" or "ipip".
func (e Encapsulation) String() string { return nameOf("encapsulation", uint8(e), "vxlan", "ipip") }

// Tunnel returns the key of the tunnel endpoint to which the route leads. It returns false if the
// route uses no tunnel.
func (r *Route) Tunnel() (TunnelKey, bool) {
	workload := r.Type == RouteRemoteWorkload || r.Type == RouteRemoteTunnel
	direct := r.Pool <= PoolDirect || !r.Pool.Valid() || r.Pool.CrossSubnet() && r.SameSubnet
	if !workload || direct {
		return TunnelKey{}, false
	}
	k := TunnelKey{Node: r.Node, IPVersion: 4}
	if r.Dst.Addr().Is6() {
		k.IPVersion = 6
	}
	if r.Pool == PoolIPIP || r.Pool == PoolIPIPCrossSubnet {
		k.Encapsulation = EncapIPIP
	}
	return k, true
}

// Tunnel is a tunnel endpoint: the device on one node for one family and one encapsulation.
type Tunnel struct {
	// Node is the name of the node that has the device. IPVersion, 4 or 6, is the family of the
	// addresses. Node, IPVersion and Encapsulation together identify the tunnel.
	Node          string
	IPVersion     int
	Encapsulation Encapsulation
	// Address of the device. No two nodes have the same address.
	Address netip.Addr
	// MAC address of the device, as in "66:3e:ca:a4:db:65". No two nodes have the same MAC address.
	// Empty for IP in IP, whose devices have no MAC address.
	MAC string
	// ParentAddress is the node's first address in the family of IPVersion. Other nodes send their
	// encapsulated packets to it.
	ParentAddress netip.Addr
	// Local means that the device is on this node.
	Local bool
}

// TunnelKey identifies a tunnel endpoint. Keys are comparable; Compare orders them.
type TunnelKey struct {
	// Node that the device is on.
	Node string
	// IPVersion is 4 or 6.
	IPVersion int
	// Encapsulation is the protocol of the tunnel. Zero is EncapVXLAN.
	Encapsulation Encapsulation
}

// Key returns the tunnel's identity.
func (t *Tunnel) Key() TunnelKey {
	return TunnelKey{Node: t.Node, IPVersion: t.IPVersion, Encapsulation: t.Encapsulation}
}

// Compare orders keys by node, then by IP version, and then by encapsulation.
func (k TunnelKey) Compare(o TunnelKey) int {
	return cmp.Or(
		cmp.Compare(k.Node, o.Node), cmp.Compare(k.IPVersion, o.IPVersion),
		cmp.Compare(k.Encapsulation, o.Encapsulation),
	)
}

// Equal reports whether the two tunnel endpoints are the same. A nil Tunnel equals only nil.
func (t *Tunnel) Equal(o *Tunnel) bool { return equalValues(t, o) }

// String returns "node/v4" or "node/v6" for VXLAN, "node/v4/ipip" for IP in IP.
func (k TunnelKey) String() string {
	s := k.Node + "/v" + strconv.Itoa(k.IPVersion)
	if k.Encapsulation != EncapVXLAN {
		s += "/" + k.Encapsulation.String()
	}
	return s
}

// String returns the tunnel endpoint in one line, as in "n2/v4 10.0.1.1 mac 66:3e:ca:a4:db:65
// parent 192.168.0.2 local" or "n2/v4/ipip 10.0.1.1 parent 192.168.0.2".
func (t *Tunnel) String() string {
	if t == nil {
		return "nil"
	}
	w := words{t.Key().String(), t.Address.String()}
	w.addIf(t.MAC != "", "mac "+t.MAC)
	w = append(w, "parent "+t.ParentAddress.String())
	w.addIf(t.Local, "local")
	return w.String()
}

// ofTunnel returns the position of an event of a tunnel endpoint.
func ofTunnel(s step, k TunnelKey) position {
	device := 10*k.IPVersion + int(k.Encapsulation) // in the order of Compare
	return keyed(s, policy.Key{Kind: "tunnel", Namespace: k.Node, Name: strconv.Itoa(device)})
}

// TunnelRemove removes a tunnel endpoint. After the batch, no route leads through it.
type TunnelRemove struct {
	Key TunnelKey
}

// TunnelUpdate adds or replaces a tunnel endpoint.
type TunnelUpdate struct {
	Tunnel *Tunnel
}
