// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"context"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
)

var (
	_ dataplane.Dataplane = (*Dataplane)(nil)
	_ dataplane.Planner   = (*Dataplane)(nil)
	_ dataplane.Watcher   = (*Dataplane)(nil)
)

// Dataplane programs routes, neighbour entries, tunnels and interface settings for a node. It
// translates events into objects of a Keeper. It is not safe for concurrent use, except for the
// methods Watch and Stats.
type Dataplane struct {
	cfg    Config
	keeper *Keeper
	want   *mapper
	// failing is set if the last call returned an error.
	failing bool
}

// New returns a Dataplane that has not connected to the kernel yet. Errors: all problems of the
// Config, joined.
func New(cfg Config) (*Dataplane, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	keeper, err := NewKeeper(KeeperConfig{
		NetNS: cfg.NetNS, Protocol: cfg.Protocol, Tables: cfg.Tables, UnknownRouteTimeout: cfg.UnknownRouteTimeout,
		SysctlFile: cfg.SysctlFile, Devices: cfg.devices(), Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	keeper.view.links.bridges, keeper.view.links.devices = slices.Clone(cfg.Bridges), cfg.devices()
	d := &Dataplane{cfg: cfg, keeper: keeper}
	d.want = newMapper(&d.cfg, keeper)
	return d, nil
}

// Close closes the connection to the kernel and leaves the kernel's state as it is. If the
// Dataplane is used afterwards, it connects again.
func (d *Dataplane) Close() error { return d.keeper.Close() }

// Apply implements dataplane.Dataplane. When the desired state is complete for the first time,
// Apply compares it with the objects of an earlier process. It keeps those that are already right,
// and removes those that are not desired. After an error, the next call retries the failed changes,
// and reports all remaining faults.
//
// If a batch has neither policy nor local endpoints (see dataplane.Batch.OnlyNetwork), and changes
// no object, Apply returns at once. Apply then does not read from the kernel which interfaces have
// changed: a later call of Apply, Resync or Watch reads that. But if the last call returned an
// error, Apply treats such a batch like any other.
func (d *Dataplane) Apply(ctx context.Context, b dataplane.Batch) error {
	d.want.changed = false
	d.want.update(b)
	if !d.want.inSync {
		return nil
	}
	if b.OnlyNetwork() && !d.want.changed && !d.failing {
		return ctx.Err()
	}
	return d.faultsOf(d.keeper.Apply(ctx))
}

// Resync implements dataplane.Dataplane. It reads all our objects from the kernel again, and
// repairs those that differ from the desired state.
func (d *Dataplane) Resync(ctx context.Context) error {
	if !d.want.inSync {
		return nil
	}
	return d.faultsOf(d.keeper.Resync(ctx))
}

// faultsOf converts an error of the Keeper into the faults of endpoints and nodes.
func (d *Dataplane) faultsOf(err error) error {
	faults, general := objectErrors(err)
	if general {
		d.failing = true
		return &dataplane.ApplyError{Backend: backend, Op: "program", Err: err}
	}
	err = d.want.report(faults)
	d.failing = err != nil
	d.want.forgetReleased(faults)
	return err
}

// Teardown implements dataplane.Dataplane. It restores sysctls as Keeper.Teardown does. If it
// fails, it can be called again.
func (d *Dataplane) Teardown(ctx context.Context) error {
	d.want = newMapper(&d.cfg, d.keeper)
	return d.faultsOf(d.keeper.Teardown(ctx))
}

// PlanTeardown returns the changes that Teardown would make, in the form of Keeper.PlanTeardown.
func (d *Dataplane) PlanTeardown(ctx context.Context) (string, error) {
	return d.keeper.PlanTeardown(ctx)
}

// Plan implements dataplane.Planner. The lines are commands of ip, bridge and sysctl.
//
// If Apply would return an error for an endpoint, the plan leaves the endpoint out. But Plan writes
// nothing to the kernel, so it cannot detect every error. For example, a foreign route or neighbour
// entry may be in the place of a desired one. The plan then contains the desired one, although
// Apply would return ErrForeign.
func (d *Dataplane) Plan(ctx context.Context, b dataplane.Batch) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if !d.want.inSync && !b.CarriesInSync() {
		return "", nil
	}
	return d.keeper.planOf(ctx, func(desired *stores) { d.want.fork(desired).update(b) })
}

// Watch keeps the kernel in the desired state, as Keeper.Watch does. It calls drifted for each
// object that Keeper.Watch reports as repaired. It also calls drifted when the set of endpoints at fault changes.
// The Driver then calls Apply, which returns the faults. drifted is called from another goroutine,
// one call at a time, and may block. Watch returns the error of ctx when ctx is done, or another
// error when notifications cannot be received. Watch may run beside all other methods.
func (d *Dataplane) Watch(ctx context.Context, drifted func(dataplane.Drift)) error {
	return d.keeper.Watch(ctx, func(repaired []Object, faultsChanged bool) {
		for _, o := range repaired {
			drifted(dataplane.Drift{Backend: backend, Object: Describe(o), Foreign: true, Repaired: true})
		}
		if faultsChanged {
			drifted(dataplane.Drift{Backend: backend, Object: "set of objects at fault", OnlyFaults: true})
		}
	})
}

// Stats returns the counts so far. It may be called from any goroutine.
func (d *Dataplane) Stats() Stats { return d.keeper.Stats() }
