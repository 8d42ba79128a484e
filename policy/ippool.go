// SPDX-License-Identifier: Apache-2.0

package policy

import "net/netip"

// IPPool is a range of addresses that workloads get theirs from. Readers may share an IPPool
// that nobody changes.
type IPPool struct {
	// Name of the pool. Required.
	Name string `json:"name"`
	// CIDR of the pool, without addresses that are link-local, multicast or loopback. Required.
	CIDR netip.Prefix `json:"cidr"`
	// VXLANMode says when traffic between nodes for the pool is encapsulated in VXLAN. Empty
	// means Never.
	VXLANMode EncapMode `json:"vxlanMode,omitempty"`
	// IPIPMode says the same of IP in IP, which is for IPv4 alone. Empty means Never. One of
	// VXLANMode and IPIPMode must be Never.
	IPIPMode EncapMode `json:"ipipMode,omitempty"`
	// NATOutgoing translates the source of what workloads of the pool send to addresses
	// outside all pools to that of their node. False, the default, leaves it alone.
	NATOutgoing bool `json:"natOutgoing,omitempty"`
	// Disabled pools give out no new addresses; what is said of their addresses still counts.
	// False is the default.
	Disabled bool `json:"disabled,omitempty"`
}

// EncapMode says when traffic between nodes is encapsulated; see Encapsulates. It is a plain
// value and safe for concurrent use.
type EncapMode string

// The modes.
const (
	// EncapNever routes without encapsulation.
	EncapNever EncapMode = "Never"
	// EncapAlways encapsulates to every other node.
	EncapAlways EncapMode = "Always"
	// EncapCrossSubnet encapsulates only to nodes that are in another subnet, as the lengths of the
	// nodes' addresses say.
	EncapCrossSubnet EncapMode = "CrossSubnet"
)

// Key returns the pool's identity.
func (p *IPPool) Key() Key { return Key{Kind: KindIPPool, Name: p.Name} }

// Validate reports every problem of the pool as one *ValidationError, or nil.
func (p *IPPool) Validate() error {
	v := &validator{}
	v.name("name", p.Name)
	v.poolCIDR(p.CIDR)
	v.encapMode("vxlanMode", p.VXLANMode)
	v.encapMode("ipipMode", p.IPIPMode)
	if p.IPIPMode.Encapsulates() {
		if p.VXLANMode.Encapsulates() {
			v.add("ipipMode", "excludes vxlanMode: one of them must be Never")
		}
		if p.CIDR.Addr().Is6() {
			v.add("ipipMode", "IP in IP is for IPv4 alone")
		}
	}
	return v.err(p.Key())
}

func (p *IPPool) equal(other Resource) bool {
	o, ok := other.(*IPPool)
	return ok && *p == *o
}

// poolCIDR refuses what holds addresses that no workload may have, as link-local ones are of the
// interface that they are on.
func (v *validator) poolCIDR(cidr netip.Prefix) {
	if !v.cidr(cidr) {
		return
	}
	for _, s := range []struct{ prefix, name string }{
		{"169.254.0.0/16", "link-local"},
		{"fe80::/10", "link-local"},
		{"224.0.0.0/4", "multicast"},
		{"ff00::/8", "multicast"},
		{"127.0.0.0/8", "loopback"},
		{"::1/128", "loopback"},
	} {
		if p, err := netip.ParsePrefix(s.prefix); err == nil && p.Overlaps(cidr) {
			v.add("cidr", "%s has addresses of %s, which are %s", cidr, s.prefix, s.name)
		}
	}
}

func (v *validator) encapMode(field string, m EncapMode) {
	switch m {
	case "", EncapNever, EncapAlways, EncapCrossSubnet:
	default:
		v.add(field, "want Never, Always or CrossSubnet, not %q", clip(string(m)))
	}
}

// cidr checks a required prefix.
func (v *validator) cidr(cidr netip.Prefix) bool {
	why := netProblem(cidr)
	if cidr == (netip.Prefix{}) {
		why = "required"
	}
	if why != "" {
		v.add("cidr", "%s", why)
	}
	return why == ""
}

// Encapsulates reports whether any traffic is encapsulated: not where the mode is Never, which is
// what an empty one means, and not where it is one that does not exist.
func (m EncapMode) Encapsulates() bool { return m == EncapAlways || m == EncapCrossSubnet }
