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

// pass is one attempt to bring the kernel to the wanted state.
type pass struct {
	k        *Keeper
	failures []*ObjectError
	// blocked are interfaces, by name, that are not as they should be, or one of whose settings is
	// not.
	blocked map[string]bool
	// again is when to look again without being asked.
	again time.Time
	// inTheWay means that the ownership or existence of some object is unknown.
	inTheWay bool
	// dry means that lines are written instead of changes made.
	dry   bool
	lines []string
}

func newPass(k *Keeper) *pass { return &pass{k: k, blocked: map[string]bool{}} }

// reconcile brings the kernel to the wanted state. If something of unknown ownership is in the way
// that was not after the last reading, it reads everything and tries once more.
func (k *Keeper) reconcile(ctx context.Context) error {
	p, err := k.attempt(ctx)
	if err == nil && p.inTheWay && ctx.Err() == nil {
		k.known = false
		p, err = k.attempt(ctx)
	}
	if err != nil {
		return err
	}
	k.failing, k.again = p.failures, p.again
	return joinFailures(p.failures)
}

func joinFailures(failures []*ObjectError) error {
	errs := make([]error, len(failures))
	for i, f := range failures {
		errs[i] = f
	}
	return errors.Join(errs...)
}

// attempt makes one pass. An error means that nothing is known of any object.
func (k *Keeper) attempt(ctx context.Context) (*pass, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := k.connect(); err != nil {
		return nil, err
	}
	err := k.poll()
	if err == nil && !k.known {
		err = k.read()
	}
	p := newPass(k)
	if err == nil {
		err = p.run()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("routes: %w", err), k.closeLocked()) // there is nothing to lose
	}
	return p, nil
}

// run makes the changes, or says them: removals first, and nothing is sent to a workload before its
// interface is as it should be and its neighbour entry is there. Devices alone come before, because
// an interface must be there for a plan to be made of it; those that nobody wants go last, with
// nothing on them any more.
func (p *pass) run() error {
	unwanted, err := p.keepDevices()
	if err != nil {
		return err
	}
	p.keepSettings()
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
		p.inTheWay = p.inTheWay || c.slot.key.Extra
	}
	for _, step := range []func() error{
		func() error { return doObjects(p, p.k.rules, lostRules) },
		func() error { return p.doRoutes(lostRoutes) },
		func() error { return doObjects(p, p.k.entries, lostEntries) },
		func() error { return doObjects(p, p.k.entries, entries) },
		func() error { return p.doRoutes(routes) },
		func() error { return doObjects(p, p.k.rules, rules) },
		func() error { return p.removeDevices(unwanted) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) printStep(line string) { p.lines = append(p.lines, line+"\n") }

// send makes the changes of the batch; failed gets the index and the kernel's reason of those that
// it refused.
func (p *pass) send(failed func(i int, err error)) error {
	if p.k.batch.Len() == 0 {
		return nil
	}
	return p.k.through(p.k.conn).Do(&p.k.batch, failed)
}

// deviceRounds is how often devices are looked at in one pass, while somebody else changes them.
const deviceRounds = 4

// keepDevices makes devices what they are to be, and returns the names of those that nobody wants.
func (p *pass) keepDevices() (unwanted []string, err error) {
	s := p.k.devices
	if !s.stale {
		return nil, nil
	}
	failed := map[string]error{}
	for range deviceRounds {
		s.stale = false
		if changed := p.eachDevice(failed); !changed || p.dry {
			break
		}
		if err := p.k.poll(); err != nil { // for the index of a new device, and what somebody did meanwhile
			return nil, err
		}
		if !p.k.known {
			if err := p.k.read(); err != nil {
				return nil, err
			}
		}
	}
	if s.stale {
		p.wait(p.k.now())
	}
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		p.fail("keep device", s.wanted[name], failed[name])
		p.blocked[name] = true // it may be another's, and lead anywhere
		s.stale = true
	}
	return p.k.strayDevices(), nil
}

// strayDevices returns the names of our devices that nobody wants.
func (k *Keeper) strayDevices() []string {
	var own []string
	if k.ending {
		own = k.ownDevices
	}
	return strayDevices(k.devices.wanted, own, k.cfg.Protocol, k.links)
}

// eachDevice makes the changes that devices need, and reports whether there were any. It notes what
// failed last.
func (p *pass) eachDevice(failed map[string]error) (changed bool) {
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
			p.pretend(name, steps)
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

// pretend says the steps, and has the device be what it would be after them: there and up, with a
// negative index if it is another, and without what it would lose.
func (p *pass) pretend(name string, steps []deviceStep) {
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
			p.k.devices.stale = true
		}
	}
	return nil
}
