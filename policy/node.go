// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Node is a machine of the cluster.
type Node struct {
	// Name of the node. Required.
	Name string `json:"name"`
	// Addresses of the node, without duplicates, each with the length of its subnet, as in
	// "192.168.0.5/24". They keep their host bits. Routes to the node use the first address of each
	// family. If an address in JSON has no length, it gets the full length (/32, /128), so that
	// every other node is in another subnet. Empty means that the node is not reachable.
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	// IPv4VXLANTunnelAddr is the address of the node's IPv4 VXLAN device. The zero Addr means that
	// the node has no such device, and JSON omits it. A tunnel address that is also in Addresses
	// counts as zero. All this also holds for the next four addresses.
	IPv4VXLANTunnelAddr netip.Addr `json:"ipv4VXLANTunnelAddr,omitzero"`
	// IPv6VXLANTunnelAddr is the address of the node's IPv6 VXLAN device.
	IPv6VXLANTunnelAddr netip.Addr `json:"ipv6VXLANTunnelAddr,omitzero"`
	// IPv4IPIPTunnelAddr is the address of the node's IP-in-IP device. It may equal
	// IPv4VXLANTunnelAddr.
	IPv4IPIPTunnelAddr netip.Addr `json:"ipv4IPIPTunnelAddr,omitzero"`
	// IPv4WireguardAddr and IPv6WireguardAddr are the addresses of the node's WireGuard devices.
	// The node's own processes use them as source addresses when they send to workloads of other
	// nodes. They may equal addresses of other tunnel devices.
	IPv4WireguardAddr netip.Addr `json:"ipv4WireguardAddr,omitzero"`
	IPv6WireguardAddr netip.Addr `json:"ipv6WireguardAddr,omitzero"`
	// WireguardKeys are the keys of the node's WireGuard devices, at most two. To encrypt their
	// traffic, two nodes use either the first key of each node or the second key of each. Empty
	// means that the node does not encrypt.
	WireguardKeys []WireguardKey `json:"wireguardKeys,omitempty"`
	// VXLANTunnelMACAddr is the MAC address of the IPv4 VXLAN device, as in "66:3e:ca:a4:db:65".
	// Empty means an address that is derived from the name of the node.
	VXLANTunnelMACAddr string `json:"vxlanTunnelMACAddr,omitempty"`
	// VXLANTunnelMACAddrV6 is the MAC address of the IPv6 VXLAN device. Empty means an address that
	// is derived from the name of the node.
	VXLANTunnelMACAddrV6 string `json:"vxlanTunnelMACAddrV6,omitempty"`
	// Labels of the node. Selectors of policies do not match them: a HostEndpoint has labels of its
	// own. Empty means none.
	Labels map[string]string `json:"labels,omitempty"`
}

// WireguardKey is the public key of a WireGuard device of a node.
//
// If the zero WireguardKey is the only entry of Node.WireguardKeys, the node has announced keys,
// but they are invalid. Then other nodes drop packets to the node instead of sending them
// unencrypted.
type WireguardKey struct {
	// PublicKey is the public key of the device: 32 bytes in base64, as wg prints it.
	PublicKey string `json:"publicKey"`
	// Port is the UDP port of the device.
	Port uint16 `json:"port"`
	// Rotating means that the node is about to replace this key. Other nodes then use the other key
	// in Node.WireguardKeys, until the node announces the new key with Rotating false.
	Rotating bool `json:"rotating,omitempty"`
}

// MaxWireguardKeys is the maximum number of keys of a node.
const MaxWireguardKeys = 2

// String returns "KEY:PORT" or "KEY:PORT:rotating"; see ParseWireguardKey.
func (k WireguardKey) String() string {
	s := k.PublicKey + ":" + strconv.Itoa(int(k.Port))
	if k.Rotating {
		s += ":rotating"
	}
	return s
}

// ParseWireguardKey parses the text that String returns, also with white space around it. It does
// not validate the key.
func ParseWireguardKey(text string) (WireguardKey, error) {
	key, rest, _ := strings.Cut(strings.TrimSpace(text), ":")
	port, rotating, marked := strings.Cut(rest, ":")
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || marked && rotating != "rotating" {
		return WireguardKey{}, fmt.Errorf("policy: %q is not KEY:PORT or KEY:PORT:rotating", text)
	}
	return WireguardKey{PublicKey: key, Port: uint16(number), Rotating: marked}, nil
}

// Key returns the node's key.
func (n *Node) Key() Key { return Key{Kind: KindNode, Name: n.Name} }

// TunnelAddresses returns the addresses of all tunnel devices of the node. If the node lacks a
// device, the result has the zero Addr in its place.
func (n *Node) TunnelAddresses() []netip.Addr {
	return []netip.Addr{
		n.IPv4VXLANTunnelAddr, n.IPv6VXLANTunnelAddr, n.IPv4IPIPTunnelAddr, n.IPv4WireguardAddr, n.IPv6WireguardAddr,
	}
}

func (*Node) resource() {}

// Validate reports all problems of the node as one *ValidationError, or nil.
func (n *Node) Validate() error {
	v := &validator{}
	v.name("name", n.Name)
	v.nodeAddresses(n.Addresses)
	v.tunnelAddress("ipv4VXLANTunnelAddr", n.IPv4VXLANTunnelAddr, 4)
	v.tunnelAddress("ipv6VXLANTunnelAddr", n.IPv6VXLANTunnelAddr, 6)
	v.tunnelAddress("ipv4IPIPTunnelAddr", n.IPv4IPIPTunnelAddr, 4)
	v.tunnelAddress("ipv4WireguardAddr", n.IPv4WireguardAddr, 4)
	v.tunnelAddress("ipv6WireguardAddr", n.IPv6WireguardAddr, 6)
	v.wireguardKeys(n.WireguardKeys)
	for _, mac := range []struct{ field, s string }{
		{"vxlanTunnelMACAddr", n.VXLANTunnelMACAddr},
		{"vxlanTunnelMACAddrV6", n.VXLANTunnelMACAddrV6},
	} {
		if why := macProblem(mac.s); mac.s != "" && why != "" {
			v.add(mac.field, "%s", why)
		}
	}
	v.labels("labels", n.Labels)
	return v.err(n.Key())
}

func (n *Node) canonicalize() {
	n.VXLANTunnelMACAddr = strings.ToLower(n.VXLANTunnelMACAddr)
	n.VXLANTunnelMACAddrV6 = strings.ToLower(n.VXLANTunnelMACAddrV6)
}

// nodeAddresses checks addresses with the lengths of their subnets.
func (v *validator) nodeAddresses(addrs []netip.Prefix) {
	if !v.atMost("addresses", len(addrs), maxAddresses) {
		return
	}
	seen := map[netip.Addr]bool{}
	for i, p := range addrs {
		why := addressProblem(p.Addr())
		switch {
		case !p.IsValid():
			why = "want an address with the length of its subnet"
		case seen[p.Addr()]:
			why = "given twice"
		}
		if why != "" {
			v.add(index("addresses", i), "%s: %s", p, why)
		}
		seen[p.Addr()] = true
	}
}

// wireguardKeys checks keys and ports. Duplicates are invalid.
func (v *validator) wireguardKeys(keys []WireguardKey) {
	unreadable := len(keys) == 1 && keys[0] == WireguardKey{}
	if !v.atMost("wireguardKeys", len(keys), MaxWireguardKeys) || unreadable {
		return
	}
	for i, k := range keys {
		at := index("wireguardKeys", i)
		if why := wireguardKeyProblem(k.PublicKey); why != "" {
			v.add(at+".publicKey", "%s", why)
		}
		if k.Port == 0 {
			v.add(at+".port", "want 1 to 65535")
		}
		for _, other := range keys[:i] {
			if k.PublicKey == other.PublicKey || k.Port == other.Port {
				v.add(at, "another device has the same key or port")
			}
		}
	}
}

// wireguardKeyProblem returns why a text is not a public key, or "". The zero key is not one: the
// kernel refuses it.
func wireguardKeyProblem(text string) string {
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	lineBreak := strings.ContainsAny(text, "\r\n") // the base64 decoder ignores line breaks
	if err != nil || lineBreak || len(key) != 32 || [32]byte(key) == [32]byte{} {
		return "want a key of 32 bytes in base64"
	}
	return ""
}

// tunnelAddress checks an optional address of one family.
func (v *validator) tunnelAddress(field string, a netip.Addr, version int) {
	if !a.IsValid() {
		return
	}
	why := addressProblem(a)
	if why == "" && a.Is4() != (version == 4) {
		why = "of the other family"
	}
	if why != "" {
		v.add(field, "%s: %s", a, why)
	}
}
