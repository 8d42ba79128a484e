// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
)

// Interface is an interface of the host, as the Renderer needs it.
type Interface struct {
	Addresses []netip.Addr
	// Master is the device that the interface is a port of; zero for none.
	Master Master
}

// Master is a device that takes over the packets of its ports: a bridge, bond, team, VRF or the
// like. The hooks see these packets with the interface of the master.
type Master struct {
	// Name of the device; it must not be empty.
	Name string
	// Kind as the kernel names it, such as "bridge"; it may be empty. A bridge of Config.Bridges must have
	// that kind. Otherwise it is for messages.
	Kind string
}

// UnknownMaster stands for the master of an interface that cannot be looked up.
func UnknownMaster() Master { return Master{Kind: "unknown"} }

// fault returns why an endpoint with the interface is at fault, or nil.
func (m Master) fault(name string) error {
	switch {
	case m == Master{}:
		return nil
	case m == UnknownMaster():
		return fmt.Errorf("interface %s cannot be looked up: it may be a port of a bridge", name)
	}
	master, from := m.Kind+" "+m.Name, "out of the "+m.Kind
	if m.Kind == "" {
		master, from = m.Name, "away from "+m.Name
	}
	return fmt.Errorf("interface %s is a port of %s: its packets pass the hooks as %s's, "+
		"so policy cannot see them; take it %s and route it", name, master, m.Name, from)
}

// SetInterfaces sets the interfaces of the host, by name. An endpoint whose interface has a master
// is at fault, unless that is one of Config.Bridges. Host endpoints without an interface name are
// found by address; while there is one, an interface that is not in the map has no traffic. The
// Renderer keeps the map, which must not change.
func (r *Renderer) SetInterfaces(known map[string]Interface) {
	r.endpoints.interfaces.setMasters(known)
	r.endpoints.hosts.setKnown(known)
}

// SetMaster sets the master of one interface.
func (r *Renderer) SetMaster(name string, m Master) { r.endpoints.interfaces.setMaster(name, m) }

// ChangedInterfaces returns the interfaces of workload endpoints that changed since they were last
// rendered, by Flush, Table, Errors, Affected or ClassStats, in no particular order. Before they are
// first rendered, it returns the bridges of Config.Bridges as well.
func (r *Renderer) ChangedInterfaces() iter.Seq[string] {
	return maps.Keys(r.endpoints.interfaces.dirty.objects)
}

// Interfaces returns the interfaces that endpoints have, and the bridges of Config.Bridges, in no
// particular order: those whose masters count.
func (r *Renderer) Interfaces() iter.Seq[string] { return r.endpoints.interfaces.names() }

// HasInterface reports whether Interfaces has the interface.
func (r *Renderer) HasInterface(name string) bool { return r.endpoints.interfaces.ofWorkloads(name) }

// SameAddresses reports whether the interfaces have the same addresses.
func SameAddresses(a, b map[string]Interface) bool {
	return maps.EqualFunc(a, b, func(x, y Interface) bool { return slices.Equal(x.Addresses, y.Addresses) })
}

// NeedsInterfaces reports whether a host endpoint is found by the addresses that SetInterfaces has.
func (r *Renderer) NeedsInterfaces() bool { return r.endpoints.hosts.byAddress > 0 }
