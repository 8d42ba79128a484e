// SPDX-License-Identifier: Apache-2.0

package render

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// setHostInterfaces has the interfaces whose addresses are known. It is used if a host endpoint
// governs interfaces by their addresses.
const setHostInterfaces = "host-interfaces"

// setHostGoverned has the interfaces that are in the maps from interfaces to host endpoints.
const setHostGoverned = "host-governed"

// loopback is an interface that no host endpoint governs, because its packets do not leave the
// host.
const loopback = "lo"

// hosts has the host endpoints, and determines the interfaces that each of them governs.
type hosts struct {
	table      *table
	interfaces *interfaces
	to         *hostChains
	// all has the host endpoints. order has them as of the last update. byAddress is the number of
	// those that govern interfaces by their addresses.
	all       map[*subject]struct{}
	order     hostOrder
	byAddress int
	// known has the addresses of the host's interfaces.
	known map[string]Interface
	// mapped has the elements of each interface in the maps.
	mapped map[string][]elementRef
	dirty  bool
}

func newHosts(t *table, i *interfaces, to *hostChains) *hosts {
	return &hosts{
		table: t, interfaces: i, to: to, all: map[*subject]struct{}{}, mapped: map[string][]elementRef{},
	}
}

// set replaces the host endpoint of s by e. If it is removed, e is nil.
func (h *hosts) set(s *subject, e *dataplane.HostEndpoint) {
	h.dirty = h.dirty || e != nil || s.host != nil
	if byAddress(s.host) {
		h.byAddress--
	}
	if byAddress(e) {
		h.byAddress++
	}
	if e != nil {
		h.all[s] = struct{}{}
	} else {
		delete(h.all, s)
	}
}

// setKnown sets the interfaces of the host.
func (h *hosts) setKnown(known map[string]Interface) {
	if SameAddresses(h.known, known) {
		return
	}
	h.known = known
	h.dirty = h.dirty || h.byAddress > 0
}

func byAddress(h *dataplane.HostEndpoint) bool {
	return h != nil && h.Interface == "" && len(h.Addresses) > 0
}

func hostMap(l hostList) string { return l.name() + "-interfaces" }

// hostSets returns the maps from interfaces to host endpoints, without elements, and the other sets
// of host endpoints.
func hostSets(cfg *Config) []*sets.ElementSet {
	out := []*sets.ElementSet{
		sets.NewElementSet(ruleset.Set{Name: setHostInterfaces, Key: []ruleset.Type{ruleset.TypeIfname}}),
		sets.NewElementSet(ruleset.Set{Name: setHostGoverned, Key: []ruleset.Type{ruleset.TypeIfname}}),
		failsafeSet(setFailsafeIn, cfg.Host.FailsafeInbound),
		failsafeSet(setFailsafeOut, cfg.Host.FailsafeOutbound),
	}
	for l := range hostListCount {
		out = append(out, sets.NewElementSet(ruleset.Set{
			Name: hostMap(l), Key: []ruleset.Type{ruleset.TypeIfname}, Verdicts: true,
		}))
	}
	return out
}

// update updates the chains and sets that host endpoints share.
func (h *hosts) update() {
	h.order.subjects, h.order.byAddress = h.order.subjects[:0], h.byAddress > 0
	for s := range h.all {
		h.order.subjects = append(h.order.subjects, s)
	}
	slices.SortFunc(h.order.subjects, func(a, b *subject) int { return a.key.Compare(b.key) })

	names := map[string]bool{}
	for name := range h.mapped {
		names[name] = true
	}
	var known []ruleset.Element
	if h.order.byAddress {
		for name := range h.known {
			names[name] = true
			if name != loopback {
				known = append(known, sets.Element(nil, ruleset.Ifname(name)))
			}
		}
	}
	for _, s := range h.order.subjects {
		if name := s.host.Interface; name != "" && name != policy.AllInterfaces && ruleset.ValidIfname(name) {
			names[name] = true
		}
	}
	for name := range names {
		h.mapInterface(name)
	}
	h.table.elements[setHostInterfaces].Replace(known)
	h.updateChains()
}

// updateChains adds the shared chains that are needed, and deletes the other shared chains.
func (h *hosts) updateChains() {
	any := len(h.order.subjects) > 0
	h.keep(h.to.failsafes.shared(), any)
	state := h.order.state()
	for l := range hostListCount {
		h.table.chains.Keep(h.to.dispatch(l, h.order), state.enforced[l])
		h.table.elements[hostMap(l)].Wanted = state.enforced[l]
		if l.partial() {
			h.keep(h.to.base(l), state.enforced[l])
		}
	}
	h.keep(h.to.verdicts.untracked(), state.enforced[hostRawIn] || state.enforced[hostRawOut])
	for _, name := range []string{setFailsafeIn, setFailsafeOut, setHostGoverned} {
		h.table.elements[name].Wanted = any
	}
	h.table.elements[setHostInterfaces].Wanted = h.order.byAddress
}

// keep adds chains if they are wanted, and deletes them otherwise.
func (h *hosts) keep(chains []*ruleset.Chain, wanted bool) {
	for _, c := range chains {
		h.table.chains.Keep(c, wanted)
	}
}

// governor returns the host endpoint that governs an interface (S108, S123). This host endpoint has
// the smallest key among those that match the interface by name or address. If the addresses of the
// interface are unknown, a host endpoint that is found by addresses could come first. Then known is
// false.
func (h *hosts) governor(name string) (s *subject, known bool) {
	for _, s := range h.order.subjects {
		switch e := s.host; {
		case e.Interface == policy.AllInterfaces:
		case e.Interface != "":
			if e.Interface == name {
				return s, true
			}
		case len(e.Addresses) > 0:
			known, ok := h.known[name]
			if !ok {
				return nil, false
			}
			if slices.ContainsFunc(
				known.Addresses, func(a netip.Addr) bool { return slices.Contains(e.Addresses, a.Unmap()) },
			) {
				return s, true
			}
		}
	}
	return nil, true
}

// mapInterface sets the elements of one interface in the maps to the host endpoint that governs it.
// The interface is in all maps or in none.
func (h *hosts) mapInterface(name string) {
	var now []elementRef
	put := func(set string, e ruleset.Element) {
		h.table.elements[set].Put(e)
		now = append(now, elementRef{set, sets.ElementKey(e)})
	}
	if h.concerns(name) && !h.interfaces.ofWorkloads(name) {
		s, known := h.governor(name)
		if s != nil || !known { // the host endpoint for all interfaces is not in the maps
			put(setHostGoverned, sets.Element(nil, ruleset.Ifname(name)))
			for l := range hostListCount {
				v := build.Return()
				switch {
				case s != nil && s.enforced[l]:
					v = build.Jump(l.entry(s))
				case !known && !l.partial():
					v = build.Drop()
				}
				put(hostMap(l), sets.Element(&v, ruleset.Ifname(name)))
			}
		}
	}
	if now = h.table.replaceElements(h.mapped[name], now); len(now) == 0 {
		delete(h.mapped, name)
		return
	}
	h.mapped[name] = now
}

// concerns reports whether an interface has elements of its own. The host endpoint for all
// interfaces governs the others.
func (h *hosts) concerns(name string) bool {
	_, known := h.known[name]
	return name != loopback && (known && h.order.byAddress ||
		slices.ContainsFunc(h.order.subjects, func(s *subject) bool { return s.host.Interface == name }))
}

// interfaceChanged updates the elements of an interface after a workload got it or lost it.
func (h *hosts) interfaceChanged(name string) {
	if !h.dirty && h.concerns(name) {
		h.mapInterface(name)
	}
}
