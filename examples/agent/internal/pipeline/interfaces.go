// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/dataplane/interfaces"
	"github.com/wayleave/wayleave/policy"
)

// interfaceIndex has the interfaces of the valid endpoints of this node. An endpoint of a source
// without Yields owns its interface. An endpoint of a source with Yields is in conflict while an
// endpoint with another key owns its interface. The result does not depend on the order of updates.
//
// An interfaceIndex is safe for concurrent use.
type interfaceIndex struct {
	node   string
	read   func() (*interfaces.Snapshot, error)
	logger *slog.Logger

	mu        sync.Mutex
	owners    map[policy.Key]interfaceOwner // endpoints of sources that do not yield
	yielding  map[policy.Key]string         // the name of the interface
	conflicts map[policy.Key]error
}

// interfaceOwner identifies the interfaces of an endpoint: by name, or by the addresses that a host
// endpoint expects. A host endpoint for all interfaces has no effect on the interfaces of
// workloads. Therefore it owns only interfaces with one of its expected addresses.
type interfaceOwner struct {
	name      string
	addresses []netip.Addr
}

func (o interfaceOwner) isZero() bool { return o.name == "" && len(o.addresses) == 0 }

func newInterfaceIndex(node string, logger *slog.Logger, read func() (*interfaces.Snapshot, error)) *interfaceIndex {
	return &interfaceIndex{
		node: node, logger: logger, read: read, owners: map[policy.Key]interfaceOwner{},
		yielding: map[policy.Key]string{}, conflicts: map[policy.Key]error{},
	}
}

// ownerOf returns the interfaces of an endpoint. It returns zero if the endpoint is invalid or on
// another node.
func (i *interfaceIndex) ownerOf(u policy.Update) (owner interfaceOwner) {
	switch e := u.Resource.(type) {
	case *policy.WorkloadEndpoint:
		if e.Node != i.node {
			return interfaceOwner{}
		}
		owner.name = e.Interface
	case *policy.HostEndpoint:
		switch {
		case e.Node != i.node:
			return interfaceOwner{}
		case e.InterfaceName == "", e.InterfaceName == policy.AllInterfaces:
			owner.addresses = e.ExpectedIPs
		default:
			owner.name = e.InterfaceName
		}
	default:
		return interfaceOwner{}
	}
	if _, err := u.Admit(); err != nil {
		return interfaceOwner{}
	}
	return owner
}

// concerns reports whether an update may change an owner.
func (i *interfaceIndex) concerns(u policy.Update) bool {
	if u.Key.Kind != policy.KindWorkloadEndpoint && u.Key.Kind != policy.KindHostEndpoint {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	_, known := i.owners[u.Key]
	return known || !i.ownerOf(u).isZero()
}

// setOwners records objects of the sources that do not yield; nil for an object that was removed.
// It returns the sorted keys of the endpoints whose conflict has begun or ended.
func (i *interfaceIndex) setOwners(objects map[policy.Key]policy.Resource) (changed []policy.Key) {
	if len(objects) == 0 {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	names, byAddress := map[string]struct{}{}, false
	for key, r := range objects {
		old, now := i.owners[key], i.ownerOf(policy.Update{Key: key, Resource: r})
		if now.isZero() {
			delete(i.owners, key)
		} else {
			i.owners[key] = now
		}
		names[old.name], names[now.name] = struct{}{}, struct{}{}
		byAddress = byAddress || !slices.Equal(old.addresses, now.addresses)
	}
	snapshot := i.snapshotLocked()
	for _, key := range slices.SortedFunc(maps.Keys(i.yielding), policy.Key.Compare) {
		if _, ok := names[i.yielding[key]]; (ok || byAddress) && i.updateConflictLocked(key, snapshot) {
			changed = append(changed, key)
		}
	}
	return changed
}

// setYielding applies updates of a source that yields.
func (i *interfaceIndex) setYielding(updates ...policy.Update) {
	i.mu.Lock()
	defer i.mu.Unlock()
	snapshot := i.snapshotLocked()
	for _, u := range updates {
		delete(i.yielding, u.Key)
		if name := i.ownerOf(u).name; name != "" && u.Key.Kind == policy.KindWorkloadEndpoint {
			i.yielding[u.Key] = name
		}
		i.updateConflictLocked(u.Key, snapshot)
	}
}

// updateConflictLocked updates whether an endpoint is in conflict, and reports whether that
// changed.
func (i *interfaceIndex) updateConflictLocked(key policy.Key, snapshot *interfaces.Snapshot) (changed bool) {
	before := i.conflicts[key]
	delete(i.conflicts, key)
	if name, ok := i.yielding[key]; ok {
		if err := i.conflictLocked(name, key, snapshot); err != nil {
			i.conflicts[key] = err
		}
	}
	return (before == nil) != (i.conflicts[key] == nil)
}

// conflictLocked returns an error if an endpoint other than except owns the interface. The error
// names the owner with the smallest key.
func (i *interfaceIndex) conflictLocked(name string, except policy.Key, snapshot *interfaces.Snapshot) error {
	var first *policy.Key
	var expected netip.Addr
	at := snapshot.Named(name)
	for key, o := range i.owners {
		if key == except || first != nil && first.Compare(key) < 0 {
			continue
		}
		var held netip.Addr
		if at != nil {
			for _, a := range o.addresses {
				if at.Has(a.Unmap()) {
					held = a
					break
				}
			}
		}
		if o.name == name || held.IsValid() {
			first, expected = &key, held
		}
	}
	switch {
	case first == nil:
		return nil
	case expected.IsValid():
		return fmt.Errorf("%w; it has the address %s", InterfaceError(name, *first), expected)
	}
	return InterfaceError(name, *first)
}

// InterfaceError is the error of an endpoint whose interface belongs to another endpoint.
func InterfaceError(name string, owner policy.Key) error {
	return fmt.Errorf("interface %q belongs to endpoint %s: remove that endpoint first", name, owner)
}

// snapshotLocked returns the interfaces of the node. It returns none if no owner is found by
// address, or if the interfaces cannot be read.
func (i *interfaceIndex) snapshotLocked() *interfaces.Snapshot {
	s, err := i.readLocked()
	if err != nil {
		i.logger.Error("no endpoint is found by the addresses of its interface", "err", err)
		return &interfaces.Snapshot{}
	}
	return s
}

func (i *interfaceIndex) readLocked() (*interfaces.Snapshot, error) {
	for _, o := range i.owners {
		if len(o.addresses) > 0 {
			return i.read()
		}
	}
	return &interfaces.Snapshot{}, nil
}

// check returns an error if the interface belongs to an endpoint other than the given one. It also
// returns an error if the interfaces of the node cannot be read.
func (i *interfaceIndex) check(name string, except policy.Key) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	snapshot, err := i.readLocked()
	if err != nil {
		return err
	}
	return i.conflictLocked(name, except, snapshot)
}

// conflict returns the error of an endpoint in conflict; nil for any other endpoint.
func (i *interfaceIndex) conflict(key policy.Key) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.conflicts[key]
}

// conflictOn is like conflict, but returns nil if the endpoint has another interface.
func (i *interfaceIndex) conflictOn(name string, key policy.Key) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.yielding[key] != name {
		return nil
	}
	return i.conflicts[key]
}

// all returns all conflicts.
func (i *interfaceIndex) all() map[policy.Key]error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.conflicts)
}
