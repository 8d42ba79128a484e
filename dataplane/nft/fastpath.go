// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"log/slog"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/internal/flowtable"
	"github.com/wayleave/wayleave/dataplane/nft/internal/rcu"
)

// fastPath offers the flowtable to established connections while nothing changes that concerns them.
//
//	change of endpoints ─▶ withdraw ─▶ transaction ─▶ schedule ─▶ grace period ─▶ offer
type fastPath struct {
	enabled bool
	table   *flowtable.Table
	// exists tells whether there is an interface of that name.
	exists      func(name string) (bool, error)
	beforeWrite func() error
	logger      *slog.Logger
	// withdrawn is set while the kernel has no table.
	withdrawn bool
	// scheduled is closed once a grace period is over. It is nil if there is nothing to offer.
	scheduled chan struct{}
	// failure is the last failure that was logged.
	failure string
}

func newFastPath(cfg Config, exists func(string) (bool, error)) (*fastPath, error) {
	table, err := flowtable.New(flowtable.Config{
		NetNS: cfg.NetNS, PolicyTable: cfg.Renderer.Table, Uplinks: cfg.Flowtable.Uplinks,
	})
	if err != nil {
		return nil, err
	}
	return &fastPath{
		enabled: cfg.Flowtable.Enabled, table: table, exists: exists, beforeWrite: cfg.BeforeWrite, logger: cfg.Logger,
	}, nil
}

// withdraw deletes the table, also that of an earlier process: from then on, all packets meet the chains.
func (f *fastPath) withdraw() error {
	f.scheduled = nil
	if f.withdrawn {
		return nil
	}
	exists, err := f.table.Exists()
	if err != nil || !exists {
		f.withdrawn = err == nil
		return err
	}
	if f.beforeWrite != nil {
		if err := f.beforeWrite(); err != nil {
			return err
		}
	}
	err = f.table.Withdraw()
	f.withdrawn = err == nil
	return err
}

// forget makes the next withdraw delete the table, whatever is known.
func (f *fastPath) forget() { f.withdrawn = false }

// schedule begins the grace period after which the table is offered anew: a packet under way may have met the chains
// as they were before the change.
func (f *fastPath) schedule() {
	if !f.enabled || !f.withdrawn {
		return
	}
	scheduled := make(chan struct{})
	f.scheduled = scheduled
	go func() {
		_ = rcu.Synchronize() // see handover.WaitGrace
		close(scheduled)
	}()
}

// offer waits for the grace period, and makes the table. A failure is no fault: all packets meet the chains. The next
// change tries again. It returns the error of the context.
func (f *fastPath) offer(ctx context.Context, own map[string][]netip.Addr) error {
	select {
	case <-f.scheduled:
	case <-ctx.Done():
		return ctx.Err()
	}
	f.scheduled = nil
	var all []flowtable.Address
	for name, addresses := range own {
		for _, a := range addresses {
			all = append(all, flowtable.Address{Interface: name, Addr: a})
		}
	}
	err := f.table.Offer(all, f.exists)
	f.withdrawn = false
	switch {
	case err == nil:
		f.failure = ""
	case f.failure != err.Error():
		f.failure = err.Error()
		f.logger.Warn("connections cannot use the kernel's fast path; they work without it", "err", err)
	}
	return nil
}
