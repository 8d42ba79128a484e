// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// setHostInterfaces holds the interfaces whose addresses are known, where host endpoints are found by address.
const setHostInterfaces = "host-interfaces"

// setHostGoverned holds the interfaces that the maps from interfaces to host endpoints have.
const setHostGoverned = "host-governed"

// setHostAll holds both families while there is a host endpoint for all interfaces, and nothing otherwise. It tells packets that are judged by the
// rules of before that there is one now.
const setHostAll = "host-all"

// loopback is the interface that no host endpoint governs: what passes it does not leave the host.
const loopback = "lo"

// hosts is what host endpoints have to do with interfaces.
type hosts struct {
	// subjects are the host endpoints in the order of their keys.
	subjects []*subject
	// count is how many of them are found by address, byAddress whether any was when they were last settled.
	count     int
	byAddress bool
	// known has the addresses of the host's interfaces.
	known map[string][]netip.Addr
	// placed are the interfaces that have elements in the maps.
	placed map[string][]placed
}

// SetInterfaces tells the addresses of all interfaces of the host, by name. Host endpoints without an interface name are found by
// them; other interfaces than these have no traffic while there is such a host endpoint, for they may be its. The Renderer keeps the map, which must not
// change any more.
func (r *Renderer) SetInterfaces(addresses map[string][]netip.Addr) {
	if maps.EqualFunc(r.hosts.known, addresses, slices.Equal) {
		return
	}
	r.hosts.known = addresses
	if r.hosts.count > 0 {
		r.dirtyHosts = true
	}
}

// NeedsInterfaces reports whether a host endpoint is found by the addresses that SetInterfaces tells.
func (r *Renderer) NeedsInterfaces() bool {
	return r.hosts.count > 0
}

func byAddress(h *dataplane.HostEndpoint) bool {
	return h != nil && h.Interface == "" && len(h.Addresses) > 0
}

func hostMap(l hostList) string { return l.name() + "-interfaces" }

// hostSets returns the maps from interfaces to host endpoints, empty, and what else host endpoints look up.
func hostSets(cfg RendererConfig) []*elementSet {
	out := []*elementSet{
		newElementSet(ruleset.Set{Name: setHostInterfaces, Key: []ruleset.Type{ruleset.TypeIfname}}),
		newElementSet(ruleset.Set{Name: setHostGoverned, Key: []ruleset.Type{ruleset.TypeIfname}}),
		newElementSet(ruleset.Set{Name: setHostAll, Key: []ruleset.Type{ruleset.TypeNFProto}}),
		failsafeSet(setFailsafeIn, cfg.Host.FailsafeInbound),
		failsafeSet(setFailsafeOut, cfg.Host.FailsafeOutbound),
	}
	for _, l := range hostLists() {
		out = append(out, newElementSet(ruleset.Set{Name: hostMap(l), Key: []ruleset.Type{ruleset.TypeIfname}, Verdicts: true}))
	}
	return out
}

// settleHosts brings everything that host endpoints share to where it should be.
func (r *Renderer) settleHosts() {
	h := &r.hosts
	h.subjects, h.byAddress = h.subjects[:0], h.count > 0
	for _, s := range r.subjects {
		if s.host != nil {
			h.subjects = append(h.subjects, s)
		}
	}
	slices.SortFunc(h.subjects, func(a, b *subject) int { return a.key.Compare(b.key) })

	names := map[string]bool{}
	for name := range h.placed {
		names[name] = true
	}
	var known []ruleset.Element
	if h.byAddress {
		for name := range h.known {
			names[name] = true
			if name != loopback {
				known = append(known, element(nil, ruleset.Ifname(name)))
			}
		}
	}
	for _, s := range h.subjects {
		if name := s.host.Interface; name != "" && name != policy.AllInterfaces && ruleset.ValidIfname(name) {
			names[name] = true
		}
	}
	for name := range names {
		r.placeHost(name)
	}
	r.elements[setHostInterfaces].replace(known)
	var all []ruleset.Element
	if r.forAll() != nil {
		all = []ruleset.Element{element(nil, ruleset.Byte(ruleset.NFProtoIPv4)), element(nil, ruleset.Byte(ruleset.NFProtoIPv6))}
	}
	r.elements[setHostAll].replace(all)
	r.settleHostChains()
}

// settleHostChains puts the base chains there that are needed, and takes the others away.
func (r *Renderer) settleHostChains() {
	any := len(r.hosts.subjects) > 0
	for _, c := range r.sharedHostChains() {
		r.keepChain(c.Name, c, any)
	}
	for _, l := range hostLists() {
		c := r.hostBase(l)
		r.keepChain(l.name(), c, c != nil)
		r.elements[hostMap(l)].wanted = c != nil
		if l == hostOut {
			dnat := r.hostOutDNAT(c)
			r.keepChain(chainHostOutDNAT, dnat, dnat != nil)
		}
	}
	for _, name := range []string{setFailsafeIn, setFailsafeOut, setHostGoverned, setHostAll} {
		r.elements[name].wanted = any
	}
	r.elements[setHostInterfaces].wanted = r.hosts.byAddress
}

// forAll returns the host endpoint for all interfaces that counts, or nil (S123).
func (r *Renderer) forAll() *subject {
	for _, s := range r.hosts.subjects {
		if s.host.Interface == policy.AllInterfaces {
			return s
		}
	}
	return nil
}

// governor returns the host endpoint that governs an interface: the one with the smallest key of those that match by name or address
// (S108, S123). It is not known if one before it is found by address and the interface's addresses are not told.
func (r *Renderer) governor(name string) (s *subject, known bool) {
	for _, s := range r.hosts.subjects {
		switch h := s.host; {
		case h.Interface == policy.AllInterfaces:
		case h.Interface != "":
			if h.Interface == name {
				return s, true
			}
		case len(h.Addresses) > 0:
			addrs, ok := r.hosts.known[name]
			if !ok {
				return nil, false
			}
			if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return slices.Contains(h.Addresses, a.Unmap()) }) {
				return s, true
			}
		}
	}
	return nil, true
}

// placeHost leads the packets of one interface to the host endpoint that governs it. Either all maps have the interface or none.
func (r *Renderer) placeHost(name string) {
	h := &r.hosts
	var now []placed
	put := func(set string, e ruleset.Element) {
		r.elements[set].put(e)
		now = append(now, placed{set, elementKey(e)})
	}
	if i := r.interfaces[name]; r.concernsHosts(name) && (i == nil || len(i.claims) == 0) {
		s, known := r.governor(name)
		if s != nil || !known { // those for all interfaces are not in the maps
			put(setHostGoverned, element(nil, ruleset.Ifname(name)))
			for _, l := range hostLists() {
				v := accept()
				switch {
				case s != nil && s.governed[l]:
					v = jump(l.entry(s))
				case !known && !l.early():
					v = drop()
				}
				put(hostMap(l), element(&v, ruleset.Ifname(name)))
			}
		}
	}
	if now = r.replacePlaced(h.placed[name], now); len(now) == 0 {
		delete(h.placed, name)
		return
	}
	h.placed[name] = now
}

// concernsHosts reports whether an interface has elements of its own: others are left to what is for all interfaces.
func (r *Renderer) concernsHosts(name string) bool {
	_, known := r.hosts.known[name]
	return name != loopback && (known && r.hosts.byAddress ||
		slices.ContainsFunc(r.hosts.subjects, func(s *subject) bool { return s.host.Interface == name }))
}

// workloadInterfaceChanged judges anew which host endpoint governs an interface that a workload has got or lost.
func (r *Renderer) workloadInterfaceChanged(name string) {
	if !r.dirtyHosts && r.concernsHosts(name) {
		r.placeHost(name)
	}
}
