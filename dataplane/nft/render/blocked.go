// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// setBlocked returns the name of the set of addresses of endpoints whose interface is a port of a
// master (S170).
func setBlocked(f sets.Family) string { return familyName("blocked", f) }

// blocked has the addresses of endpoints whose interfaces are ports of a master, such as a bond.
// The hooks see their packets with the interface of the master, so policy cannot see which endpoint
// they belong to. These packets are dropped.
type blocked struct {
	table      *table
	interfaces *interfaces
	// names has the interfaces of the endpoints whose addresses are in the sets.
	names map[string]struct{}
	ports ports
}

// ports has the data that the base chains use about endpoints whose interfaces are ports of a
// master.
type ports struct {
	// families are the families with blocked addresses.
	families []sets.Family
	// uppers are the masters of such ports that are themselves interfaces of endpoints.
	uppers []string
}

func (p ports) equal(o ports) bool {
	return slices.Equal(p.families, o.families) && slices.Equal(p.uppers, o.uppers)
}

// masterSets returns the sets of blocked addresses, without elements.
func masterSets() (out []*sets.ElementSet) {
	for _, f := range sets.Families() {
		out = append(out, sets.NewElementSet(ruleset.Set{Name: setBlocked(f), Key: []ruleset.Type{sets.AddrType(f)}}))
	}
	return out
}

// update updates the sets of blocked addresses.
func (b *blocked) update() {
	had := len(b.names) > 0
	for name := range b.interfaces.dirty.objects {
		if b.interfaces.blocked(name) {
			b.names[name] = struct{}{}
		} else {
			delete(b.names, name)
		}
	}
	if len(b.interfaces.dirty.objects) == 0 || !had && len(b.names) == 0 {
		return
	}
	addresses := map[sets.Family][]ruleset.Element{}
	uppers := map[string]struct{}{}
	for name := range b.names {
		if upper := b.interfaces.masters[name].Name; b.interfaces.has(upper) && ruleset.ValidIfname(upper) {
			uppers[upper] = struct{}{}
		}
		for s := range b.interfaces.byName[name].claims {
			for _, a := range s.workload.Addresses {
				if validAddress(a) {
					f := sets.FamilyOf(a)
					addresses[f] = append(addresses[f], sets.Element(nil, ruleset.Addr(a)))
				}
			}
		}
	}
	b.ports = ports{uppers: slices.Sorted(maps.Keys(uppers))}
	for _, f := range sets.Families() {
		set := b.table.elements[setBlocked(f)]
		set.Replace(addresses[f])
		set.Wanted = len(addresses[f]) > 0
		if set.Wanted {
			b.ports.families = append(b.ports.families, f)
		}
	}
}
