// SPDX-License-Identifier: Apache-2.0

package interfaces

import (
	"net/netip"
	"slices"
	"strings"
)

// Interface is a network interface at one moment. It is immutable and may be shared.
type Interface struct {
	// Name is the name of the interface at the moment of the Snapshot. The interface may be renamed
	// later.
	Name string
	// Index is the kernel's number of the interface. It stays the same for as long as the interface
	// exists. When the interface is deleted, the kernel does not soon give the number to another
	// interface.
	Index int
	// Up means that the interface is administratively up. Running means that it is up and has a
	// carrier.
	Up, Running bool
	// MTU in bytes.
	MTU uint32
	// MAC address; zero if the interface has no address of six bytes.
	MAC [6]byte
	// Kind of a virtual interface, such as "veth", "vxlan" or "bridge"; empty for a physical one
	// and for the loopback.
	Kind string
	// Master is the index of the interface's master, or 0 if there is none. The master is the
	// bridge, bond, VRF or other device of which the interface is a port.
	Master int
	// Addresses with the lengths of their subnets, sorted, IPv4 first. An address is left out while
	// duplicate address detection runs for it, unless the address is optimistic. It is also left
	// out if the detection has found it on another host.
	Addresses []netip.Prefix
}

// Has reports whether the interface has the address.
func (i *Interface) Has(a netip.Addr) bool {
	return slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Addr() == a })
}

func (i *Interface) equal(o *Interface) bool {
	return i.Name == o.Name && i.Index == o.Index && i.Up == o.Up && i.Running == o.Running && i.MTU == o.MTU &&
		i.MAC == o.MAC && i.Kind == o.Kind && i.Master == o.Master && slices.Equal(i.Addresses, o.Addresses)
}

// Snapshot has all interfaces of the namespace at one moment. The zero Snapshot has no interface.
// It is immutable and may be shared.
type Snapshot struct {
	byName []*Interface
}

// All returns the interfaces, sorted by name. The caller must not change the slice.
func (s *Snapshot) All() []*Interface { return s.byName }

// Named returns the interface with the name, or nil.
func (s *Snapshot) Named(name string) *Interface {
	at, ok := slices.BinarySearchFunc(s.byName, name, func(i *Interface, n string) int {
		return strings.Compare(i.Name, n)
	})
	if !ok {
		return nil
	}
	return s.byName[at]
}

// Holding returns the interfaces that have the address, sorted by name.
func (s *Snapshot) Holding(a netip.Addr) (found []*Interface) {
	for _, i := range s.byName {
		if i.Has(a) {
			found = append(found, i)
		}
	}
	return found
}

// Equal reports whether both snapshots have the same interfaces with the same properties.
func (s *Snapshot) Equal(o *Snapshot) bool {
	return slices.EqualFunc(s.byName, o.byName, (*Interface).equal)
}
