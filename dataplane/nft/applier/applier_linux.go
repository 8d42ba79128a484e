// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/wayleave/wayleave/dataplane/nft/internal/encode"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/internal/rcu"
	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
)

// Applier keeps one nftables table in the kernel in its desired state. The package documentation
// lists the guarantees.
//
// Only one goroutine at a time may use it, except for Watch and Table, which other goroutines may
// call meanwhile.
type Applier struct {
	cfg        *Config
	desired    *desiredState
	tracker    *tracker
	reader     *readback.Reader
	owner      *owner
	epochs     *epochs
	backlog    *backlog
	updater    *updater
	reconciler *reconciler
	stats      *Stats
	closed     atomic.Bool
}

// New returns an Applier for one table of one network namespace. The Applier has no desired state
// yet. New opens two netlink sockets, or three if the table can have an owner; Close closes them.
// New writes nothing to the kernel.
//
// Errors: an invalid Config; those of the system calls. On systems other than Linux, New always
// returns ErrUnsupported.
func New(cfg Config) (*Applier, error) {
	if err := cfg.withDefaults().validate(); err != nil {
		return nil, err
	}
	sock, err := nfnl.Open(nfnl.Config{NetNS: cfg.NetNS})
	if err != nil {
		return nil, fmt.Errorf("applier: open: %w", err)
	}
	a, err := newApplier(cfg, sock)
	if err != nil {
		return nil, errors.Join(err, sock.Close())
	}
	return a, nil
}

// newApplier does the work of New with a socket. Close closes the socket. If newApplier returns an
// error, the caller must close it.
func newApplier(cfg Config, sock netlink.Socket) (*Applier, error) {
	cfg = cfg.withDefaults()
	monitor, err := nfnl.Listen(nfnl.Config{NetNS: cfg.NetNS})
	if err != nil {
		return nil, fmt.Errorf("applier: listen: %w", err)
	}
	conn := nfnl.NewConn(sock)
	generation, err := conn.Generation()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("applier: open: %w", err), monitor.Close())
	}
	ownsGuard, err := canOwn(conn, cfg.Family, encode.TableOwner)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("applier: probe kernel: %w", err), monitor.Close())
	}
	query, err := dialOwnerQuery(cfg, conn)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("applier: probe kernel: %w", err), monitor.Close())
	}
	a := assemble(&cfg, conn, query, ownsGuard, &tracker{
		monitor: monitor, family: cfg.Family.Number(), table: cfg.Name, own: conn.Port(), generation: generation,
	})
	if err := rcu.Supported(); err != nil {
		cfg.Logger.Warn("the kernel refuses membarrier, so there are no grace periods: during a change, a packet "+
			"may use parts of both states; allow the system call in the container's seccomp filter",
			"table", cfg.Name, "err", err)
		a.stats.NoGracePeriod = true
	}
	return a, nil
}

// Close closes the sockets and ends Watch. The table stays in the kernel, where it still filters
// packets. Close waits until the table has no owner, so that the next Applier can take it over. If
// that takes more than a second, Close logs a warning.
//
// Errors: those of the system calls.
func (a *Applier) Close() error {
	if a.closed.Swap(true) {
		return nil
	}
	a.tracker.monitor.Wake()
	a.epochs.await()                           // so that no goroutine outlives Close
	if err := a.backlog.finish(); err != nil { // The next process finds these objects and deletes them.
		a.cfg.Logger.Warn("nftables: unused objects stay", "table", a.cfg.Name, "err", err)
	}
	return errors.Join(a.owner.close(), a.tracker.monitor.Close())
}

// Stats returns the counts since New.
func (a *Applier) Stats() Stats {
	s := *a.stats
	s.Drifts, s.Held = a.tracker.count(), len(a.desired.held)
	return s
}

// Table returns the desired state as a table, or nil before there is a desired state. If the last
// call of Apply, Update or Resync succeeded, the kernel has the same table. The result shares its
// chains with the Applier, so the caller must not change them. Table takes time in proportion to
// the table's size.
//
// Table may be called from any goroutine. During a call of Apply or Update, it returns the state
// before or after the change. It does not wait for transactions, but Apply and Update may wait for
// it.
func (a *Applier) Table() *ruleset.Table {
	return a.desired.table()
}

// Held returns an error for each object that is held back: left out because the kernel refuses it.
// The errors are sorted. The caller must not change them.
func (a *Applier) Held() []*ObjectError {
	var all []*ObjectError
	for _, o := range slices.SortedFunc(maps.Keys(a.desired.held), compareObjects) {
		all = append(all, a.desired.held[o])
	}
	return all
}

// Keys reads a set of the kernel's table, and calls each() with the key of every element. A key
// consists of the bytes of its fields as the kernel stores them; each field is padded to 4 bytes.
// The function each() must not keep the slice, and may get a key twice. If the table's owner is
// gone, Keys first takes the table over.
//
// Errors:
//
//   - ErrClosed
//   - *OwnedError if another process owns the table
//   - fs.ErrNotExist if there is no such table or set
//   - those of the system calls
func (a *Applier) Keys(set string, each func(key []byte)) error {
	if a.closed.Load() {
		return ErrClosed
	}
	if err := a.owner.takeOver(); err != nil {
		return fmt.Errorf("applier: read set %s: %w", set, err)
	}
	if err := a.reader.Keys(set, func() {}, each); err != nil {
		return fmt.Errorf("applier: read set %s: %w", set, err)
	}
	return nil
}

// Update applies a change to the desired state, and programs it in one transaction. It takes time
// in proportion to the change. The first time, and after a failure, it reads the table back from
// the kernel and repairs every difference.
//
// An invalid delta changes nothing. Any other delta becomes part of the desired state, even if the
// transaction fails: each later call, and Resync, tries again.
//
// Errors:
//
//   - ErrClosed
//   - the errors of ruleset's State.Prepare
//   - a delta from DeltaTo for a table with flowtables, because an Applier cannot write flowtables
//   - *Error. If its cause is an *ObjectError, everything except that object is programmed.
//   - the error of the context, if the context is done before anything was written
func (a *Applier) Update(ctx context.Context, d *ruleset.Delta) error {
	if err := a.ready(ctx); err != nil {
		return err
	}
	change, err := a.desired.Prepare(d)
	if err != nil {
		return fmt.Errorf("applier: update: %w", err)
	}
	direct, before := a.desired.isProgrammed(), a.stats.Transactions
	if direct && len(change.Ops) > 0 {
		err = a.updater.transact(change.Ops, a.desired.State)
	} else if direct {
		_, changed, failed := a.tracker.drain()
		if err = failed; changed {
			err = errChanged
		}
	}
	a.desired.commitChange(change)
	if direct && err == nil {
		return nil
	}
	a.desired.synced = false
	if err != nil {
		a.cfg.Logger.Debug("nftables: reading the table back", "table", a.cfg.Name, "reason", err)
	}
	if a.stats.Transactions != before { // the kernel has a part of the change
		ctx = context.WithoutCancel(ctx)
	}
	return a.reconciler.reconcile(ctx)
}

// UpdateVisible does what Update does, but returns once packets see the change. Objects that
// packets under way may still use can only be deleted after a grace period of about 15 ms.
// UpdateVisible leaves these deletions to Finish. Until then, the kernel has these objects, but the
// desired state does not.
//
// A later call may conflict with these deletions, for example because it adds such an object again.
// Such a call first waits for the grace period, and deletes the objects. UpdateVisible leaves no
// deletions to Finish if a base chain is among the objects, or if there are very many objects.
//
// Errors: as for Update.
func (a *Applier) UpdateVisible(ctx context.Context, d *ruleset.Delta) error {
	a.backlog.leaves = true
	defer func() { a.backlog.leaves = false }()
	return a.Update(ctx, d)
}

// Unfinished returns nil if no deletion is left for Finish. Otherwise it returns a channel that is
// closed once Finish can delete objects without a wait.
func (a *Applier) Unfinished() <-chan struct{} {
	if len(a.backlog.lists) == 0 {
		return nil
	}
	return a.backlog.lists[0].over
}

// Finish waits until the channel of Unfinished is closed, at the end of a grace period. Then it
// deletes the objects that no packet uses any more. If UpdateVisible was called during the grace
// period, its deletions may need a second grace period. Unfinished then returns another channel,
// and the caller must call Finish again. If the deletion fails, the next call of Update or Resync
// reads the table back.
//
// Errors: *Error; ErrClosed; the context's error if the context is done before the grace period
// ends.
func (a *Applier) Finish(ctx context.Context) error {
	if err := a.ready(ctx); err != nil {
		return err
	}
	over := a.Unfinished()
	if over == nil {
		return nil
	}
	select {
	case <-over:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := a.backlog.deleteDue(); err != nil {
		a.desired.synced = false
		return fail("delete unused objects of table", a.cfg.Name, err)
	}
	return nil
}

// Apply makes t the desired state, and writes only the differences, as Update does. It compares t
// with the previous desired state in memory, and reads the kernel's table only the first time and
// after a failure. The caller must not change t after the call.
//
// Apply returns an error if t has flowtables, or another name or family than the table of the
// Applier. It also returns the errors of Update.
func (a *Applier) Apply(ctx context.Context, t *ruleset.Table) error {
	if t.Family != a.cfg.Family || t.Name != a.cfg.Name {
		return fmt.Errorf("applier: apply: table %s %s is not %s %s", t.Family, t.Name, a.cfg.Family, a.cfg.Name)
	}
	if err := checkNoFlowtables(t); err != nil {
		return fmt.Errorf("applier: apply: %w", err)
	}
	return a.Update(ctx, a.desired.DeltaTo(t))
}

// PlanTable returns the operations that Apply would carry out for t. It assumes that no other
// process has changed the table since the last call. It changes neither the kernel nor the Applier.
//
// PlanTable returns an error if t has flowtables. It also returns the errors of ruleset's
// State.Prepare.
func (a *Applier) PlanTable(t *ruleset.Table) ([]ruleset.Op, error) {
	if err := checkNoFlowtables(t); err != nil {
		return nil, fmt.Errorf("applier: plan: %w", err)
	}
	change, err := a.desired.Prepare(a.desired.DeltaTo(t))
	if err != nil {
		return nil, fmt.Errorf("applier: plan: %w", err)
	}
	return change.Ops, nil
}

// Resync restores the desired state in the kernel. It reads the table back only in these cases:
//
//   - Notifications show that another process has changed our table.
//   - An object is held back because the kernel refuses it (see Held).
//   - The last call failed.
//
// Errors: as for Update, and ErrUnknown if there is no desired state yet.
func (a *Applier) Resync(ctx context.Context) error {
	if err := a.ready(ctx); err != nil {
		return err
	}
	if !a.desired.given {
		return ErrUnknown
	}
	_, changed, err := a.tracker.drain()
	if err == nil && !changed && a.desired.isProgrammed() {
		return nil
	}
	return a.reconciler.reconcile(ctx)
}

// Verify is like Resync, but reads the table back even if nothing seems to have changed. It repairs
// every difference. Errors: as for Resync.
func (a *Applier) Verify(ctx context.Context) error {
	if err := a.ready(ctx); err != nil {
		return err
	}
	if !a.desired.given {
		return ErrUnknown
	}
	return a.reconciler.reconcile(ctx)
}

// Teardown deletes the table, even if another process created it, and clears the desired state. It
// is no error if there is no such table.
//
// Errors: ErrClosed; *Error, whose cause is an *OwnedError if another process owns the table; the
// context's error if the context is done before the call.
func (a *Applier) Teardown(ctx context.Context) error {
	if err := a.ready(ctx); err != nil {
		return err
	}
	a.desired.reset()
	a.backlog.leftovers = leftovers{}
	if err := a.reconciler.deleteTable(); err != nil {
		return fail("delete table", a.cfg.Name, err)
	}
	a.cfg.Logger.Info("deleted nftables table", "table", a.cfg.Name)
	return nil
}

// Exists reports whether the kernel has a table with the family and name of the Applier's table.
//
// Errors: ErrClosed, and those of reading the kernel.
func (a *Applier) Exists() (bool, error) {
	if a.closed.Load() {
		return false, ErrClosed
	}
	head, err := a.reader.Head()
	if err != nil {
		return false, fmt.Errorf("applier: read table %s: %w", a.cfg.Name, err)
	}
	return head.Exists, nil
}

func (a *Applier) ready(ctx context.Context) error {
	if a.closed.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

// Watch calls notify each time that another process changes our table, and at once if this happened
// before the call of Watch. The function notify runs on the goroutine of Watch. Watch itself writes
// nothing. To repair the table, the user of the Applier must call Resync from its own goroutine,
// and again later if that fails. If another call, such as Update, detects a change first, that call
// repairs the table, and Watch may not report the change.
//
// Watch returns the context's error when the context is done, ErrClosed after Close, or the error
// that ends it. Afterwards it cannot be called again.
func (a *Applier) Watch(ctx context.Context, notify func(Drift)) error {
	stop := context.AfterFunc(ctx, a.tracker.monitor.Wake)
	defer stop()
	for {
		drift, ok, err := a.tracker.lastDrift()
		if err == nil && !ok {
			err = a.tracker.monitor.Wait()
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case a.closed.Load():
			return ErrClosed
		case err != nil:
			return fmt.Errorf("applier: watch: %w", err)
		case ok:
			notify(drift)
		}
	}
}
