// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// Dataplane programs events into one nftables table.
//
// A batch is one transaction of the kernel, in proportion to what the batch changes. A packet on its way through at that moment may meet the
// old policy, the new one or both; never neither. Counters of rules that stay go on. A batch that does not
// change the table makes no transaction.
//
// It implements dataplane.Dataplane, dataplane.Planner and dataplane.Watcher, and is not safe for concurrent use, but for Watch, ConntrackStats and ClassStats.
type Dataplane struct {
	config   Config
	renderer *Renderer
	applier  *applier.Applier
	// namespace is where the interfaces are, until it is released; byAddress says that host endpoints are found by their addresses.
	namespace int
	release   func() error
	byAddress atomic.Bool
	// stale ends flows that policy no longer allows; nil if it shall not.
	stale  *staleFlows
	inSync bool
	// settled says that the kernel was brought to the desired state when that was last tried.
	settled bool
	// classes are the counts of the last change; nil before the first.
	classes atomic.Pointer[ClassStats]
	// whole says that the applier was not told of a change: it must be told of everything.
	whole bool
}

var (
	_ dataplane.Dataplane = (*Dataplane)(nil)
	_ dataplane.Planner   = (*Dataplane)(nil)
	_ dataplane.Watcher   = (*Dataplane)(nil)
)

// New returns a Dataplane for one network namespace, with nothing in its desired state. It opens netlink
// sockets, which Close closes, and writes nothing.
//
// Errors: a config that is not valid, those of opening the sockets, and errors.ErrUnsupported on anything but Linux.
func New(cfg Config) (*Dataplane, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r, err := NewRenderer(cfg.Renderer)
	if err != nil {
		return nil, err
	}
	a, err := applier.New(applier.Config{Name: r.cfg.Table, NetNS: cfg.NetNS, Logger: cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("nft: open: %w", err)
	}
	cfg.Renderer = r.cfg
	d := &Dataplane{config: cfg, renderer: r, applier: a}
	if d.namespace, d.release, err = keepNamespace(cfg.NetNS); err != nil {
		return nil, errors.Join(fmt.Errorf("nft: open: %w", err), d.Close())
	}
	if cfg.ConntrackPolicy == conntrack.End {
		if d.stale, err = newStaleFlows(cfg, r.cfg.Table); err != nil {
			return nil, errors.Join(fmt.Errorf("nft: open: %w", err), d.Close())
		}
	}
	return d, nil
}

// Close closes the sockets and leaves the table in the kernel as it is: packets
// are judged as before. Connections that were still to be ended go on. Errors: those of closing them.
func (d *Dataplane) Close() error {
	var err error
	if d.stale != nil {
		err = d.stale.close()
	}
	return errors.Join(err, d.applier.Close(), d.release())
}

// Table returns a copy of the table as it is desired, or nil before there is one. The kernel holds it unless the last call said
// otherwise. It takes time in proportion to the table.
func (d *Dataplane) Table() *ruleset.Table { return d.applier.Table() }

// Stats returns what has been programmed so far.
func (d *Dataplane) Stats() applier.Stats { return d.applier.Stats() }

// ConntrackStats returns what was done about connections that a change of policy denies. It may be called from any goroutine; all
// is zero with conntrack.Keep. That nothing is Pending means that the connections were looked at after the last change of the table.
func (d *Dataplane) ConntrackStats() conntrack.Stats {
	if d.stale == nil {
		return conntrack.Stats{}
	}
	return d.stale.stats()
}

// ClassStats says how much policy came to at the last call of Apply or Resync that was in sync. It may be called from any goroutine.
func (d *Dataplane) ClassStats() ClassStats {
	if s := d.classes.Load(); s != nil {
		return *s
	}
	return ClassStats{}
}

// Apply takes the batch into the desired state. Once that is in sync, it programs what is different; the first time, it adopts what
// an earlier run left in the table.
//
// An object that cannot be rendered, or whose chains or sets the kernel refuses, is left failing closed and reported, and so is each endpoint
// that needs it; the rest is programmed. If the kernel refuses the whole, the table stays as it was, and the error has no Object. The
// next call tries again.
//
// With conntrack.End it then ends the connections of addresses that went away or to another endpoint, which takes two microseconds for
// each connection of the node if there is such an address; those that policy denies from now on are ended later, by a goroutine.
//
// Errors: a join of *dataplane.ApplyError, and that of the context if it is done before anything was written, or before those connections were ended.
func (d *Dataplane) Apply(ctx context.Context, b dataplane.Batch) error {
	d.renderer.Update(b)
	if d.stale != nil {
		d.stale.update(b)
	}
	d.inSync = d.inSync || b.CarriesInSync()
	if d.settled && b.OnlyNetwork() && !d.renderer.pending() {
		return nil // such batches come often
	}
	return d.program(ctx)
}

// Resync reads the addresses of interfaces again, if a host endpoint is found by them, and repairs the table if another process has
// changed it.
//
// Errors as for Apply.
func (d *Dataplane) Resync(ctx context.Context) error { return d.program(ctx) }

// Teardown deletes the table, whoever made it, and forgets the desired state: the next batch that counts
// is one with InSync. That there is no such table is no error.
//
// Errors: *dataplane.ApplyError, and that of the context if it is done already.
func (d *Dataplane) Teardown(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := NewRenderer(d.config.Renderer)
	if err != nil {
		return err
	}
	d.renderer, d.inSync, d.settled, d.whole = r, false, false, false
	d.classes.Store(nil)
	if d.stale != nil {
		d.stale.reset()
	}
	return d.applier.Teardown(ctx)
}

// Plan returns the changes that the batch would make to the table, in the syntax of nft. It is empty if Apply would
// write nothing, or is not in sync even after the batch; before the first write it is the whole table. Objects that cannot be rendered show as Apply
// would leave them. It takes time in proportion to the table.
//
// Errors: a table that is not valid, which would be a mistake of this package.
func (d *Dataplane) Plan(_ context.Context, b dataplane.Batch) (string, error) {
	next := d.renderer.Clone()
	next.Update(b)
	if !d.inSync && !b.CarriesInSync() {
		return "", nil
	}
	table, _ := next.Table()
	ops, err := d.applier.PlanTable(table)
	if err != nil {
		return "", err
	}
	return ruleset.Script(ops), nil
}

// program brings the kernel to the desired state.
func (d *Dataplane) program(ctx context.Context) error {
	if !d.inSync {
		return nil
	}
	d.settled = false // also if the context is done: what the batch said is still to do
	if err := ctx.Err(); err != nil {
		return err
	}
	var errs []error
	byAddress := d.renderer.NeedsInterfaces()
	d.byAddress.Store(byAddress)
	if byAddress {
		addrs, err := d.readInterfaces()
		if err != nil {
			errs = append(errs, &dataplane.ApplyError{Backend: backend, Op: "read addresses of interfaces", Err: err})
		} else {
			d.renderer.SetInterfaces(addrs)
		}
	}
	delta := d.renderer.Flush()
	classes := d.renderer.ClassStats()
	d.classes.Store(&classes)
	err := d.write(ctx, delta)
	of, told := d.attribute(err)
	d.whole = !told
	errs = append(append(errs, d.renderer.Errors()...), of...)
	if d.stale != nil && programmed(err) {
		if err := d.stale.programmed(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	d.settled = len(errs) == 0
	return errors.Join(errs...)
}

// write hands a change to the applier, or if that was not told of an earlier one, the whole table.
func (d *Dataplane) write(ctx context.Context, delta *ruleset.Delta) error {
	var whole *ruleset.Table
	if d.whole {
		whole, _ = d.renderer.Table()
	}
	if d.stale != nil {
		all := whole
		if all == nil && d.stale.crowded() {
			all, _ = d.renderer.Table()
		}
		d.stale.changed(delta, all)
	}
	if whole != nil {
		return d.applier.Apply(ctx, whole)
	}
	return d.applier.Update(ctx, delta)
}

// programmed reports whether the applier has programmed everything but what the kernel refuses: that drops.
func programmed(err error) bool {
	for _, err := range unjoined(err) {
		var refused *applier.ObjectError
		if !errors.As(err, &refused) {
			return false
		}
	}
	return true
}

// attribute says whom the errors of the applier concern. Told is false if the applier has not taken the change into its desired state.
func (d *Dataplane) attribute(err error) (out []error, told bool) {
	told = true
	for _, err := range unjoined(err) {
		var apply *dataplane.ApplyError
		if !errors.As(err, &apply) {
			told = false
			out = append(out, &dataplane.ApplyError{Backend: backend, Op: "program table " + d.renderer.cfg.Table, Err: err})
			continue
		}
		keys := d.concerned(apply)
		if len(keys) == 0 {
			out = append(out, apply)
		}
		for _, key := range keys {
			out = append(out, &dataplane.ApplyError{Backend: backend, Op: "program", Object: key, Detail: apply.Detail, Err: apply.Err})
		}
	}
	return out, told
}

// concerned returns the objects whose traffic suffers from a chain or set that the kernel does not take. None means
// that it is everybody's.
func (d *Dataplane) concerned(e *dataplane.ApplyError) []policy.Key {
	var object *applier.ObjectError
	if !errors.As(e, &object) {
		return nil
	}
	chains := object.Chains
	if object.Object.Kind == "chain" {
		chains = append(chains[:len(chains):len(chains)], object.Object.Name)
	}
	return d.renderer.Affected(chains...)
}

// unjoined returns the errors that were joined.
func unjoined(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, one := range joined.Unwrap() {
			out = append(out, unjoined(one)...)
		}
		return out
	}
	return []error{err}
}
