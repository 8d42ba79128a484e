// SPDX-License-Identifier: Apache-2.0

package flowtable

import (
	"cmp"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

const (
	flowtableName = "fast"
	setUplinks    = "uplinks"
	// priority is after the forward chains of other tables (NF_IP_PRI_FILTER is 0). So a packet
	// that these drop does not put its connection on the fast path.
	priority = 10_000
)

// setOwn returns the name of the set of own addresses of a family, with their interfaces.
func setOwn(f sets.Family) string {
	if f == sets.IPv4 {
		return "own4"
	}
	return "own6"
}

// rules returns the table. A packet of an established connection puts the connection on the fast
// path in two cases. Either both ends are own addresses of workloads, or one end is an own address
// of a workload and the other end is an uplink. Both directions of a connection match, or neither
// does.
func rules(table string, uplinks []string, own []Address, devices []string) *ruleset.Table {
	chain := &ruleset.Chain{
		Name: "forward", Hook: &ruleset.Hook{Point: ruleset.Forward, Priority: priority, Policy: build.Accept()},
	}
	all := &ruleset.Set{Name: setUplinks, Key: []ruleset.Type{ruleset.TypeIfname}}
	for _, name := range uplinks {
		all.Elements = append(all.Elements, sets.Element(nil, ruleset.Ifname(name)))
	}
	t := &ruleset.Table{
		Name: table, Sets: []*ruleset.Set{all}, Chains: []*ruleset.Chain{chain},
		Flowtables: []*ruleset.Flowtable{{Name: flowtableName, Devices: devices, Counter: true}},
	}
	fromUplink, toUplink := build.InSet(setUplinks, ruleset.IIFName), build.InSet(setUplinks, ruleset.OIFName)
	for _, f := range sets.Families() {
		address := ruleset.TypeIPv4
		if f == sets.IPv6 {
			address = ruleset.TypeIPv6
		}
		t.Sets = append(t.Sets, &ruleset.Set{
			Name: setOwn(f), Key: []ruleset.Type{ruleset.TypeIfname, address}, Elements: elements(own, f),
		})
		from := build.InSet(setOwn(f), ruleset.IIFName, match.Saddr(f))
		to := build.InSet(setOwn(f), ruleset.OIFName, match.Daddr(f))
		for _, ends := range [][]ruleset.Match{{from, toUplink}, {fromUplink, to}, {from, to}} {
			chain.Rules = append(chain.Rules, ruleset.Rule{
				Matches:    append([]ruleset.Match{match.OfFamily(f), build.State(ruleset.CtEstablished)}, ends...),
				Statements: []ruleset.Statement{ruleset.FlowAdd{Flowtable: flowtableName}},
			})
		}
	}
	return t
}

// elements returns the addresses of a family as elements, in order and without duplicates.
func elements(own []Address, f sets.Family) (out []ruleset.Element) {
	all := slices.SortedFunc(slices.Values(own), func(a, b Address) int {
		return cmp.Or(cmp.Compare(a.Interface, b.Interface), a.Addr.Compare(b.Addr))
	})
	for _, a := range slices.Compact(all) {
		if sets.FamilyOf(a.Addr) == f {
			out = append(out, sets.Element(nil, ruleset.Ifname(a.Interface), ruleset.Addr(a.Addr)))
		}
	}
	return out
}
