// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// holder is a workload endpoint that has an address.
type holder struct {
	key        policy.Key
	iface, mac string
	// floating says that the address is translated to one of the endpoint's.
	floating bool
}

// holdings knows which address belongs to which workload endpoint, and notes those that change hands.
type holdings struct {
	endpoints map[policy.Key]*dataplane.Endpoint
	holders   map[netip.Addr][]holder // in the order of their keys; the first counts
	// lost are addresses whose flows are to be ended: they went away, or to another endpoint or interface.
	lost map[netip.Addr]struct{}
	// touched and sources are what the next takeChanges is about.
	touched map[netip.Addr]struct{}
	sources map[string]struct{}
}

// ownerChanges says what became of interfaces and addresses: the interfaces that an address is behind, and the prefixes
// that what is behind an interface may send from. Empty lists are for what is gone.
type ownerChanges struct {
	addresses map[netip.Addr][]string
	sources   map[string][]netip.Prefix
}

func (c *ownerChanges) empty() bool { return len(c.addresses)+len(c.sources) == 0 }

func newHoldings() *holdings {
	return &holdings{
		endpoints: map[policy.Key]*dataplane.Endpoint{}, holders: map[netip.Addr][]holder{}, lost: map[netip.Addr]struct{}{},
		touched: map[netip.Addr]struct{}{}, sources: map[string]struct{}{},
	}
}

// update takes the endpoints of a batch. What a batch takes from one endpoint and gives back to the same one has not changed
// hands.
func (h *holdings) update(b dataplane.Batch) {
	before := map[netip.Addr]holder{}
	for _, e := range b.Events {
		switch e := e.(type) {
		case *dataplane.EndpointUpdate:
			h.set(e.Key, e.Endpoint, before)
		case *dataplane.EndpointRemove:
			h.set(e.Key, nil, before)
		}
	}
	for a, was := range before {
		if now := h.first(a); was.iface != "" && now != was {
			h.lost[a] = struct{}{}
		}
	}
}

// first returns the holder that counts, the zero one if there is none.
func (h *holdings) first(a netip.Addr) holder {
	if list := h.holders[a]; len(list) > 0 {
		return list[0]
	}
	return holder{}
}

// set puts an endpoint in the place of what it was. before has the first holders of the addresses that were touched already.
func (h *holdings) set(key policy.Key, e *dataplane.Endpoint, before map[netip.Addr]holder) {
	touch := func(a netip.Addr) {
		if _, ok := before[a]; !ok {
			before[a] = h.first(a)
		}
		h.touched[a] = struct{}{}
	}
	if old := h.endpoints[key]; old != nil {
		h.each(key, old, func(a netip.Addr, o holder) {
			touch(a)
			rest := slices.DeleteFunc(slices.Clone(h.holders[a]), func(o holder) bool { return o.key == key })
			if h.holders[a] = rest; len(rest) == 0 {
				delete(h.holders, a)
			}
		})
		if len(old.AllowedSources) > 0 {
			h.sources[old.Interface] = struct{}{}
		}
		delete(h.endpoints, key)
	}
	if e == nil {
		return
	}
	h.endpoints[key] = e
	h.each(key, e, func(a netip.Addr, o holder) {
		touch(a)
		list := append(slices.Clone(h.holders[a]), o)
		slices.SortFunc(list, func(a, b holder) int { return a.key.Compare(b.key) })
		h.holders[a] = list
	})
	if len(e.AllowedSources) > 0 {
		h.sources[e.Interface] = struct{}{}
	}
}

// each goes through the addresses of an endpoint.
func (h *holdings) each(key policy.Key, e *dataplane.Endpoint, do func(netip.Addr, holder)) {
	own := holder{key: key, iface: e.Interface, mac: e.MAC}
	for _, a := range e.Addresses {
		do(a.Unmap(), own)
	}
	own.floating = true
	for _, n := range e.NATs {
		do(n.ExternalIP.Unmap(), own)
	}
}

// lostAddresses returns the addresses that changed hands, sorted.
func (h *holdings) lostAddresses() []netip.Addr {
	return slices.SortedFunc(maps.Keys(h.lost), netip.Addr.Compare)
}

// takeChanges returns what changed since it was last called.
func (h *holdings) takeChanges() (c ownerChanges) {
	if len(h.touched) > 0 {
		c.addresses = make(map[netip.Addr][]string, len(h.touched))
	}
	for a := range h.touched {
		var names []string
		for _, o := range h.holders[a] {
			if !o.floating && !slices.Contains(names, o.iface) {
				names = append(names, o.iface)
			}
		}
		c.addresses[a] = names
	}
	h.touched = emptied(h.touched)
	if len(h.sources) == 0 {
		return c
	}
	c.sources = make(map[string][]netip.Prefix, len(h.sources))
	for name := range h.sources {
		c.sources[name] = nil
	}
	for _, e := range h.endpoints {
		if _, ok := h.sources[e.Interface]; ok {
			c.sources[e.Interface] = append(c.sources[e.Interface], e.AllowedSources...)
		}
	}
	h.sources = emptied(h.sources)
	return c
}
