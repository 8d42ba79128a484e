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
	"github.com/wayleave/wayleave/dataplane/nft/internal/late"
	"github.com/wayleave/wayleave/dataplane/nft/internal/observed"
	"github.com/wayleave/wayleave/dataplane/nft/internal/revoke"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// Dataplane programs events into one nftables table. With render.Config.Bridges, it has a second
// table, of family bridge. Because of this table, no port of a bridge can send from the address of
// another port.
//
// Usually, a batch is programmed in one transaction. Some batches need several transactions, for
// example if they add chains, or if an address moves to another endpoint. Even then, each packet
// sees either the policy before the batch or the policy after it; docs/nft.md lists the exceptions.
// Rules that do not change keep their counters. A batch that does not change the table makes no
// transaction.
//
// Dataplane implements dataplane.Dataplane, Planner, Watcher, Finisher and Limited. It is not safe
// for concurrent use, except for Watch, Compare, Table, Bridges, ConntrackStats and ClassStats.
type Dataplane struct {
	config     Config
	interfaces *observed.Interfaces
	*writer
	handover *handover
	ports    *portTable
	late     *late.Table
	inSync   bool
	// upToDate is set if the last attempt brought the kernel to the desired state.
	upToDate bool
	// classes has the result of ClassStats after the last change; nil before the first.
	classes atomic.Pointer[render.ClassStats]
	// bridges has the result of Bridges after the last change; nil before the first.
	bridges   atomic.Pointer[map[string]string]
	limitsLog limitsLog
	closed    atomic.Bool
}

var (
	_ dataplane.Dataplane = (*Dataplane)(nil)
	_ dataplane.Planner   = (*Dataplane)(nil)
	_ dataplane.Watcher   = (*Dataplane)(nil)
	_ dataplane.Finisher  = (*Dataplane)(nil)
	_ dataplane.Limited   = (*Dataplane)(nil)
)

// New returns a Dataplane for one network namespace. Its desired state is empty. New opens netlink
// sockets, but writes nothing to the kernel. Close closes the sockets.
//
// Errors: an invalid Config; those of opening the sockets; on systems other than Linux,
// errors.ErrUnsupported.
func New(cfg Config) (*Dataplane, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r, err := render.New(cfg.Renderer)
	if err != nil {
		return nil, err
	}
	if err := cfg.Flowtable.validate(r.Config()); err != nil {
		return nil, err
	}
	a, err := applier.New(applier.Config{
		Name: r.Config().Table, NetNS: cfg.NetNS, Shared: cfg.Shared, BeforeWrite: cfg.BeforeWrite, Logger: cfg.Logger,
		Epoch: r.Epoch(), Stages: render.Stages(), Translations: render.Translations(),
	})
	if err != nil {
		return nil, fmt.Errorf("nft: open: %w", err)
	}
	cfg.Renderer = r.Config()
	w := &writer{name: cfg.Renderer.Table, renderer: r, applier: a}
	d := &Dataplane{config: cfg, writer: w, handover: newHandover(w, cfg.Logger)}
	d.interfaces, err = observed.New(observed.Config{
		NetNS: cfg.NetNS, List: cfg.Interfaces, Bridges: cfg.Renderer.Bridges,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("nft: open: %w", err), d.Close())
	}
	if d.ports, err = newPortTable(cfg, d.interfaces); err != nil {
		return nil, errors.Join(fmt.Errorf("nft: open: %w", err), d.Close())
	}
	if d.fastPath, err = newFastPath(cfg, d.interfaces.Follow); err != nil {
		return nil, errors.Join(fmt.Errorf("nft: open: %w", err), d.Close())
	}
	if d.late, err = late.New(late.Config{NetNS: cfg.NetNS, PolicyTable: cfg.Renderer.Table}); err != nil {
		return nil, errors.Join(fmt.Errorf("nft: open: %w", err), d.Close())
	}
	ender, err := conntrack.Dial(conntrack.ConnConfig{NetNS: cfg.NetNS, BeforeEnd: d.late.Add})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("nft: open: %w", err), d.Close())
	}
	d.handover.ender = ender
	if cfg.ConntrackPolicy == conntrack.End {
		r, err := revoke.New(revokeConfig(cfg, d.late))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("nft: open: %w", err), d.Close())
		}
		d.revoker = r
	}
	return d, nil
}

// Close closes the sockets. The table stays in the kernel and still filters packets. It has no
// owner until another Dataplane adopts it: until then, other processes can change it. Close deletes
// the flowtable of Config.Flowtable. Connections that policy denies, but that have not been ended
// yet, continue.
//
// Errors: those of closing the sockets.
func (d *Dataplane) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	var err error
	if d.revoker != nil {
		err = d.revoker.Close()
	}
	if d.late != nil {
		err = errors.Join(err, d.late.Close())
	}
	if d.fastPath != nil {
		err = errors.Join(err, d.fastPath.close())
	}
	if d.handover.ender != nil {
		err = errors.Join(err, d.handover.ender.Close())
	}
	if d.interfaces != nil {
		err = errors.Join(err, d.interfaces.Close())
	}
	return errors.Join(err, d.ports.Close(), d.applier.Close())
}

// Table returns a copy of the desired table, or nil before there is one. The kernel has this table
// unless the last call of Apply or Resync returned an error. Table takes time in proportion to the
// table's size. It may be called from any goroutine. During a call of Apply, it returns either the
// old or the new desired table.
func (d *Dataplane) Table() *ruleset.Table { return d.applier.Table() }

// Stats returns counters of the table, such as the number of transactions so far.
func (d *Dataplane) Stats() applier.Stats { return d.applier.Stats() }

// BridgeStats is like Stats, for the table of family bridge. Without render.Config.Bridges, all
// numbers are zero.
func (d *Dataplane) BridgeStats() applier.Stats {
	if d.ports == nil {
		return applier.Stats{}
	}
	return d.ports.applier.Stats()
}

// Unjudged returns the endpoints on bridges for which policy does not see all frames. The frames
// that it does not see go from one port of the bridge to another. The module br_netfilter does not
// pass them to the netfilter hooks of IPv4 or IPv6. The text for each endpoint names these frames,
// and the sysctls that are off. Resync reads these sysctls. While Watch does not run, Apply reads
// them, too.
func (d *Dataplane) Unjudged() map[policy.Key]string { return d.ports.unjudged() }

// ConntrackStats returns the numbers of ended connections. If Config.ConntrackPolicy is
// conntrack.Keep, all numbers except EndedAddresses are zero. If it is conntrack.End, Pending is
// zero once all connections have been checked against the latest table. ConntrackStats may be
// called from any goroutine.
func (d *Dataplane) ConntrackStats() ConntrackStats {
	st := ConntrackStats{EndedAddresses: d.handover.ended.Load()}
	if d.revoker != nil {
		st.Stats = d.revoker.Stats()
	}
	return st
}

// ConntrackStats has the numbers of connections that a Dataplane has ended.
type ConntrackStats struct {
	// Stats has the counters of the sweeps, which end the connections that a change of policy
	// denies.
	conntrack.Stats
	// EndedAddresses counts connections that were ended because one of their addresses moved to
	// another endpoint, was added or was removed.
	EndedAddresses uint64
}

// ClassStats returns the size of the policy in the table. The result has the numbers of addresses,
// classes and groups, the cost in kernel memory, and the limits of this cost. A class is a set of
// addresses that no rule distinguishes. A group is a set of endpoints with the same policy. Apply
// and Resync update the values once the desired state is in sync. Before that, all values are zero.
// ClassStats may be called from any goroutine. The caller must not change the lists in the result.
func (d *Dataplane) ClassStats() render.ClassStats {
	if s := d.classes.Load(); s != nil {
		return *s
	}
	return render.ClassStats{}
}

// Bridges returns a map from interfaces to bridges. It has the interfaces that are ports of one of
// render.Config.Bridges. If you check the result of Table with package prove, put this map into
// prove.Config.Bridges. Apply and Resync update the map once the desired state is in sync. Before
// that, it is empty. Bridges may be called from any goroutine. The caller must not change the map.
func (d *Dataplane) Bridges() map[string]string {
	if b := d.bridges.Load(); b != nil {
		return *b
	}
	return nil
}

// Apply adds the batch to the desired state. Once the desired state is in sync, Apply programs the
// changes. The first time, it adopts the table of an earlier process.
//
// If an object, such as a policy, cannot be translated into rules, all packets of the endpoints
// that need it are dropped. If the kernel refuses a chain or set, the packets that need this chain
// or set are dropped. In both cases, Apply reports the object and each endpoint that needs it, and
// programs the rest. If the kernel refuses the whole change, the table stays as it was, and
// ApplyError.Object is empty. The next call tries again.
//
// # Addresses that move
//
// When an address moves to another endpoint, interface or MAC address, its connections must end,
// because they were allowed for the former owner:
//
//  1. A transaction removes the former owner.
//  2. Apply ends the connections. While this fails, packets of the new owner are dropped, and Apply
//     returns an error for the new owner.
//  3. A second transaction adds the new owner.
//
// If a batch removes an address from all endpoints, Apply ends its connections after the
// transaction.
//
// If a batch adds an address that no endpoint had, Apply first ends existing connections of this
// address. If there were none, one transaction adds the new owner. If there were any, Apply adds
// the new owner in two transactions. The first makes the other changes of the batch, while packets
// of the new owner are still dropped. Apply then ends connections that have begun meanwhile, and
// the second transaction adds the new owner.
//
// Before Apply programs the table for the first time, it reads the former owners of addresses from
// the table in the kernel. Apply must know the former owners, so that it can end their connections.
// The table does not have the owners of floating addresses, which are external addresses that
// destination NAT maps to an endpoint. So connections of these continue. If there is no table,
// Apply ends no connections this first time, not even those of new addresses. The file docs/nft.md
// describes the cost of ending connections.
//
// If Config.ConntrackPolicy is conntrack.End, a goroutine ends the connections that the change of
// policy denies, after Apply has programmed the change.
//
// Errors: a join of *dataplane.ApplyError. If the context is done before Apply has written
// anything, or before it has ended the connections, the context's error is among the errors.
func (d *Dataplane) Apply(ctx context.Context, b dataplane.Batch) error {
	return d.finished(ctx, d.ApplyVisible(ctx, b))
}

// ApplyVisible does what Apply does, but returns once packets see the change. Packets that are
// under way may still use objects that the change has replaced. Finish deletes these objects after
// a grace period of about 15 ms.
//
// Errors: as for Apply.
func (d *Dataplane) ApplyVisible(ctx context.Context, b dataplane.Batch) error {
	d.renderer.Update(b)
	d.handover.Update(b)
	d.ports.Update(b)
	if !d.inSync {
		d.handover.Forget()
	}
	d.inSync = d.inSync || b.CarriesInSync()
	if d.upToDate && b.OnlyNetwork() && !d.renderer.Pending() {
		return nil // such batches come often
	}
	return d.program(ctx, false)
}

// Resync reads the interfaces of all endpoints, and repairs the table if another process changed
// it.
//
// Errors: as for Apply.
func (d *Dataplane) Resync(ctx context.Context) error {
	return d.finished(ctx, d.program(ctx, true))
}

// finished calls Finish until nothing is left to finish, and joins its error with err.
func (d *Dataplane) finished(ctx context.Context, err error) error {
	for d.applier.Unfinished() != nil || d.fastPath.due(false) != nil {
		if failed := d.Finish(ctx); failed != nil {
			return errors.Join(err, failed)
		}
	}
	return err
}

// Unfinished returns nil if Finish has nothing to do. Otherwise it returns a channel that is closed
// once Finish can do its work without waiting.
func (d *Dataplane) Unfinished() <-chan struct{} {
	if unfinished := d.applier.Unfinished(); unfinished != nil {
		return unfinished
	}
	return d.fastPath.due(true)
}

// Finish deletes objects that ApplyVisible has left in the kernel for packets under way. It first
// waits until the channel of Unfinished is closed, which happens at the end of a grace period. If
// ApplyVisible leaves more objects during this grace period, another call of Finish may be
// necessary to delete them. If the deletion fails, the next call of Apply or Resync repairs the
// table.
//
// Once nothing is left to delete, Finish installs the flowtable of Config.Flowtable.
//
// Errors: *dataplane.ApplyError; the context's error if the context is done before the grace period
// ends.
func (d *Dataplane) Finish(ctx context.Context) error {
	if d.applier.Unfinished() == nil {
		if d.fastPath.due(true) == nil {
			return nil
		}
		return d.fastPath.install(ctx, d.renderer.FastPathAddresses())
	}
	err := d.applier.Finish(ctx)
	if failed := (*applier.Error)(nil); errors.As(err, &failed) {
		d.upToDate = false
		return applyError(failed)
	}
	return err
}

// Teardown deletes the table, unless another process owns it, and clears the desired state. After
// that, nothing is programmed until a batch with InSync is applied. It is no error if there is no
// table.
//
// Errors: *dataplane.ApplyError; the context's error if the context is done before the call.
func (d *Dataplane) Teardown(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := render.New(d.config.Renderer)
	if err != nil {
		return err
	}
	d.renderer, d.inSync, d.upToDate, d.needsTable = r, false, false, false
	d.classes.Store(nil)
	d.bridges.Store(nil)
	d.limitsLog = limitsLog{}
	d.interfaces.Reset()
	d.handover.reset()
	if d.revoker != nil {
		d.revoker.Reset()
	}
	err = d.applier.Teardown(ctx)
	if failed := (*applier.Error)(nil); errors.As(err, &failed) {
		err = applyError(failed)
	}
	if err == nil { // otherwise another process may own the table and use these
		d.fastPath.forget()
		err = errors.Join(d.late.Disable(), d.fastPath.delete())
	}
	return errors.Join(err, d.ports.Teardown(ctx))
}

// PlanTeardown returns the changes that Teardown would make, in the syntax of nft: the deletion of
// the tables, or nothing if there are none.
//
// Errors: the context's error, and those of reading the kernel.
func (d *Dataplane) PlanTeardown(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	exists, err := d.applier.Exists()
	if err != nil {
		return "", err
	}
	text, err := d.ports.planTeardown()
	if err != nil {
		return "", err
	}
	for _, table := range []interface {
		Name() string
		Exists() (bool, error)
	}{d.late, d.fastPath.table} {
		if exists, err := table.Exists(); err != nil {
			return "", err
		} else if exists {
			text = "delete table inet " + table.Name() + "\n" + text
		}
	}
	if exists {
		text = "delete table inet " + d.config.Renderer.Table + "\n" + text
	}
	return text, nil
}

// Plan returns the changes that the batch would make to the table, in the syntax of nft. Before the
// first write, this is the whole table. The text is empty if Apply would write nothing, for example
// because the desired state would not be in sync yet. If an object cannot be translated into rules,
// the text has the rules that Apply would program in its place. While the Dataplane owns the table,
// nft cannot load the text. Plan takes time in proportion to the table's size.
//
// Errors: an invalid table, which would be a mistake of this package.
func (d *Dataplane) Plan(_ context.Context, b dataplane.Batch) (string, error) {
	next := d.renderer.Clone()
	for _, key := range d.handover.withheld {
		if e := d.handover.Endpoint(key); e != nil {
			next.Update(dataplane.Batch{Events: []dataplane.Event{&dataplane.EndpointUpdate{Key: key, Endpoint: e}}})
		}
	}
	next.Update(b)
	if !d.inSync && !b.CarriesInSync() {
		return "", nil
	}
	masters := d.interfaces.Plan(next)
	table, _ := next.Table()
	ops, err := d.applier.PlanTable(table)
	if err != nil {
		return "", err
	}
	bridges, err := d.ports.plan(b, masters)
	return bridges + ruleset.Script(ops), err
}

// program programs the desired state. With resync, it reads all interfaces again.
func (d *Dataplane) program(ctx context.Context, resync bool) error {
	if !d.inSync {
		return nil
	}
	d.upToDate = false // stays false if the context is done: the batch is not programmed yet
	d.fastPath.suspend()
	d.late.Enable()
	if _, err := d.late.Expire(); err != nil { // with conntrack.Keep, nothing else calls it
		d.config.Logger.Warn("deleting the empty table of late packets failed", "err", err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var errs []error
	if err := d.interfaces.Update(d.renderer, resync); err != nil {
		errs = append(errs, &dataplane.ApplyError{Backend: backend, Op: "read interfaces", Err: err})
	}
	if err := d.handover.adopt(); err != nil {
		return errors.Join(append(errs, err)...)
	}
	errs = append(errs, d.ports.prepare(ctx, d.renderer, resync)...)
	if resync {
		d.fastPath.forget()
		if err := d.fastPath.delete(); err != nil {
			errs = append(errs, &dataplane.ApplyError{Backend: backend, Op: "delete the flowtable", Err: err})
		}
	}
	failed, done := d.handover.run(ctx)
	if done {
		errs = append(errs, d.ports.admit(ctx)...)
	}
	classes := d.renderer.ClassStats()
	d.classes.Store(&classes)
	bridges := d.renderer.Bridges()
	d.bridges.Store(&bridges)
	d.limitsLog.update(d.config.Logger, classes)
	errs = append(append(errs, d.renderer.Errors()...), failed...)
	if done {
		d.fastPath.schedule()
		taken := d.handover.TakeChanges()
		changes := revoke.AddressChanges{
			Interfaces: taken.Interfaces, Sources: taken.Sources, Bridges: d.renderer.TakeBridges(),
		}
		if d.revoker != nil {
			d.revoker.Programmed(changes)
		}
	}
	d.upToDate = len(errs) == 0
	return errors.Join(errs...)
}
