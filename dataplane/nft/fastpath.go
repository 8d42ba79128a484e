// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/internal/flowtable"
	"github.com/wayleave/wayleave/dataplane/nft/internal/rcu"
)

// How long a failed offer waits until it is repeated, at first and at most.
const (
	minOfferDelay = time.Second
	maxOfferDelay = time.Minute
)

// fastPath offers the flowtable to established connections while nothing changes that concerns them.
//
//	change of endpoints ─▶ withdraw ─▶ transaction ─▶ schedule ─▶ grace period ─▶ offer
type fastPath struct {
	cfg   FlowtableConfig
	table *flowtable.Table
	// exists tells whether there is an interface of that name.
	exists      func(name string) (bool, error)
	beforeWrite func() error
	logger      *slog.Logger
	// withdrawn is set while the kernel has no table. devices are the interfaces of the one that it has.
	withdrawn bool
	devices   []string
	// scheduled is closed once offer need not wait. It is nil if there is nothing to offer.
	scheduled chan struct{}
	// suspended is set while the kernel may lack the desired state, so that nothing is offered.
	suspended bool
	// delay is how long the next offer waits after its grace period: longer with each failure.
	delay time.Duration
	// failure is the last one that was logged.
	failure string
	closed  bool
}

// errClosed is the error of a fast path after Close.
var errClosed = errors.New("nft: the flowtable is closed")

func newFastPath(cfg Config, exists func(string) (bool, error)) (*fastPath, error) {
	table, err := flowtable.New(flowtable.Config{
		NetNS: cfg.NetNS, PolicyTable: cfg.Renderer.Table, Uplinks: cfg.Flowtable.Uplinks,
	})
	if err != nil {
		return nil, err
	}
	return &fastPath{
		cfg: cfg.Flowtable, table: table, exists: exists, beforeWrite: cfg.BeforeWrite, logger: cfg.Logger,
	}, nil
}

// close closes the socket, and with it the kernel deletes the table.
func (f *fastPath) close() error {
	f.closed, f.scheduled = true, nil
	return f.table.Close()
}

// withdraw deletes the table: from then on, all packets meet the chains.
func (f *fastPath) withdraw() error {
	f.scheduled = nil
	if f.closed {
		return errClosed
	}
	if f.withdrawn {
		return nil
	}
	exists, err := f.table.Exists()
	if err == nil && !exists {
		f.withdrawn = true
		return nil
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

// suspend keeps offer away until schedule.
func (f *fastPath) suspend() { f.suspended = true }

// schedule begins the grace period after which the table is offered anew: a packet under way may have met the chains
// as they were before the change.
func (f *fastPath) schedule() {
	f.suspended = false
	if f.cfg.Enabled && f.withdrawn && f.scheduled == nil {
		f.wait()
	}
}

func (f *fastPath) wait() {
	scheduled, delay := make(chan struct{}), f.delay
	f.scheduled = scheduled
	go func() {
		_ = rcu.Synchronize() // see handover.WaitGrace
		time.Sleep(delay)
		close(scheduled)
	}()
}

// due returns a channel that is closed once offer need not wait, and nil if there is nothing to offer. Unless late is
// set, it is also nil while a failed offer waits.
func (f *fastPath) due(late bool) <-chan struct{} {
	if f.suspended {
		return nil
	}
	if f.delay > 0 && !late {
		select {
		case <-f.scheduled:
		default:
			return nil
		}
	}
	return f.scheduled
}

// offer waits for the grace period, and makes the table. A failure is no fault: all packets meet the chains. It is
// tried again later, as long as interfaces are missing, too. It returns the error of the context.
func (f *fastPath) offer(ctx context.Context, own map[string][]netip.Addr) error {
	select {
	case <-f.scheduled:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	f.scheduled = nil
	complete, err := f.tryOffer(own)
	if err == nil && complete {
		f.delay, f.failure = 0, ""
		return nil
	}
	if err != nil && f.failure != err.Error() {
		f.failure = err.Error()
		f.logger.Warn("connections cannot use the kernel's fast path; they work without it", "err", err)
	}
	f.delay = min(max(2*f.delay, minOfferDelay), maxOfferDelay)
	f.wait()
	return nil
}

// tryOffer makes the table, and reports whether it has all interfaces. A table that already has all that exist stays.
func (f *fastPath) tryOffer(own map[string][]netip.Addr) (complete bool, err error) {
	names := slices.Concat(slices.Collect(maps.Keys(own)), f.cfg.Uplinks)
	slices.Sort(names)
	names = slices.Compact(names)
	var devices []string
	for _, name := range names {
		exists, err := f.exists(name)
		if err != nil {
			return false, err
		}
		if exists {
			devices = append(devices, name)
		}
	}
	complete = len(devices) == len(names)
	if !f.withdrawn && slices.Equal(devices, f.devices) {
		return complete, nil
	}
	if err := f.withdraw(); err != nil {
		return false, err
	}
	if f.beforeWrite != nil {
		if err := f.beforeWrite(); err != nil {
			return false, err
		}
	}
	f.withdrawn, f.devices = false, nil // the result of a failure is not known
	if err := f.table.Offer(addresses(own), devices); err != nil {
		return false, err
	}
	f.devices = devices
	return complete, nil
}

func addresses(own map[string][]netip.Addr) (all []flowtable.Address) {
	for name, list := range own {
		for _, a := range list {
			all = append(all, flowtable.Address{Interface: name, Addr: a})
		}
	}
	return all
}
