// SPDX-License-Identifier: Apache-2.0

package render

import (
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// The sets of the addresses of endpoints that are down or at fault. They lack addresses that an
// endpoint in endpoints-up has too.
const (
	setDown4 = "endpoints-down4"
	setDown6 = "endpoints-down6"
)

func setDown(f sets.Family) string {
	if f == sets.IPv6 {
		return setDown6
	}
	return setDown4
}

// downSets returns the sets of addresses of endpoints that are not up, empty.
func downSets() (out []*sets.ElementSet) {
	for _, f := range sets.Families() {
		out = append(out, sets.NewElementSet(ruleset.Set{Name: setDown(f), Key: []ruleset.Type{sets.AddrType(f)}}))
	}
	return out
}

// addressUse counts the interfaces with an address by the state of their endpoints.
type addressUse struct{ up, down int }

// countAddress adds n, 1 or -1, to the number of interfaces with an address, and updates the set.
func (i *interfaces) countAddress(a netip.Addr, up bool, n int) {
	use := i.addresses[a]
	if up {
		use.up += n
	} else {
		use.down += n
	}
	set := i.table.elements[setDown(sets.FamilyOf(a))]
	element := sets.Element(nil, ruleset.Addr(a))
	if use.down > 0 && use.up == 0 {
		set.Put(element)
	} else {
		set.Remove(sets.ElementKey(element))
	}
	if i.addresses[a] = use; use == (addressUse{}) {
		delete(i.addresses, a)
	}
}

// countAddresses replaces the counted addresses of an interface by those of the endpoints that now
// claim it.
func (i *interfaces) countAddresses(x *iface) {
	for _, a := range x.addresses {
		i.countAddress(a, x.up, -1)
	}
	x.addresses, x.up = x.addresses[:0], false
	for s := range x.claims {
		x.up = s.ok
		for _, a := range s.workload.Addresses {
			if validAddress(a) {
				x.addresses = append(x.addresses, a)
			}
		}
	}
	for _, a := range x.addresses {
		i.countAddress(a, x.up, 1)
	}
}

// translatedOutput returns the chain for packets of the host's own processes whose destination was
// translated. In the hook output they still have the interface of the original destination. So the
// rules look up their new destination.
func (b *baseChains) translatedOutput() *ruleset.Chain {
	c := &ruleset.Chain{Name: chainOutputTranslated}
	for _, f := range sets.Families() {
		c.Rules = append(c.Rules, b.statements.refusal(
			"endpoint down or at fault", match.OfFamily(f), build.InSet(setDown(f), match.Daddr(f)),
		))
	}
	c.Rules = append(c.Rules, build.Always(build.Accept()))
	return c
}
