// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"iter"
	"strings"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/classify"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// interfaces has the interfaces of workload endpoints, and renders them to elements of sets and
// maps.
type interfaces struct {
	prefix string
	table  *table
	byName map[string]*iface
	// masters has the master of each interface that is a port.
	masters map[string]Master
	bridges *bridges
	// unprefixed is the number of interfaces whose names lack the prefix.
	unprefixed int
	local      *classify.LocalAddresses

	dirty *dirtySet[string]
	// dirtySubjects is marked for the endpoints of an interface that has changed.
	dirtySubjects *dirtySet[*subject]
}

func newInterfaces(cfg *Config, t *table, dirtySubjects *dirtySet[*subject]) *interfaces {
	i := &interfaces{
		prefix: cfg.InterfacePrefix, table: t, byName: map[string]*iface{}, masters: map[string]Master{},
		bridges: newBridges(cfg.Bridges, dirtySubjects),
		local:   classify.NewLocalAddresses(), dirty: newDirtySet[string](), dirtySubjects: dirtySubjects,
	}
	for _, name := range cfg.Bridges {
		i.dirty.mark(name) // so that ChangedInterfaces returns the bridge: its master must be read
	}
	return i
}

// iface is an interface that one or more workload endpoints have.
type iface struct {
	claims   map[*subject]struct{}
	elements []elementRef
}

// claim records that a workload endpoint has an interface. It marks all endpoints of the interface
// as dirty, because two with the same interface are at fault.
func (i *interfaces) claim(s *subject) {
	name := s.workload.Interface
	x := i.byName[name]
	if x == nil {
		x = &iface{claims: map[*subject]struct{}{}}
		i.byName[name] = x
	}
	x.claims[s] = struct{}{}
	if bridge := i.bridge(name); bridge != "" {
		i.bridges.add(s, bridge)
	}
	i.local.Add(s.workload, 1)
	if len(x.claims) == 1 && !strings.HasPrefix(name, i.prefix) {
		i.unprefixed++
	}
	i.markDirty(name)
}

// unclaim records that a workload endpoint no longer has its interface.
func (i *interfaces) unclaim(s *subject) {
	name := s.workload.Interface
	delete(i.byName[name].claims, s)
	if bridge := i.bridge(name); bridge != "" {
		i.bridges.remove(s, bridge)
	}
	i.local.Add(s.workload, -1)
	if len(i.byName[name].claims) == 0 && !strings.HasPrefix(name, i.prefix) {
		i.unprefixed--
	}
	i.markDirty(name)
}

// otherClaim returns another endpoint with the same interface, the one with the smallest key, or
// nil.
func (i *interfaces) otherClaim(s *subject) *subject {
	return first(i.byName[s.workload.Interface].claims, s)
}

// markDirty marks an interface and its endpoints as dirty.
func (i *interfaces) markDirty(name string) {
	for o := range i.byName[name].claims {
		i.dirtySubjects.mark(o)
	}
	i.dirty.mark(name)
}

// setMaster sets the master of one interface.
func (i *interfaces) setMaster(name string, m Master) {
	if i.masters[name] == m {
		return
	}
	i.bridges.ports = nil
	affected := []string{name}
	if i.bridges.has(name) { // the ports of a bridge count only while it has no master: see bridge
		for port, of := range i.masters {
			if of.Name == name && port != name {
				affected = append(affected, port)
			}
		}
	}
	before := make([]string, len(affected))
	for n, port := range affected {
		before[n] = i.bridge(port)
	}
	if m == (Master{}) {
		delete(i.masters, name)
	} else {
		i.masters[name] = m
	}
	for n, port := range affected {
		i.rebridge(port, before[n])
		if i.byName[port] != nil {
			i.markDirty(port)
		}
	}
}

// rebridge records the bridge of an interface, if it has changed from before.
func (i *interfaces) rebridge(name, before string) {
	now := i.bridge(name)
	if now == before {
		return
	}
	i.bridges.changed[name] = now
	if i.byName[name] == nil {
		return
	}
	for s := range i.byName[name].claims {
		if before != "" {
			i.bridges.remove(s, before)
		}
		if now != "" {
			i.bridges.add(s, now)
		}
	}
}

// bridge returns the configured bridge of which an interface is a port, or "". A bridge that is
// itself a port, for example of a VRF, does not count: the hooks see its packets with its master's
// interface.
func (i *interfaces) bridge(name string) string {
	m := i.masters[name]
	if !i.bridges.has(m.Name) || m.Kind != kindBridge || i.masters[m.Name] != (Master{}) {
		return ""
	}
	return m.Name
}

// fault returns why an endpoint with the interface is at fault, or nil.
func (i *interfaces) fault(name string) error {
	m := i.masters[name]
	switch {
	case i.bridges.has(name):
		return fmt.Errorf("interface %s is a bridge for the endpoints of its ports, so it cannot have one itself", name)
	case i.bridge(name) != "":
		return nil
	case i.bridges.has(m.Name) && i.masters[m.Name] != (Master{}):
		return i.masters[m.Name].fault(m.Name)
	default:
		return m.fault(name)
	}
}

// blocked reports whether policy cannot see the packets of an endpoint's interface, because the
// interface is a port of a master.
func (i *interfaces) blocked(name string) bool {
	_, port := i.masters[name]
	return port && i.bridge(name) == "" && i.has(name)
}

// setMasters sets the masters of all interfaces.
func (i *interfaces) setMasters(known map[string]Interface) {
	for name := range i.masters {
		if known[name].Master == (Master{}) {
			i.setMaster(name, Master{})
		}
	}
	for name, one := range known {
		i.setMaster(name, one.Master)
	}
}

// render adds the elements of the dirty interfaces to the sets and maps, and removes their old
// ones. It removes all old elements first, because an address may move from one port of a bridge to
// another.
func (i *interfaces) render() {
	type added struct {
		set     string
		element ruleset.Element
	}
	var all []added
	for name := range i.dirty.objects {
		x := i.byName[name]
		if x == nil {
			continue
		}
		var now []elementRef
		put := func(set string, e ruleset.Element) {
			all = append(all, added{set, e})
			now = append(now, elementRef{set, sets.ElementKey(e)})
		}
		if len(x.claims) > 0 && ruleset.ValidIfname(name) {
			for s := range x.claims {
				i.putElements(name, s, put)
				break // with several claims no endpoint is up, so each gives the same elements
			}
		}
		x.elements = i.table.replaceElements(x.elements, now)
		if len(x.claims) == 0 {
			delete(i.byName, name)
		}
	}
	for _, e := range all {
		i.table.elements[e.set].Put(e.element)
	}
}

// putElements puts the elements of an interface for one of its endpoints.
func (i *interfaces) putElements(name string, s *subject, put func(set string, e ruleset.Element)) {
	if i.bridges.has(name) {
		return // the ports of the bridge have its elements
	}
	put(setEndpoints, sets.Element(nil, ruleset.Ifname(name)))
	bridge := i.bridge(name)
	if !s.ok || bridge != "" {
		put(mapTo, sets.Element(&ruleset.Verdict{Kind: ruleset.Drop}, ruleset.Ifname(name)))
	}
	if s.ok && bridge != "" {
		i.putBridged(name, bridge, s, put)
	}
	if !s.ok || bridge != "" {
		return
	}
	put(setUp, sets.Element(nil, ruleset.Ifname(name)))
	// Jump, not goto: to a packet on the previous generation these chains are empty. The packet
	// must return to the rule that records that it is denied.
	to, from := build.Jump(sets.KeyName("to", s.key)), build.Jump(sets.KeyName("from", s.key))
	put(mapTo, sets.Element(&to, ruleset.Ifname(name)))
	put(mapFrom, sets.Element(&from, ruleset.Ifname(name)))
	for _, a := range s.workload.Addresses {
		put(sourceSet(sets.FamilyOf(a)), sets.Element(nil, ruleset.Ifname(name), ruleset.Addr(a)))
	}
}

// putBridged puts the elements of an endpoint whose interface is a port of a bridge.
func (i *interfaces) putBridged(port, bridge string, s *subject, put func(set string, e ruleset.Element)) {
	to, from := build.Jump(sets.KeyName("to", s.key)), build.Jump(sets.KeyName("from", s.key))
	name := ruleset.Ifname(bridge)
	for _, a := range s.workload.Addresses {
		f, addr := sets.FamilyOf(a), ruleset.Addr(a)
		put(mapBridgeTo(f), sets.Element(&to, name, addr))
		put(mapBridgeFrom(f), sets.Element(&from, name, addr))
		put(sourceSet(f), sets.Element(nil, name, addr))
		put(setBridgePorts(f), sets.Element(nil, ruleset.Ifname(port), addr))
		for _, other := range s.workload.Addresses {
			if sets.FamilyOf(other) == f {
				put(setBridgeOwn(f), sets.Element(nil, name, addr, ruleset.Addr(other)))
			}
		}
	}
}

// names returns the interfaces of endpoints, and the configured bridges, in no particular order.
func (i *interfaces) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range i.byName {
			if i.has(name) && !i.bridges.has(name) && !yield(name) {
				return
			}
		}
		for name := range i.bridges.names {
			if !yield(name) {
				return
			}
		}
	}
}

// ofWorkloads reports whether an endpoint has the interface, or the interface is a configured
// bridge.
func (i *interfaces) ofWorkloads(name string) bool { return i.has(name) || i.bridges.has(name) }

// has reports whether an endpoint has the interface.
func (i *interfaces) has(name string) bool {
	x := i.byName[name]
	return x != nil && len(x.claims) > 0
}
