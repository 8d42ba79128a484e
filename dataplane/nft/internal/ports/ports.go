// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Config configures the table.
type Config struct {
	// Table is the name of the table. A table of family bridge may have the same name as one of
	// another family.
	Table string
	// InterfacePrefix is the prefix of the names of workload interfaces, which are ports of a
	// bridge.
	InterfacePrefix string
	// AcceptUnknown concerns ports whose names begin with InterfacePrefix, but which belong to no
	// endpoint. By default, all their frames are dropped. If AcceptUnknown is set, the table
	// filters their frames like the frames of ports without the prefix.
	AcceptUnknown bool
}

// MAC is an Ethernet address.
type MAC [6]byte

// Port is the port of a bridge that belongs to an endpoint.
type Port struct {
	// Addresses are the addresses from which the port may send.
	Addresses []netip.Addr
	// Withheld are addresses that belong to the port, but from which it may not send yet. No other
	// port may use them either.
	Withheld []netip.Addr
	// MAC is the only source address that frames from the port may have. Zero allows all.
	MAC MAC
	// Drop drops all frames from the port. Other ports still may not use its addresses.
	Drop bool
}

// Table returns the table for the ports of endpoints, by the names of the ports.
//
// The parameter host has the addresses that the host has on its bridges. The table uses only the
// link-local IPv6 addresses among them: a workload may send from any link-local address except
// these. The table need not know the host's other addresses. Apart from link-local addresses and
// the unspecified address, a workload can send only from the addresses of its port.
func Table(cfg Config, all map[string]Port, host []netip.Addr) *ruleset.Table {
	elements := map[string][]ruleset.Element{}
	add := func(set string, v *ruleset.Verdict, key ...ruleset.Value) {
		elements[set] = append(elements[set], sets.Element(v, key...))
	}
	for name, p := range all {
		p.elements(name, add)
	}
	for _, a := range distinct(host) {
		if a.Is6() && a.IsLinkLocalUnicast() {
			add(setHostLocal, nil, ruleset.Addr(a))
		}
	}
	t := &ruleset.Table{
		Family: ruleset.FamilyBridge, Name: cfg.Table, Chains: chains(&cfg), Sets: []*ruleset.Set{linkLocal()},
	}
	for _, set := range heads() {
		set.Elements = elements[set.Name]
		t.Sets = append(t.Sets, &set)
	}
	t.Normalize()
	for _, set := range t.Sets { // two ports may have the same address
		set.Elements = slices.CompactFunc(set.Elements, ruleset.Element.Equal)
	}
	return t
}

// elements adds the elements of the port with the name.
func (p *Port) elements(name string, add func(set string, v *ruleset.Verdict, key ...ruleset.Value)) {
	port, to := ruleset.Ifname(name), build.Goto(chainPort)
	switch {
	case p.Drop:
		to = build.Drop()
	case p.MAC != MAC{}:
		to = build.Goto(chainMAC)
		add(setMACs, nil, port, p.MAC[:])
	}
	add(setPorts, &to, port)
	for _, a := range distinct(p.Addresses, p.Withheld) {
		owned, allowed := setOwned6, setAddresses6
		if a.Is4() {
			owned, allowed = setOwned4, setAddresses4
		}
		add(owned, nil, ruleset.Addr(a))
		if !p.Drop && !slices.Contains(p.Withheld, a) {
			add(allowed, nil, port, ruleset.Addr(a))
		}
	}
}

// distinct returns the addresses of all lists, sorted and without duplicates.
func distinct(lists ...[]netip.Addr) []netip.Addr {
	all := slices.Concat(lists...)
	for i := range all {
		all[i] = all[i].Unmap().WithZone("")
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}
