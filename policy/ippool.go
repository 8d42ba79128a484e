// SPDX-License-Identifier: Apache-2.0

package policy

import "net/netip"

// IPPool is a prefix from which workloads get their addresses.
type IPPool struct {
	// Name of the pool. Required.
	Name string `json:"name"`
	// CIDR is the prefix of the pool. It must not contain link-local, multicast or loopback
	// addresses. Required.
	CIDR netip.Prefix `json:"cidr"`
	// VXLANMode determines which packets to addresses of the pool are encapsulated in VXLAN on
	// their way to another node. Empty means Never.
	VXLANMode EncapMode `json:"vxlanMode,omitempty"`
	// IPIPMode determines which packets to addresses of the pool are encapsulated in IP in IP on
	// their way to another node. It is for IPv4 only. Empty means Never. At least one of VXLANMode
	// and IPIPMode must be Never.
	IPIPMode EncapMode `json:"ipipMode,omitempty"`
	// NATOutgoing means source NAT for packets from workloads of the pool to addresses outside all
	// pools. The node replaces the source by an address of its own. False is the default.
	NATOutgoing bool `json:"natOutgoing,omitempty"`
	// Disabled means that no new addresses are allocated from the pool. Existing addresses are
	// routed as before. False is the default.
	Disabled bool `json:"disabled,omitempty"`
}

// EncapMode determines which traffic between nodes is encapsulated.
type EncapMode string

// The modes.
const (
	// EncapNever routes without encapsulation.
	EncapNever EncapMode = "Never"
	// EncapAlways encapsulates packets to every other node.
	EncapAlways EncapMode = "Always"
	// EncapCrossSubnet encapsulates only packets to nodes in another subnet. The prefix lengths of
	// the nodes' addresses determine the subnets.
	EncapCrossSubnet EncapMode = "CrossSubnet"
)

// Key returns the pool's key.
func (p *IPPool) Key() Key { return Key{Kind: KindIPPool, Name: p.Name} }

func (*IPPool) resource() {}

// Validate reports all problems of the pool as one *ValidationError, or nil.
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
			v.add("ipipMode", "IP in IP supports IPv4 only")
		}
	}
	return v.err(p.Key())
}

// poolCIDR refuses prefixes with addresses that no workload can have, for example link-local ones,
// which are valid on one link only.
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

// Encapsulates reports whether any traffic is encapsulated. It returns false for Never, for an
// empty mode and for an unknown mode.
func (m EncapMode) Encapsulates() bool { return m == EncapAlways || m == EncapCrossSubnet }
