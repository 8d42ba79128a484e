// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// pass is one attempt to bring the kernel to the desired state.
type pass struct {
	k        *Keeper
	failures []*ObjectError
	// blocked are the names of interfaces at fault, or with a setting at fault: they get no routes.
	blocked map[string]bool
	// wakeAt is when Watch makes a pass without a notification.
	wakeAt time.Time
	// conflict means that the ownership or existence of some object is unknown.
	conflict bool
	// dry means that changes are printed to lines and not made.
	dry   bool
	lines []string
}

func newPass(k *Keeper) *pass { return &pass{k: k, blocked: map[string]bool{}} }

// reconcile brings the kernel to the desired state. After a conflict with an object that was not in
// the last dump, it reads everything and tries once more.
func (k *Keeper) reconcile(ctx context.Context) error {
	p, err := k.attempt(ctx)
	if err == nil && p.conflict && ctx.Err() == nil {
		k.synced = false
		p, err = k.attempt(ctx)
	}
	if err != nil {
		return err
	}
	k.failing, k.wakeAt = p.failures, p.wakeAt
	return joinFailures(p.failures)
}

func joinFailures(failures []*ObjectError) error {
	errs := make([]error, len(failures))
	for i, f := range failures {
		errs[i] = f
	}
	return errors.Join(errs...)
}

// attempt makes one pass. An error means that the state of all objects is unknown.
func (k *Keeper) attempt(ctx context.Context) (*pass, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := k.connect(); err != nil {
		return nil, err
	}
	err := k.poll()
	if err == nil && !k.synced {
		err = k.read()
	}
	p := newPass(k)
	if err == nil {
		err = p.run()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("routes: %w", err), k.closeLocked()) // the next pass connects again
	}
	return p, nil
}

// run makes or prints the changes: removals first, and the route to a workload after its neighbour
// entry and the settings of its interface. Only devices come earlier, because a plan needs the
// interfaces. Unwanted devices are removed last, without objects on them.
func (p *pass) run() error {
	unwanted, err := p.updateDevices()
	if err != nil {
		return err
	}
	p.updateSettings()
	lostRules, rules, err := planObjects(p, p.k.rules)
	if err != nil {
		return err
	}
	lostRoutes, routes := p.planRoutes()
	lostEntries, entries, err := planObjects(p, p.k.entries)
	if err != nil {
		return err
	}
	for _, c := range lostRules { // the kernel may delete one of ours instead, so all is read again
		p.conflict = p.conflict || c.slot.key.Extra
	}
	for _, step := range []func() error{
		func() error { return sendObjects(p, p.k.rules, lostRules) },
		func() error { return p.sendRoutes(lostRoutes) },
		func() error { return sendObjects(p, p.k.entries, lostEntries) },
		func() error { return sendObjects(p, p.k.entries, entries) },
		func() error { return p.sendRoutes(routes) },
		func() error { return sendObjects(p, p.k.rules, rules) },
		func() error { return p.removeDevices(unwanted) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) printStep(line string) { p.lines = append(p.lines, line+"\n") }

// send makes the changes of the batch. It calls failed with the index and the kernel's error of each
// refused one.
func (p *pass) send(failed func(i int, err error)) error {
	if p.k.batch.Len() == 0 {
		return nil
	}
	return p.k.newSender(p.k.conn).Do(&p.k.batch, failed)
}

// deviceRounds is how often one pass compares devices while another process changes them.
const deviceRounds = 4

// updateDevices changes devices as wanted, and returns the names of unwanted ones.
func (p *pass) updateDevices() (unwanted []string, err error) {
	s := p.k.devices
	if !s.dirty {
		return nil, nil
	}
	failed := map[string]error{}
	for range deviceRounds {
		s.dirty = false
		if changed := p.changeDevices(failed); !changed || p.dry {
			break
		}
		if err := p.k.poll(); err != nil { // for the index of a new device, and changes by other processes
			return nil, err
		}
		if !p.k.synced {
			if err := p.k.read(); err != nil {
				return nil, err
			}
		}
	}
	if s.dirty {
		p.wait(p.k.now())
	}
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		p.fail("keep device", s.wanted[name], failed[name])
		p.blocked[name] = true // it may belong to another process
		s.dirty = true
	}
	return p.k.strayDevices(), nil
}

// strayDevices returns the names of our unwanted devices.
func (k *Keeper) strayDevices() []string {
	var own []string
	if k.tearingDown {
		own = k.ownDevices
	}
	return strayDevices(k.devices.wanted, own, k.cfg.Protocol, k.links)
}

// changeDevices makes the changes that devices need, and reports whether there were any. failed gets
// the error of each device.
func (p *pass) changeDevices(failed map[string]error) (changed bool) {
	s := p.k.devices
	clear(failed)
	for _, name := range slices.Sorted(maps.Keys(s.wanted)) {
		want := s.wanted[name]
		err := want.validate()
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrObject, err)
		}
		var steps []deviceStep
		if err == nil {
			steps, err = planDevice(p.k.conn, want, p.k.cfg.Protocol, p.k.links)
		}
		switch {
		case len(steps) > 0 && p.dry:
			p.simulate(name, steps)
			changed = true
		case len(steps) > 0:
			err = runSteps(p.k.conn, name, p.k.links, steps)
			changed = true
		}
		if err != nil {
			failed[name] = err
		}
	}
	return changed
}

// simulate prints the steps, and sets the observed state of the device after them: present and up,
// with a negative index if it is a new one, and without the objects that it would lose.
func (p *pass) simulate(name string, steps []deviceStep) {
	link, exists := p.k.links.named(name)
	for _, step := range steps {
		p.printStep(step.text)
		if exists && step.forgets {
			forgetNeighbours(p.k.entries, link.Index)
		}
		if step.remakes {
			if exists {
				f := newFlush()
				f.add(p.k.links.update(&rtnl.Event{Group: rtnl.GroupLinks, Link: link, Gone: true}, time.Time{}), 1)
				flushEntries(p.k.entries, f)
				p.k.routes.flush(f)
			}
			link, exists = rtnl.Link{Name: name, Index: -1 - len(p.k.links.ByIndex), Kind: deviceKinds()[0]}, false
		}
	}
	link.Up = true
	p.k.links.update(&rtnl.Event{Group: rtnl.GroupLinks, Link: link}, time.Time{})
}

func (p *pass) removeDevices(names []string) error {
	for _, name := range names {
		step := deleteDevice(name)
		if p.dry {
			p.printStep(step.text)
			continue
		}
		if err := runSteps(p.k.conn, name, p.k.links, []deviceStep{step}); err != nil {
			p.fail("delete device", unwantedDevice(name), err)
			p.k.devices.dirty = true
		}
	}
	return nil
}
