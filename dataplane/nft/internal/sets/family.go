// SPDX-License-Identifier: Apache-2.0

package sets

import (
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Family is an IP version. Its value is the number in names.
type Family int

// The families. AnyFamily is for rules that are the same for both IP versions.
const (
	AnyFamily Family = 0
	IPv4      Family = 4
	IPv6      Family = 6
)

// Families returns both IP versions.
func Families() []Family { return []Family{IPv4, IPv6} }

// FamilyOf returns the family of an address.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

// AddrType returns the type that an address of the family has in the key of a set.
func AddrType(f Family) ruleset.Type {
	if f == IPv4 {
		return ruleset.TypeIPv4
	}
	return ruleset.TypeIPv6
}

// PrefixesOf returns the prefixes of one family, without host bits.
func PrefixesOf(f Family, nets []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, n := range nets {
		if FamilyOf(n.Addr()) == f {
			out = append(out, n.Masked())
		}
	}
	return out
}
