// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Dataplane programs events into one nftables table.
//
// A change replaces the whole table in one transaction. A packet on its way through at that moment may meet the
// old policy, the new one or both; never neither, but it may be dropped: the kernel empties the old maps
// some microseconds before it takes out the chains that use them. Connections
// live in conntrack, so the established ones go on. Counters start again at zero. A batch that does not
// change the table makes no system call.
//
// It implements dataplane.Dataplane and dataplane.Planner, and is not safe for concurrent use.
type Dataplane struct {
	renderer *Renderer
	config   Config
	logger   *slog.Logger
	conn     *nfnl.Conn
	inSync   bool
	// settled says that the kernel was brought to the desired state when that was last tried.
	settled bool
	// written is the table as it is in the kernel, nil if that is not known.
	written *ruleset.Table
	// generation of the ruleset when written was written; zero if others wrote at the same moment.
	generation uint32
}

var (
	_ dataplane.Dataplane = (*Dataplane)(nil)
	_ dataplane.Planner   = (*Dataplane)(nil)
)

// New returns a Dataplane for one network namespace, with nothing in its desired state. It opens a netlink
// socket, which Close closes, and writes nothing.
//
// Errors: a config that is not valid, those of opening the socket, and nfnl's ErrUnsupported on anything but Linux.
func New(cfg Config) (*Dataplane, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r, err := NewRenderer(cfg.Renderer)
	if err != nil {
		return nil, err
	}
	conn, err := nfnl.Dial(nfnl.Config{NetNS: cfg.NetNS})
	if err != nil {
		return nil, fmt.Errorf("nft: open: %w", err)
	}
	return &Dataplane{renderer: r, config: cfg, logger: cfg.Logger, conn: conn}, nil
}

// Close closes the netlink socket and leaves the table in the kernel as it is: packets
// are judged as before. Errors: that of closing the socket.
func (d *Dataplane) Close() error {
	return d.conn.Close()
}

// Table returns the table that was last written, which the kernel holds unless somebody else has changed it since, or
// nil while that is not known. The caller must not change it.
func (d *Dataplane) Table() *ruleset.Table { return d.written }

// Apply takes the batch into the desired state. Once that is in sync, it writes the table if it differs from what was last
// written, the first time in any case.
//
// An object that cannot be rendered is left failing closed, and the rest is written. If the kernel
// refuses the table, the old one stays as it was, and the error has no Object: its Detail
// names the chain, set or rule. The next call tries again.
//
// Errors: a join of *dataplane.ApplyError, and that of the context if it is done before anything was written.
func (d *Dataplane) Apply(ctx context.Context, b dataplane.Batch) error {
	d.renderer.Update(b)
	d.inSync = d.inSync || b.CarriesInSync()
	if d.settled && !b.Empty() && !concerns(b) {
		return nil
	}
	return d.program(ctx)
}

// concerns reports whether a batch may change the table: one of nodes, pools and routes alone, which come often, does not.
func concerns(b dataplane.Batch) bool {
	return slices.ContainsFunc(b.Events, func(e dataplane.Event) bool {
		switch e.(type) {
		case *dataplane.HostEndpointUpdate, *dataplane.HostEndpointRemove,
			*dataplane.RouteUpdate, *dataplane.RouteRemove, *dataplane.TunnelUpdate, *dataplane.TunnelRemove,
			*dataplane.NodeUpdate, *dataplane.NodeRemove, *dataplane.PoolUpdate, *dataplane.PoolRemove,
			*dataplane.ServiceUpdate, *dataplane.ServiceRemove, *dataplane.NamespaceUpdate, *dataplane.NamespaceRemove,
			*dataplane.ServiceAccountUpdate, *dataplane.ServiceAccountRemove:
			return false
		}
		return true
	})
}

// Resync writes the table again unless the ruleset's generation shows that nobody changed anything
// since we wrote it. The generation counts the transactions of all tables in the network namespace, so
// Resync may rewrite a table that is intact.
//
// Errors as for Apply.
func (d *Dataplane) Resync(ctx context.Context) error {
	if !d.inSync {
		return nil
	}
	generation, err := d.conn.Generation()
	if err != nil {
		return applyError("read generation", err)
	}
	if generation != d.generation {
		d.written = nil
	}
	return d.program(ctx)
}

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
	d.renderer, d.inSync, d.settled, d.written = r, false, false, nil
	name := r.cfg.Table
	if err := d.remove(name); err != nil {
		return applyError("delete table "+name, err)
	}
	d.logger.Info("deleted nftables table", "table", name)
	return nil
}

// Plan returns the difference that the batch would make to the table, in the syntax of nft. It is empty if Apply would
// write nothing, or is not in sync even after the batch; before the first write it is the whole table. Objects that cannot be rendered show as Apply would leave them.
// Errors: none so far.
func (d *Dataplane) Plan(_ context.Context, b dataplane.Batch) (string, error) {
	next := d.renderer.Clone()
	next.Update(b)
	if !d.inSync && !b.CarriesInSync() {
		return "", nil
	}
	table, _ := next.Table()
	return ruleset.Diff(d.written, table), nil
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
	table, errs := d.renderer.Table()
	if d.written == nil || !table.Equal(d.written) {
		if err := d.write(table); err != nil {
			errs = append(errs, applyError("replace table "+table.Name, err))
		}
	}
	d.settled = len(errs) == 0
	return errors.Join(errs...)
}

// write replaces the table. Whatever goes wrong, it counts as unknown afterwards: to write once
// too often does no harm.
func (d *Dataplane) write(table *ruleset.Table) error {
	d.written, d.generation = nil, 0
	before, err := d.conn.Generation()
	if err != nil {
		return err
	}
	if err := d.replace(table); err != nil {
		return err
	}
	d.written = table
	after, err := d.conn.Generation()
	if err == nil && after == before+1 { // Nobody else wrote between.
		d.generation = after
	}
	d.logger.Info("replaced nftables table", "table", table.Name, "chains", len(table.Chains), "sets", len(table.Sets))
	return nil
}

// applyError wraps an error that is not of one object.
func applyError(op string, err error) error {
	e := &dataplane.ApplyError{Backend: backend, Op: op, Err: err}
	var refused *nfnl.CommitError
	if errors.As(err, &refused) {
		e.Detail = refused.Detail()
	}
	return e
}
