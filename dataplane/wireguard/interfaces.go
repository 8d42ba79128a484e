// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/dataplane/interfaces"
)

// localInterfaces has the properties of this node's interfaces that the desired state depends on.
type localInterfaces struct {
	// uplinks are the names of the interfaces that have the node's addresses.
	uplinks []string
	// bridged has the subnets of bridges that have a carrier and no address of the node. Packets to
	// them do not leave the node. Without a carrier, the kernel may ignore the route to the subnet.
	bridged map[netip.Prefix]struct{}
}

// findLocalInterfaces returns the uplinks and the bridged subnets of a snapshot. addresses are
// those of the node.
func findLocalInterfaces(s *interfaces.Snapshot, addresses []netip.Prefix) localInterfaces {
	l := localInterfaces{bridged: map[netip.Prefix]struct{}{}}
	for _, p := range addresses {
		for _, i := range s.Holding(p.Addr()) {
			l.uplinks = append(l.uplinks, i.Name)
		}
	}
	for _, i := range s.All() {
		if i.Kind == "bridge" && i.Running && !slices.Contains(l.uplinks, i.Name) {
			for _, p := range i.Addresses {
				l.bridged[p.Masked()] = struct{}{}
			}
		}
	}
	return l
}

func (l localInterfaces) equal(o localInterfaces) bool {
	return slices.Equal(l.uplinks, o.uplinks) && maps.Equal(l.bridged, o.bridged)
}

// interfaceObserver reads the interfaces for a state, and detects later changes.
type interfaceObserver struct {
	namespace int // Config.NetNS
	// mu makes it one step to read the interfaces and to set the fields below. Otherwise watch
	// could compare a change with older fields, and miss it.
	mu sync.Mutex
	// known is set once the interfaces have been read. Then addresses are those of the node, and
	// last is the value in the state.
	known     bool
	addresses []netip.Prefix
	last      localInterfaces
}

// update reads the interfaces of a state. If that fails, it leaves them unchanged.
func (o *interfaceObserver) update(s *state) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.read(s); err != nil {
		return err
	}
	o.known, o.addresses, o.last = true, s.nodeAddresses(), s.interfaces
	return nil
}

// read does the same as update, but watch continues to compare with the last update.
func (o *interfaceObserver) read(s *state) error {
	all, err := interfaces.Read(interfaces.Config{NetNS: o.namespace})
	if err != nil {
		return err
	}
	s.interfaces = findLocalInterfaces(all, s.nodeAddresses())
	return nil
}

// watch calls changed when the interfaces differ from those of the last update. It may run
// concurrently with the other methods.
func (o *interfaceObserver) watch(ctx context.Context, changed func()) error {
	return interfaces.Watch(ctx, interfaces.Config{NetNS: o.namespace}, func(s *interfaces.Snapshot) {
		if o.differ(s) {
			changed()
		}
	})
}

func (o *interfaceObserver) differ(s *interfaces.Snapshot) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known && !findLocalInterfaces(s, o.addresses).equal(o.last)
}
