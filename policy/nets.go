// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
)

// Nets is a list of prefixes. In JSON it is a list of strings as ParseNet reads them. Readers
// may share a list that nobody changes.
type Nets []netip.Prefix

// ParseNet reads a prefix in its canonical form. A bare address becomes a full-length
// prefix, host bits are cleared (12.1.0.0/8 is 12.0.0.0/8), and an IPv4-mapped IPv6
// prefix becomes the IPv4 prefix that it stands for. It returns an error for anything that is no
// prefix, for zones ("fe80::1%eth0"), and for a mapped address with less than 96 bits,
// which stands for no IPv4 prefix.
func ParseNet(s string) (netip.Prefix, error) {
	p, ok := parsePrefix(s)
	if !ok {
		return netip.Prefix{}, fmt.Errorf("policy: parse net %q: want an address or a prefix, as in \"10.1.0.0/16\"",
			clip(s))
	}
	c := canonicalNet(p)
	if why := netProblem(c); why != "" {
		return netip.Prefix{}, fmt.Errorf("policy: parse net %q: %s", clip(s), why)
	}
	return c, nil
}

// UnmarshalJSON reads a list of strings as ParseNet does. Null is an error.
func (n *Nets) UnmarshalJSON(data []byte) error {
	return unmarshal(data, n)
}

// MarshalJSON writes a list of strings; nil is an empty list. It never fails.
func (n Nets) MarshalJSON() ([]byte, error) {
	out := make([]string, len(n))
	for i, p := range n {
		out[i] = p.String()
	}
	return json.Marshal(out)
}

// parsePrefix reads a prefix or a bare address as it stands.
func parsePrefix(s string) (netip.Prefix, bool) {
	if strings.Contains(s, "/") {
		p, err := netip.ParsePrefix(s)
		return p, err == nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, a.BitLen()), true
}

// canonicalNet unmaps and masks p where that is possible, and otherwise returns it as it is.
func canonicalNet(p netip.Prefix) netip.Prefix {
	p = unmapNet(p)
	if !p.IsValid() || p.Addr().Is4In6() {
		return p
	}
	return p.Masked()
}

// unmapNet makes an IPv4-mapped prefix the IPv4 one that it stands for, where it does. Host bits
// stay.
func unmapNet(p netip.Prefix) netip.Prefix {
	if !p.IsValid() || !p.Addr().Is4In6() || p.Bits() < 96 {
		return p
	}
	return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
}

// netProblem says what is wrong with a prefix that should be canonical, or "".
func netProblem(p netip.Prefix) string {
	switch {
	case !p.IsValid():
		return "no prefix"
	case p.Addr().Is4In6() && p.Bits() < 96:
		return "an IPv4-mapped prefix needs at least 96 bits"
	case p != canonicalNet(p):
		return fmt.Sprintf("%s is not canonical, which is %s (see Canonical)", p, canonicalNet(p))
	}
	return ""
}

// clip shortens text from outside for an error message.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

// unmap makes an IPv4-mapped address the IPv4 one that it stands for. With a zone it stands for
// none.
func unmap(a netip.Addr) netip.Addr {
	if a.Zone() != "" {
		return a
	}
	return a.Unmap()
}
