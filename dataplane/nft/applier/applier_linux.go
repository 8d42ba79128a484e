// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Applier keeps one nftables table in the kernel as it is desired. See the package's doc for what it promises.
//
// It is for one goroutine at a time, but for Watch, which may run in another one meanwhile.
type Applier struct {
	cfg     Config
	logger  *slog.Logger
	conn    *nfnl.Conn
	tracker *tracker
	reader  *reader
	writer  *writer
	desired *ruleset.State
	// given says that there is a desired state, if only an empty one; synced that the kernel has it, as far as we know.
	given, synced bool
	// limit is the largest transaction in bytes.
	limit    int
	held     map[Object]*ObjectError
	known    []feature
	features map[string]error // what was found out about each
	stats    Stats
	closed   atomic.Bool
}

// New returns an Applier for one table of one network namespace, without a desired state. It opens two netlink sockets, which
// Close closes, and writes nothing.
//
// Errors: a config that is not valid, those of the system calls, and ErrUnsupported on anything but Linux.
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

// newApplier is New over a socket, which it closes unless it fails.
func newApplier(cfg Config, sock nfnl.Socket) (*Applier, error) {
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
	a := &Applier{
		cfg: cfg, logger: cfg.Logger, conn: conn, limit: cfg.MaxBatch,
		tracker: &tracker{monitor: monitor, family: cfg.Family.Number(), table: cfg.Name, own: conn.Port(), generation: generation},
		reader:  &reader{conn: conn, family: cfg.Family.Number(), table: cfg.Name},
		desired: ruleset.NewState(cfg.Family, cfg.Name),
		held:    map[Object]*ObjectError{}, known: features(), features: map[string]error{},
	}
	a.writer = &writer{
		encoder: newEncoder(cfg.Family, cfg.Name),
		handles: newHandles(a.reader.handles),
		sets:    func(name string) *ruleset.Set { return a.desired.Set(name) },
		fresh:   map[string]*ruleset.Set{},
	}
	return a, nil
}

func newEncoder(family ruleset.Family, table string) *encoder {
	return &encoder{batch: nfnl.NewBatch(), family: family.Number(), kind: family, table: table, facts: facts()}
}

// Close closes the sockets and ends a Watch. It leaves the table in the kernel as it is: packets are judged as before.
// Errors: those of the system calls.
func (a *Applier) Close() error {
	if a.closed.Swap(true) {
		return nil
	}
	a.tracker.monitor.Wake()
	return errors.Join(a.conn.Close(), a.tracker.monitor.Close())
}

// Stats returns what the Applier has done so far.
func (a *Applier) Stats() Stats {
	s := a.stats
	s.Drifts, s.Held = a.tracker.count(), len(a.held)
	return s
}

// Table returns the desired state as a table of its own, nil before there is one. The kernel has just that if the last call succeeded. It
// takes time in proportion to the table; its chains must not be changed.
func (a *Applier) Table() *ruleset.Table {
	if !a.given {
		return nil
	}
	return a.desired.Table()
}

// State returns the desired state, which must only be read, and only until the next call.
func (a *Applier) State() *ruleset.State { return a.desired }

// Update takes a change into the desired state, and programs it in one transaction. It takes time in proportion to the change.
// The first time, and after a failure, the kernel's table is read back and whatever differs is put right.
//
// A delta that is not valid changes nothing. Any other counts from here on, whatever becomes of the transaction: each later call, and
// Resync, try again what could not be done.
//
// Errors: those of ruleset's State.Prepare; *FeatureError, which also leaves the desired state alone; *dataplane.ApplyError, whose cause is an *ObjectError if
// everything but that object is programmed; that of the context, if it is done before anything was written.
func (a *Applier) Update(ctx context.Context, d *ruleset.Delta) error {
	if err := a.ready(ctx); err != nil {
		return err
	}
	change, err := a.desired.Prepare(d)
	if err != nil {
		return fmt.Errorf("applier: update: %w", err)
	}
	if err := a.probe(change.Ops); err != nil {
		return err
	}
	direct := a.synced && len(a.held) == 0
	if direct && len(change.Ops) > 0 {
		err = a.transact(change.Ops)
	} else if direct {
		_, touched, failed := a.tracker.drain()
		if err = failed; touched {
			err = errChanged
		}
	}
	a.desired.Commit(change)
	a.given = true
	if direct && err == nil {
		return nil
	}
	a.synced = false
	if err != nil {
		a.logger.Debug("nftables: reading the table back", "table", a.cfg.Name, "reason", err)
	}
	return a.reconcile(ctx)
}

// Apply makes the table the desired state, in one transaction of the fewest operations. It compares in memory, with what was desired before: nothing is read
// from the kernel but the first time and after a failure. The table must not change any more.
//
// Errors as for Update.
func (a *Applier) Apply(ctx context.Context, t *ruleset.Table) error {
	if t.Family != a.cfg.Family || t.Name != a.cfg.Name {
		return fmt.Errorf("applier: apply: table %s %s is not %s %s", t.Family, t.Name, a.cfg.Family, a.cfg.Name)
	}
	return a.Update(ctx, whole(a.desired, t))
}

// Plan returns the operations that Update would carry out if the kernel has what was last programmed, in the syntax of nft and as far as that goes. It touches nothing.
//
// Errors: those of ruleset's State.Prepare.
func (a *Applier) Plan(d *ruleset.Delta) ([]ruleset.Op, error) {
	change, err := a.desired.Prepare(d)
	if err != nil {
		return nil, fmt.Errorf("applier: plan: %w", err)
	}
	return change.Ops, nil
}

// PlanTable is Plan for Apply. Errors as for Plan.
func (a *Applier) PlanTable(t *ruleset.Table) ([]ruleset.Op, error) {
	return a.Plan(whole(a.desired, t))
}

// Resync brings the kernel to the desired state again. Unless our table was touched, or something is held back or
// failed, it only asks whether notifications came.
//
// Errors as for Update, and ErrUnknown if there is no desired state yet.
func (a *Applier) Resync(ctx context.Context) error {
	if err := a.ready(ctx); err != nil {
		return err
	}
	if !a.given {
		return ErrUnknown
	}
	_, touched, err := a.tracker.drain()
	if err == nil && !touched && a.synced && len(a.held) == 0 {
		return nil
	}
	return a.reconcile(ctx)
}

// Verify reads the table back in any case and puts right what differs. Errors as for Resync.
func (a *Applier) Verify(ctx context.Context) error {
	if err := a.ready(ctx); err != nil {
		return err
	}
	if !a.given {
		return ErrUnknown
	}
	return a.reconcile(ctx)
}

// Teardown deletes the table, whoever made it, and forgets the desired state. That there is no such table is no error.
//
// Errors: *dataplane.ApplyError, and that of the context if it is done already.
func (a *Applier) Teardown(ctx context.Context) error {
	if err := a.ready(ctx); err != nil {
		return err
	}
	a.desired, a.given, a.synced = ruleset.NewState(a.cfg.Family, a.cfg.Name), false, false
	clear(a.held)
	e := a.writer.encoder
	e.begin()
	e.tableMessage(unix.NFT_MSG_DELTABLE, 0)
	// Whatever others did to the table goes with it, so any generation will do.
	err := a.tracker.deaf(func() (uint32, error) { return a.commit(e.batch, nil) }, a.conn.Generation)
	if err != nil {
		return a.fail("delete table", err)
	}
	a.stats.Transactions++
	a.logger.Info("deleted nftables table", "table", a.cfg.Name)
	return nil
}

func (a *Applier) ready(ctx context.Context) error {
	if a.closed.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

// fail wraps an error that is not of one object.
func (a *Applier) fail(op string, err error) error {
	e := &dataplane.ApplyError{Backend: "nft", Op: op + " " + a.cfg.Name, Err: err}
	var refused *nfnl.CommitError
	if errors.As(err, &refused) {
		e.Detail = refused.Detail()
	}
	return e
}

// Watch waits until another process changes our table, and calls notify each time, from the goroutine that it runs in; the first time
// right away if that has happened already. Whoever owns the Applier then calls Resync, which repairs
// the table, and calls it again later if that fails. Watch itself touches nothing. Changes that the owner's own calls notice first are repaired by
// them, and need not be notified of.
//
// It returns the context's error when that is done, ErrClosed after Close, or why it cannot go on. After that it cannot be called again.
func (a *Applier) Watch(ctx context.Context, notify func(Drift)) error {
	stop := context.AfterFunc(ctx, a.tracker.monitor.Wake)
	defer stop()
	for {
		drift, ok, err := a.tracker.news()
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
		if err := a.tracker.monitor.Wait(); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if a.closed.Load() {
				return ErrClosed
			}
			return fmt.Errorf("applier: watch: %w", err)
		}
	}
}

// whole returns the delta that makes a state a table.
func whole(s *ruleset.State, t *ruleset.Table) *ruleset.Delta {
	d := &ruleset.Delta{Sets: t.Sets}
	chains, sets := make(map[string]bool, len(t.Chains)), make(map[string]bool, len(t.Sets))
	for _, c := range t.Chains {
		chains[c.Name] = true
		if s.Chain(c.Name) != c {
			d.Chains = append(d.Chains, c)
		}
	}
	for _, set := range t.Sets {
		sets[set.Name] = true
	}
	for _, name := range s.ChainNames() {
		if !chains[name] {
			d.DeleteChains = append(d.DeleteChains, name)
		}
	}
	for _, name := range s.SetNames() {
		if !sets[name] {
			d.DeleteSets = append(d.DeleteSets, name)
		}
	}
	return d
}
