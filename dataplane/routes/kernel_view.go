// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"maps"
	"slices"
	"time"

	"github.com/wayleave/wayleave/internal/rtnl"
)

var families = [...]int{4, 6}

// kernelView keeps the observed state of the stores equal to the kernel's state. It reads all
// objects once, and then applies the kernel's notifications.
type kernelView struct {
	sockets *sockets
	stores  *stores // kernelView changes their observed state only
	now     func() time.Time
	links   *links
	// synced is set while the observed state of the stores is complete.
	synced bool
	// events counts the events of the monitor.
	events uint64
	// readings counts how often all objects were read; missed, how often notifications were lost.
	readings, missed uint64
}

// fork returns a view of the same kernel with other stores, for a plan.
func (k *kernelView) fork(desired *stores) *kernelView {
	fork := &kernelView{sockets: k.sockets, stores: desired, now: k.now, links: k.links.fork()}
	fork.links.ByIndex = k.links.ByIndex // has the time since when each interface exists; reading replaces the map
	return fork
}

// connect opens the sockets unless they are open.
func (k *kernelView) connect() error {
	if k.sockets.conn != nil {
		return nil
	}
	k.synced = false
	return k.sockets.open()
}

// disconnect closes the sockets if they are open.
func (k *kernelView) disconnect() error {
	if k.sockets.conn == nil {
		return nil
	}
	k.synced = false // notifications are lost from now on
	return k.sockets.close()
}

// deviceIndexes returns the indexes of the desired devices that exist, by name.
func (k *kernelView) deviceIndexes() map[string]int {
	indexes := map[string]int{}
	for name := range k.stores.devices.desired {
		if link, exists := k.links.named(name); exists {
			indexes[name] = link.Index
		}
	}
	return indexes
}

// update applies the notifications since the last call. If they are incomplete, it reads
// everything.
func (k *kernelView) update() error {
	if err := k.poll(); err != nil || k.synced {
		return err
	}
	return k.read()
}

// read reads everything of ours.
func (k *kernelView) read() error {
	k.readings++
	if err := k.links.read(k.sockets.conn, k.now()); err != nil {
		return err
	}
	if err := k.readRoutes(); err != nil {
		return err
	}
	if err := k.readEntries(); err != nil {
		return err
	}
	k.stores.rules.begin()
	for _, family := range families {
		rules, err := k.sockets.conn.Rules(family, k.stores.protocol)
		if err != nil {
			return err
		}
		for _, r := range rules {
			k.stores.rules.read(ruleKey(r), 0, struct{}{})
		}
	}
	k.stores.rules.end()
	for _, slot := range k.stores.settings.slots {
		k.stores.settings.markDirty(slot)
	}
	k.stores.devices.dirty = true
	k.flushPorts()
	k.synced = true
	return nil
}

func (k *kernelView) readRoutes() error {
	k.stores.routes.begin()
	each := func(r *rtnl.Route) { k.stores.routes.read(r, k.links) }
	for _, table := range k.stores.routes.tables {
		for _, family := range families {
			attempt := 0
			begin := func() {
				if attempt++; attempt > 1 {
					k.stores.routes.forget(func(key routeKey) bool {
						return key.table == table && key.dst.Addr().Is6() == (family == 6)
					})
				}
			}
			f := rtnl.RouteFilter{Family: family, Table: table, Protocol: k.stores.protocol}
			if err := k.sockets.conn.Routes(f, begin, each); err != nil {
				return err
			}
		}
	}
	k.stores.routes.end()
	return nil
}

func (k *kernelView) readEntries() error {
	k.stores.entries.begin()
	for _, family := range families {
		for _, proxy := range []bool{false, true} {
			neighbours, err := k.sockets.conn.Neighbours(family, k.stores.protocol, proxy)
			if err != nil {
				return err
			}
			for _, n := range neighbours {
				if key, v, ok := k.neighbourEntry(n); ok {
					k.stores.entries.read(key, n.Index, v)
				}
			}
		}
	}
	devices := slices.Collect(maps.Keys(k.stores.devices.desired))
	if k.stores.tearingDown {
		devices = append(devices, k.unwantedDevices()...)
	}
	for _, name := range devices {
		if err := k.readForwards(name); err != nil {
			return err
		}
	}
	k.stores.entries.end()
	return nil
}

// readForwards reads the forwarding database of a device of ours. All its entries are ours.
func (k *kernelView) readForwards(name string) error {
	link, ok := k.links.named(name)
	if !ok || foreignDevice(link, k.stores.protocol) {
		return nil
	}
	forwards, err := k.sockets.conn.Forwards(link.Index)
	if err != nil {
		return err
	}
	for _, f := range forwards {
		key, v, _ := k.neighbourEntry(f)
		k.stores.entries.read(key, f.Index, v)
	}
	return nil
}

// neighbourEntry returns the entry for a neighbour of the kernel. ok is false for an entry that the
// kernel learned or is about to drop.
func (k *kernelView) neighbourEntry(n rtnl.Neighbour) (key entryKey, v entryValue, ok bool) {
	link, ok := k.links.index(n.Index)
	key = entryKey{kind: kindNeighbour, dev: link.Name, addr: n.Addr}
	switch {
	case n.Forward:
		key = entryKey{kind: kindFDB, dev: link.Name, mac: MAC(n.MAC)}
		if !n.Extra && n.State&rtnl.StatePermanent != 0 { // others are never desired
			v.dst = n.Addr
		}
	case n.Proxy:
		key.kind = kindProxy
	default:
		v.mac, ok = MAC(n.MAC), ok && n.Static()
	}
	return key, v, ok
}

// unwantedDevices returns the names of our unwanted devices.
func (k *kernelView) unwantedDevices() []string {
	return unwantedDevices(k.stores.devices.desired, k.stores.devices.own, k.stores.protocol, k.links)
}

// markSysctls marks the sysctls of an interface to be read again. It also does so after a change of
// our own, because a notification does not name the process that changed them.
func (k *kernelView) markSysctls(index int, f *linkEvents) {
	switch index {
	case rtnl.AllInterfaces:
		f.sysctls["all"] = true
	case rtnl.DefaultInterface:
		f.sysctls["default"] = true
	default:
		if link, ok := k.links.index(index); ok {
			f.sysctls[link.Name] = true
		}
	}
}

// poll applies the notifications since the last call.
func (k *kernelView) poll() error {
	f := newLinkEvents()
	missed, err := k.sockets.monitor.Poll(func(e *rtnl.Event) { k.observe(e, f) })
	if err != nil {
		return err
	}
	if missed {
		k.missed++
		k.synced = false
	}
	if len(f.names)+len(f.sysctls) > 0 {
		flushSettings(k.stores.settings, f)
	}
	if !k.synced || !f.any() {
		return nil
	}
	k.stores.routes.flush(f)
	if flushEntries(k.stores.entries, f) && f.renamed {
		k.synced = false // entries are known by the name of their interface
	}
	k.stores.devices.dirty = k.stores.devices.dirty || f.reachability || f.renamed || f.altered
	return nil
}

func (k *kernelView) observe(e *rtnl.Event, f *linkEvents) {
	k.events++
	switch e.Group {
	case rtnl.GroupLinks, rtnl.GroupAddresses:
		index := e.Link.Index
		if e.Group == rtnl.GroupAddresses {
			index = 0
		}
		before := k.links.portsOf(index)
		f.add(k.links.update(e, k.now()), k.events)
		f.addPorts(before, k.links.portsOf(index))
		// The event may be about a change of a device's parameters.
		k.stores.devices.dirty = k.stores.devices.dirty || k.stores.devices.has(e.Link.Name)
	case rtnl.GroupNetconf:
		k.markSysctls(e.Index, f)
	case rtnl.GroupRoutes:
		k.stores.routes.observe(e, k.events, k.links)
	case rtnl.GroupRules:
		if e.Rule.Protocol == k.stores.protocol {
			k.stores.rules.observe(ruleKey(e.Rule), 0, struct{}{}, k.events, true, e.Gone)
		}
	case rtnl.GroupNeighbours:
		key, v, ok := k.neighbourEntry(e.Neighbour)
		ours := e.Neighbour.Protocol == k.stores.protocol
		if e.Neighbour.Forward {
			link, _ := k.links.index(e.Neighbour.Index)
			ours = k.stores.devices.has(link.Name) && !foreignDevice(link, k.stores.protocol) && key.mac != MAC{}
		}
		if o := k.stores.entries.slots[key]; o != nil && o.state.ceded && !ours && !e.Neighbour.Static() {
			return // an entry that the kernel learned
		}
		k.stores.entries.observe(key, e.Neighbour.Index, v, k.events, ours, e.Gone || !ok)
	}
}
