// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
)

// Nets is a list of prefixes. In JSON, it is a list of strings: see ParseNet.
type Nets []netip.Prefix

// ParseNet parses a prefix and returns its canonical form. An address without a length becomes a
// full-length prefix, host bits are cleared (12.1.0.0/8 becomes 12.0.0.0/8), and an IPv4-mapped
// IPv6 prefix becomes an IPv4 prefix. It returns an error for other text, and for a zone
// ("fe80::1%eth0"). It also returns an error for an IPv4-mapped prefix shorter than 96 bits,
// because such a prefix has no IPv4 form.
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

// UnmarshalJSON decodes a list of strings with ParseNet. Null is an error.
func (n *Nets) UnmarshalJSON(data []byte) error {
	return unmarshal(data, n)
}

// MarshalJSON encodes the nets as a list of strings. Nil becomes an empty list. MarshalJSON never
// fails.
func (n Nets) MarshalJSON() ([]byte, error) {
	out := make([]string, len(n))
	for i, p := range n {
		out[i] = p.String()
	}
	return json.Marshal(out)
}

// parsePrefix parses a prefix, or an address as a full-length prefix.
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

// canonicalNet returns the canonical form of p, or p if it has none.
func canonicalNet(p netip.Prefix) netip.Prefix {
	p = unmapNet(p)
	if !p.IsValid() || p.Addr().Is4In6() {
		return p
	}
	return p.Masked()
}

// unmapNet converts an IPv4-mapped prefix to an IPv4 prefix, if that exists. It keeps host bits.
func unmapNet(p netip.Prefix) netip.Prefix {
	if !p.IsValid() || !p.Addr().Is4In6() || p.Bits() < 96 {
		return p
	}
	return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
}

// netProblem returns why a prefix is not canonical, or "".
func netProblem(p netip.Prefix) string {
	switch {
	case !p.IsValid():
		return "not a prefix"
	case p.Addr().Is4In6() && p.Bits() < 96:
		return "an IPv4-mapped prefix needs at least 96 bits"
	case p != canonicalNet(p):
		return fmt.Sprintf("%s is not canonical: want %s (see Canonical)", p, canonicalNet(p))
	}
	return ""
}

// clip truncates a text for an error message.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

// unmap converts an IPv4-mapped address to an IPv4 address. An address with a zone has no IPv4
// form.
func unmap(a netip.Addr) netip.Addr {
	if a.Zone() != "" {
		return a
	}
	return a.Unmap()
}
