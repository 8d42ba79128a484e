// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// pass is one attempt to bring the kernel to the desired state.
type pass struct {
	cfg *KeeperConfig
	// view has the stores and the connection to the kernel.
	view    *kernelView
	saved   *savedSysctls
	repairs *repairs
	stats   *Stats
	// blocked has the names of interfaces that get no routes, because the interface itself or one
	// of its settings is at fault.
	blocked map[string]bool
	// failed has the errors of devices by name.
	failed map[string]error
	// dry means that changes are not made, but written to result.lines. additionsOnly means that
	// unwanted objects stay for now.
	dry, additionsOnly bool
	result             result
}

// run makes or prints the changes, in this order:
//
//  1. Devices, because a plan needs the interfaces.
//  2. Sysctls, because the route to a workload comes after the settings of its interface.
//  3. Additions. The route to a workload comes after its neighbour entry.
//  4. Removals.
//  5. Removals of unwanted devices, which have no objects by then.
//  6. Removals of blackhole routes.
//
// Additions come before removals, because every packet must find the old object or the new one:
// without either it could use an unencrypted route. For the same reason, no rule is removed if the
// kernel refuses a new one. Also for this reason, a blackhole route stays while packets can come in
// by the unwanted devices.
func (p *pass) run() error {
	unwanted, err := p.updateDevices()
	if err != nil {
		return err
	}
	p.updateSettings()
	lostRules, rules, err := planObjects(p, p.view.stores.rules)
	if err != nil {
		return err
	}
	lostRoutes, routes := p.planRoutes()
	lostEntries, entries, err := planObjects(p, p.view.stores.entries)
	if err != nil {
		return err
	}
	// The deletion of a rule may match another rule of ours. Then everything is read again.
	p.result.conflict = p.result.conflict || len(lostRules) > 0 && len(rules) > 0
	for _, c := range lostRules {
		p.result.conflict = p.result.conflict || c.slot.key.Extra
	}
	ambiguous, lostRoutes, last := splitDeletions(lostRoutes, routes, p.view.stores.routes.tables)
	for _, step := range []func() error{
		func() error { return p.sendRoutes(ambiguous) },
		func() error { return sendObjects(p, p.view.stores.entries, entries) },
		func() error { return p.sendRoutes(routes) },
		func() error { return p.replaceRules(rules, lostRules) },
		func() error { return p.sendRoutes(lostRoutes) },
		func() error { return sendObjects(p, p.view.stores.entries, lostEntries) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if !p.removeDevices(unwanted) {
		for _, c := range last {
			p.view.stores.routes.markDirty(c.slot)
		}
		return nil
	}
	return p.sendRoutes(last)
}

// replaceRules adds and removes rules. If an addition is refused, the unwanted rules stay for now.
func (p *pass) replaceRules(added, lost []ruleChange) error {
	failures := len(p.result.failures)
	if err := sendObjects(p, p.view.stores.rules, added); err != nil {
		return err
	}
	if len(p.result.failures) == failures {
		return sendObjects(p, p.view.stores.rules, lost)
	}
	for _, c := range lost {
		p.view.stores.rules.markDirty(c.slot)
	}
	return nil
}

// deviceRounds is how often one pass compares devices with the desired state, if each time there
// are changes to make.
const deviceRounds = 4

// updateDevices brings devices to the desired state, and returns the names of unwanted devices.
func (p *pass) updateDevices() (unwanted []string, err error) {
	s := p.view.stores.devices
	if !s.dirty {
		return nil, nil
	}
	p.failed = map[string]error{}
	for range deviceRounds {
		s.dirty = false
		if changed := p.changeDevices(p.failed); !changed || p.dry {
			break
		}
		if err := p.view.update(); err != nil { // for the index of a new device, and changes by other processes
			return nil, err
		}
	}
	if s.dirty {
		p.result.wait(p.view.now())
	}
	for _, name := range slices.Sorted(maps.Keys(p.failed)) {
		p.result.fail("keep device", s.desired[name], p.failed[name])
		p.blocked[name] = true // the device may belong to another process
		s.dirty = true
	}
	if p.additionsOnly {
		s.dirty = true
		return nil, nil
	}
	return p.view.unwantedDevices(), nil
}

// changeDevices makes the changes that devices need, and reports whether there were any. failed
// gets the error of each device.
func (p *pass) changeDevices(failed map[string]error) (changed bool) {
	s := p.view.stores.devices
	clear(failed)
	for _, name := range slices.Sorted(maps.Keys(s.desired)) {
		want := s.desired[name]
		err := want.validate()
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrObject, err)
		}
		var steps []deviceStep
		if err == nil {
			steps, err = planDevice(p.view.sockets.conn, want, p.cfg.Protocol, p.view.links)
		}
		switch {
		case len(steps) > 0 && p.dry:
			p.simulate(name, steps)
			changed = true
		case len(steps) > 0:
			err = runSteps(p.view.sockets.conn, name, p.view.links, steps)
			changed = true
		}
		if err != nil {
			failed[name] = err
		}
	}
	return changed
}

// simulate prints the steps. Then it sets the observed state that the steps would lead to. The
// device exists and is up; a new device has a negative index. Objects that the device would lose
// are gone.
func (p *pass) simulate(name string, steps []deviceStep) {
	link, exists := p.view.links.named(name)
	for _, step := range steps {
		p.result.print(step.text)
		if exists && step.forgets {
			forgetNeighbours(p.view.stores.entries, link.Index)
		}
		if step.remakes {
			if exists {
				f := newLinkEvents()
				f.add(p.view.links.update(&rtnl.Event{Group: rtnl.GroupLinks, Link: link, Gone: true}, time.Time{}), 1)
				flushEntries(p.view.stores.entries, f)
				p.view.stores.routes.flush(f)
			}
			link, exists = rtnl.Link{Name: name, Index: -1 - len(p.view.links.ByIndex), Kind: deviceKinds()[0]}, false
		}
	}
	link.Up = true
	p.view.links.update(&rtnl.Event{Group: rtnl.GroupLinks, Link: link}, time.Time{})
}

// removeDevices removes devices, and reports whether all are gone.
func (p *pass) removeDevices(names []string) bool {
	failures := len(p.result.failures)
	for _, name := range names {
		step := deleteDevice(name)
		if p.dry {
			p.result.print(step.text)
			continue
		}
		if err := runSteps(p.view.sockets.conn, name, p.view.links, []deviceStep{step}); err != nil {
			p.result.fail("delete device", unwantedDevice(name), err)
			p.view.stores.devices.dirty = true
			continue
		}
		p.result.stale = p.result.stale || len(p.failed) > 0 // a desired device may have needed the same parameters
	}
	return len(p.result.failures) == failures
}
