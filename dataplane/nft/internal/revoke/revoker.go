// SPDX-License-Identifier: Apache-2.0

package revoke

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/late"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/rtnl"
	"github.com/wayleave/wayleave/policy"
)

const (
	// maxEarlier limits the earlier rulesets that are kept for connections that began under them. A
	// sweep (a walk over all connections) usually begins 20 ms after a change and takes less than a
	// second. So only a burst of changes reaches the limit.
	maxEarlier = 16
	// maxUnprogrammed limits the deltas that are kept while programming fails. Beyond the limit,
	// the whole table replaces them.
	maxUnprogrammed = 256
	// maxStep is the number of connections that are judged before the queue is read again. This
	// takes a few milliseconds.
	maxStep = 1024
)

// Config configures a Revoker.
type Config struct {
	// Conntrack configures the sweeps. Its NetNS must be set.
	Conntrack conntrack.Config
	// Table is the name of the table, of family inet.
	Table string
	// Host has the names of the chains that lead to policy of host endpoints.
	Host HostChains
	// Late is the table that drops late packets: packets that a server sends after its connection
	// has ended. The Revoker adds each connection to the table before it ends the connection. If
	// Late is nil, policy decides about late packets as about all others.
	Late *late.Table
	// Encapsulations are the encapsulations of tunnels between this node and others. If a
	// connection consists of encapsulated packets to this node, the Revoker does not add it to the
	// table Late. That table could drop encapsulated packets that the node itself sends, as if they
	// were late replies.
	Encapsulations []policy.Encapsulation
}

// Revoker ends connections that an earlier ruleset allowed and the current one denies. The caller
// reports each change of the table: Changed before the transaction, and Programmed once the kernel
// has the change. A goroutine keeps two copies of the table: one from before the change, and the
// present one. It ends each connection that the earlier copy allows and the present copy denies.
//
//	Changed ──▶ pending ──Programmed──▶ queue ──▶ goroutine:
//	                                                earlier copy ──┐
//	                                                present copy ──┴──▶ Sweeper
//
// Stats may be called from any goroutine, all other methods from one goroutine at a time.
type Revoker struct {
	sweeper *conntrack.Sweeper
	cfg     Config
	cancel  context.CancelFunc
	stopped chan struct{}
	wake    chan struct{}

	// pending is a change that the kernel may not have yet.
	pending Change

	mu    sync.Mutex
	queue []Change

	// Only the goroutine uses the following fields.
	routes  *routeFinder
	present *Evaluator // the ruleset in the kernel
	// keepsEarlier has an entry for each change whose sweep is not done. The entry is true if the
	// ruleset before that change is kept.
	keepsEarlier []bool
}

// New returns a Revoker and starts its goroutine, which Close ends.
//
// Errors: those of conntrack.New, and of opening a netlink socket.
func New(cfg Config) (*Revoker, error) {
	r, err := newRevoker(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go r.run(ctx)
	return r, nil
}

// newRevoker returns a Revoker without its goroutine.
func newRevoker(cfg Config) (*Revoker, error) {
	r := &Revoker{stopped: make(chan struct{}), wake: make(chan struct{}, 1), pending: Change{Reset: true}}
	if cfg.Late != nil {
		cfg.Conntrack.BeforeEnd = r.beforeEnd
	}
	sweeper, err := conntrack.New(cfg.Conntrack)
	if err != nil {
		return nil, err
	}
	conn, err := rtnl.Dial(rtnl.Config{NetNS: cfg.Conntrack.NetNS})
	if err != nil {
		return nil, errors.Join(err, sweeper.Close())
	}
	cfg.Conntrack.Logger = cmp.Or(cfg.Conntrack.Logger, slog.New(slog.DiscardHandler))
	r.cfg, r.sweeper, r.routes = cfg, sweeper, newRouteFinder(conn)
	return r, nil
}

// beforeEnd passes connections that are about to end to Late, except tunnels to the node. The
// goroutine calls it.
func (r *Revoker) beforeEnd(flows []conntrack.Flow) error {
	if len(r.cfg.Encapsulations) > 0 {
		flows = slices.DeleteFunc(slices.Clone(flows), func(f conntrack.Flow) bool { return r.isTunnel(&f) })
	}
	return r.cfg.Late.Add(flows)
}

// isTunnel reports whether a connection consists of encapsulated packets to this node.
func (r *Revoker) isTunnel(f *conntrack.Flow) bool {
	sides := r.routes.Find(f.Destination().Addr())
	return len(sides) == 1 && sides[0].Local && slices.ContainsFunc(
		r.cfg.Encapsulations, func(c policy.Encapsulation) bool {
			return c.Carries(policy.Protocol(f.Protocol()), f.Destination().Port())
		},
	)
}

// Close ends the goroutine, waits for it, and closes the sockets. A sweep that is not complete is
// abandoned: the connections that it has not examined yet are not ended.
//
// Errors: those of closing the sockets.
func (r *Revoker) Close() error {
	r.cancel()
	<-r.stopped
	return errors.Join(r.sweeper.Close(), r.routes.conn.Close())
}

// Stats returns the counts of the sweeps. Pending includes changes that the Revoker's goroutine has
// not read yet.
func (r *Revoker) Stats() conntrack.Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.sweeper.Stats()
	st.Pending += len(r.queue)
	return st
}

// Changed records a change before it is programmed. If table is not nil, it is the whole table, and
// d is ignored.
func (r *Revoker) Changed(d *ruleset.Delta, table *ruleset.Table) {
	switch {
	case table != nil:
		r.pending.Table, r.pending.Deltas = table, nil
	case len(d.Chains)+len(d.DeleteChains)+len(d.Sets)+len(d.DeleteSets)+len(d.Elements) > 0:
		r.pending.Deltas = append(r.pending.Deltas, d)
	}
}

// NeedsTable reports whether the next call of Changed must pass the whole table instead of a delta.
// This is the case if programming has failed for so long that too many deltas are recorded.
func (r *Revoker) NeedsTable() bool { return len(r.pending.Deltas) >= maxUnprogrammed }

// Programmed records that programming succeeded: the kernel now has every change that Changed has
// recorded. The parameter changes has all changes of addresses since the last call of Programmed.
func (r *Revoker) Programmed(changes AddressChanges) {
	r.pending.Addresses = changes
	if !r.pending.empty() {
		r.enqueue(r.pending)
		r.pending = Change{}
	}
}

// Reset records that the table was deleted.
func (r *Revoker) Reset() {
	r.pending = Change{Reset: true}
	r.enqueue(Change{Reset: true, Table: &ruleset.Table{Family: ruleset.FamilyINet, Name: r.cfg.Table}})
}

// enqueue queues a change for the goroutine.
func (r *Revoker) enqueue(c Change) {
	r.mu.Lock()
	r.queue = append(r.queue, c)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run examines connections until the context is done. Only the goroutine calls run and the methods
// below.
func (r *Revoker) run(ctx context.Context) {
	defer close(r.stopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		r.applyQueued()
		progress, err := r.sweeper.Step(ctx, maxStep)
		if err != nil && ctx.Err() == nil {
			r.cfg.Conntrack.Logger.Warn("ending denied connections failed, and will be tried again", "err", err)
		}
		if err != nil || !progress.Done && progress.Wait == 0 {
			continue // the next step returns how long to wait
		}
		if progress.Done {
			r.freeScratch()
			progress.Wait = r.expire()
		}
		var due <-chan time.Time
		if progress.Wait > 0 {
			timer.Reset(progress.Wait)
			due = timer.C
		}
		select {
		case <-r.wake:
		case <-due:
		case <-ctx.Done():
		}
	}
}

// expire deletes the table for late packets once it is empty. It returns the time until the table
// may be empty, or zero if there is no table.
func (r *Revoker) expire() time.Duration {
	if r.cfg.Late == nil {
		return 0
	}
	wait, err := r.cfg.Late.Expire()
	if err != nil {
		r.cfg.Conntrack.Logger.Warn("deleting the empty table of late packets failed", "err", err)
	}
	return wait
}

// applyQueued applies the changes in the queue, in order.
func (r *Revoker) applyQueued() {
	for {
		r.mu.Lock()
		if len(r.queue) == 0 {
			r.queue = nil
			r.mu.Unlock()
			return
		}
		c := r.queue[0]
		r.mu.Unlock()
		r.applyChange(c)
		r.mu.Lock()
		r.queue[0] = Change{}
		r.queue = r.queue[1:]
		r.mu.Unlock()
	}
}

// applyChange applies a change to the current ruleset and starts a sweep. At most maxEarlier
// earlier rulesets are kept. If the ruleset before the change is not kept, and only that ruleset
// allowed a connection, the connection continues.
func (r *Revoker) applyChange(c Change) {
	r.routes.clear()
	var before conntrack.Judge
	r.dropDoneSweeps()
	if r.present != nil && !c.Reset && r.kept() < maxEarlier {
		before = r.present.Clone().Judge
	}
	if r.present == nil || c.Reset {
		r.present = NewEvaluator(EvaluatorConfig{Table: r.cfg.Table, Host: r.cfg.Host, Finder: r.routes})
	}
	if err := r.present.Apply(&c); err != nil { // the applier would have refused it, too
		r.cfg.Conntrack.Logger.Error(
			"denied connections are not ended until the whole table is programmed again", "err", err)
		r.present.Invalidate()
	}
	if before == nil && len(r.keepsEarlier) == 0 {
		return // no connection is known to have begun under another ruleset
	}
	r.sweeper.Change(before, r.present.Judge)
	r.keepsEarlier = append(r.keepsEarlier, before != nil)
}

// dropDoneSweeps removes the entries of changes whose sweep is done. These are always the oldest
// entries.
func (r *Revoker) dropDoneSweeps() {
	done := len(r.keepsEarlier) - r.sweeper.Stats().Pending
	r.keepsEarlier = slices.Delete(r.keepsEarlier, 0, max(0, done))
}

// kept returns the number of earlier rulesets that are kept.
func (r *Revoker) kept() (n int) {
	for _, kept := range r.keepsEarlier {
		if kept {
			n++
		}
	}
	return n
}

// freeScratch frees memory that only a sweep needs.
func (r *Revoker) freeScratch() {
	r.keepsEarlier = nil
	r.routes.clear()
	if r.present != nil {
		r.present.FreeScratch()
	}
}
