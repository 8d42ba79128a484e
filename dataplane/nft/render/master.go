// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
)

// Interface describes an interface of the host.
type Interface struct {
	Addresses []netip.Addr
	// Master is the device that the interface is a port of; zero for none.
	Master Master
}

// Master is a device that takes over the packets of its ports: a bridge, bond, team, VRF or similar
// device. The hooks see these packets with the interface of the master.
type Master struct {
	// Name of the device. It must not be empty.
	Name string
	// Kind is the kernel's name for the kind of the device, such as "bridge". A bridge of
	// Config.Bridges must have the kind "bridge". For any other device, Kind is only for messages,
	// and may be empty.
	Kind string
}

// UnknownMaster means that the master of an interface is not known, for example because reading it
// from the kernel failed. An endpoint with such an interface is at fault.
func UnknownMaster() Master { return Master{Kind: "unknown"} }

// fault returns why an endpoint with the interface is at fault, or nil.
func (m Master) fault(name string) error {
	switch {
	case m == Master{}:
		return nil
	case m == UnknownMaster():
		return fmt.Errorf("interface %s cannot be looked up: it may be a port of a bridge", name)
	}
	master, from := m.Kind+" "+m.Name, "the "+m.Kind
	if m.Kind == "" {
		master, from = m.Name, m.Name
	}
	return fmt.Errorf("interface %s is a port of %s: the hooks see its packets on %s, "+
		"so policy cannot match them; remove it from %s and route it", name, master, m.Name, from)
}

// SetInterfaces sets the interfaces of the host, by name. The Renderer keeps the map, so the caller
// must not change it.
//
// The Renderer needs the interfaces for two reasons:
//
//   - If the interface of a workload endpoint is a port of a master, such as a bond, the endpoint
//     is at fault. Its packets are dropped. The exception is a master in Config.Bridges.
//   - A host endpoint without an interface name applies to the interfaces that have one of its
//     addresses. While there is such a host endpoint, the map must have all interfaces of the host.
//     If an interface is missing, its packets are dropped.
func (r *Renderer) SetInterfaces(known map[string]Interface) {
	r.endpoints.interfaces.setMasters(known)
	r.endpoints.hosts.setKnown(known)
}

// SetMaster sets the master of one interface.
func (r *Renderer) SetMaster(name string, m Master) { r.endpoints.interfaces.setMaster(name, m) }

// ChangedInterfaces returns the interfaces of changed workload endpoints, in no particular order.
// An endpoint counts as changed if one of the following has happened since the last rendering:
//
//   - The endpoint was added, updated or removed.
//   - The master of its interface has changed.
//   - Its interface is a port of a bridge of Config.Bridges, and the master of this bridge has
//     changed.
//
// Each call of Flush, Table, Errors, Affected or ClassStats renders all changed objects. Before the
// first rendering, ChangedInterfaces also returns the bridges of Config.Bridges.
func (r *Renderer) ChangedInterfaces() iter.Seq[string] {
	return maps.Keys(r.endpoints.interfaces.dirty.objects)
}

// Interfaces returns the interfaces of workload endpoints, and the bridges of Config.Bridges, in no
// particular order. Those of them that exist must be in the map given to SetInterfaces.
func (r *Renderer) Interfaces() iter.Seq[string] { return r.endpoints.interfaces.names() }

// HasInterface reports whether the interface is one of Interfaces.
func (r *Renderer) HasInterface(name string) bool { return r.endpoints.interfaces.ofWorkloads(name) }

// SameAddresses reports whether a and b have the same interfaces, and each interface has the same
// list of addresses in both.
func SameAddresses(a, b map[string]Interface) bool {
	return maps.EqualFunc(a, b, func(x, y Interface) bool { return slices.Equal(x.Addresses, y.Addresses) })
}

// NeedsInterfaces reports whether there is a host endpoint without an interface name. Then the map
// given to SetInterfaces must contain all interfaces of the host, with their addresses.
func (r *Renderer) NeedsInterfaces() bool { return r.endpoints.hosts.byAddress > 0 }
