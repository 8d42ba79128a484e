// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Config configures a Renderer.
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

// Renderer renders the table.
type Renderer struct {
	cfg    Config
	chains []*ruleset.Chain
	// sets has the sets and maps in the order of their names.
	sets []*sets.ElementSet
	// ports has the elements of each port.
	ports map[string][]element
	// uses has the number of ports with each element, because two ports may have the same address.
	uses  map[elementID]int
	fresh bool // no delta has been flushed yet
}

// element is an element of one of the sets.
type element struct {
	set *sets.ElementSet
	ruleset.Element
}

// elementID identifies an element.
type elementID struct {
	set *sets.ElementSet
	key string
}

func (e *element) id() elementID { return elementID{e.set, sets.ElementKey(e.Element)} }

// New returns a Renderer without ports.
func New(cfg Config) *Renderer {
	r := &Renderer{cfg: cfg, ports: map[string][]element{}, uses: map[elementID]int{}, fresh: true}
	r.chains = chains(&cfg)
	for _, head := range heads() {
		s := sets.NewElementSet(head)
		s.Wanted = true
		r.sets = append(r.sets, s)
	}
	return r
}

// set returns the set with the name, which must exist.
func (r *Renderer) set(name string) *sets.ElementSet {
	i := slices.IndexFunc(r.sets, func(s *sets.ElementSet) bool { return s.Name() == name })
	return r.sets[i]
}

// SetPort replaces the port of an endpoint. Nil removes it.
func (r *Renderer) SetPort(name string, p *Port) {
	old := r.ports[name]
	now := r.elements(name, p)
	if now == nil {
		delete(r.ports, name)
	} else {
		r.ports[name] = now
	}
	for i := range now {
		r.uses[now[i].id()]++
		now[i].set.Put(now[i].Element)
	}
	for i := range old {
		id := old[i].id()
		if r.uses[id]--; r.uses[id] == 0 {
			delete(r.uses, id)
			old[i].set.Remove(id.key)
		}
	}
}

// Ports returns the number of ports.
func (r *Renderer) Ports() int { return len(r.ports) }

// elements returns the elements of a port, without duplicates.
func (r *Renderer) elements(name string, p *Port) (out []element) {
	if p == nil {
		return nil
	}
	add := func(set string, v *ruleset.Verdict, key ...ruleset.Value) {
		out = append(out, element{r.set(set), sets.Element(v, key...)})
	}
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
	return out
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

// SetHost sets the addresses that the host has on its bridges. The table uses only the link-local
// IPv6 addresses among them: a workload may send from any link-local address except these. The
// table need not know the host's other addresses. Apart from link-local addresses and the
// unspecified address, a workload can send only from the addresses that SetPort has allowed for its
// port.
func (r *Renderer) SetHost(addresses []netip.Addr) {
	var elements []ruleset.Element
	for _, a := range distinct(addresses) {
		if a.Is6() && a.IsLinkLocalUnicast() {
			elements = append(elements, sets.Element(nil, ruleset.Addr(a)))
		}
	}
	r.set(setHostLocal).Replace(elements)
}

// Flush returns the changes of the table since the last call. The first call returns the whole
// table.
func (r *Renderer) Flush() *ruleset.Delta {
	d := &ruleset.Delta{}
	if r.fresh {
		d.Chains, r.fresh = r.chains, false
		d.Sets = append(d.Sets, linkLocal())
	}
	for _, s := range r.sets {
		s.Flush(d)
	}
	return d
}

// Table returns the table with all changes, including those that were not flushed.
func (r *Renderer) Table() *ruleset.Table {
	t := &ruleset.Table{
		Family: ruleset.FamilyBridge, Name: r.cfg.Table, Chains: slices.Clone(r.chains),
		Sets: []*ruleset.Set{linkLocal()},
	}
	for _, s := range r.sets {
		t.Sets = append(t.Sets, s.Kernel())
	}
	t.Normalize()
	return t
}
