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

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/flowtable"
	"github.com/wayleave/wayleave/dataplane/nft/internal/rcu"
)

// Delays before a failed installation of the flowtable is repeated: the first one and the longest.
const (
	minInstallDelay = time.Second
	maxInstallDelay = time.Minute
)

// fastPath keeps the flowtable in the kernel while nothing changes that affects established
// connections. Packets of connections in the flowtable bypass all chains.
//
//	change of endpoints ─▶ delete ─▶ transaction ─▶ schedule ─▶ grace period ─▶ install
type fastPath struct {
	cfg   FlowtableConfig
	table *flowtable.Table
	// follow returns the indexes of those interfaces that exist, by name. From then on, Watch
	// reports if one of them gets another name: packets of a connection would keep their way by the
	// index.
	follow      func(names []string) (map[string]int, error)
	beforeWrite func() error
	logger      *slog.Logger
	// deleted is set while the table is known not to exist. devices has the interfaces of the
	// installed table, with their indexes.
	deleted bool
	devices map[string]int
	// scheduled is the next installation, or nil if none is scheduled.
	scheduled *installation
	// suspended is set while the kernel may lack the desired state: then nothing is installed.
	suspended bool
	// delay is the delay of the last retry, in addition to its grace period. It grows with each
	// retry.
	delay time.Duration
	// failure is the error text of the last installation; empty if it succeeded.
	failure string
}

// installation is a scheduled installation of the table.
type installation struct {
	due chan struct{} // closed after the wait
	// canceled is closed to end the wait early.
	canceled chan struct{}
	// retry is set if the installation is delayed after a failure.
	retry bool
}

func newFastPath(cfg Config, follow func([]string) (map[string]int, error)) (*fastPath, error) {
	table, err := flowtable.New(flowtable.Config{
		NetNS: cfg.NetNS, PolicyTable: cfg.Renderer.Table, Uplinks: cfg.Flowtable.Uplinks,
	})
	if err != nil {
		return nil, err
	}
	return &fastPath{
		cfg: cfg.Flowtable, table: table, follow: follow, beforeWrite: cfg.BeforeWrite, logger: cfg.Logger,
	}, nil
}

// close closes the socket. The kernel deletes the table with the socket that owns it.
func (f *fastPath) close() error {
	f.cancel()
	return f.table.Close()
}

// inUse reports whether the kernel may have the table, or may get it.
func (f *fastPath) inUse() bool { return f.cfg.Enabled || !f.deleted }

// delete deletes the table. From then on, all packets traverse the chains. delete also cancels a
// scheduled installation, because a new change needs a grace period of its own.
func (f *fastPath) delete() error {
	f.cancel()
	if f.deleted {
		return nil
	}
	exists, err := f.table.Exists()
	if err == nil && !exists {
		f.deleted = true
		return nil
	}
	if f.beforeWrite != nil {
		if err := f.beforeWrite(); err != nil {
			return err
		}
	}
	err = f.table.Delete()
	f.deleted = err == nil
	return err
}

// forget makes the next delete check whether the kernel has the table.
func (f *fastPath) forget() { f.deleted = false }

// suspend prevents an installation until schedule is called.
func (f *fastPath) suspend() { f.suspended = true }

// schedule schedules an installation after a grace period. Until the grace period ends, a packet
// that the chains accepted before the change could still add its connection to the flowtable. After
// a failure, there is a further delay.
func (f *fastPath) schedule() {
	f.suspended = false
	if !f.cfg.Enabled || !f.deleted || f.scheduled != nil {
		return
	}
	delay := f.delay
	if f.failure == "" { // only interfaces were missing
		delay = 0
	}
	f.wait(delay)
}

// wait schedules an installation after a grace period and then a delay.
func (f *fastPath) wait(delay time.Duration) {
	next := &installation{due: make(chan struct{}), canceled: make(chan struct{}), retry: delay > 0}
	f.scheduled = next
	go func() {
		_ = rcu.Synchronize() // see handover.WaitGrace
		select {
		case <-time.After(delay):
		case <-next.canceled:
		}
		close(next.due)
	}()
}

// cancel cancels the scheduled installation.
func (f *fastPath) cancel() {
	if f.scheduled != nil {
		close(f.scheduled.canceled)
		f.scheduled = nil
	}
}

// due returns a channel that is closed once install need not wait, or nil if no installation is
// scheduled. If retries is false, it is also nil during the delay of a retry.
func (f *fastPath) due(retries bool) <-chan struct{} {
	if f.suspended || f.scheduled == nil {
		return nil
	}
	if f.scheduled.retry && !retries {
		select {
		case <-f.scheduled.due:
		default:
			return nil
		}
	}
	return f.scheduled.due
}

// install waits for the grace period and installs the table. It schedules a retry after a failure,
// and while interfaces are missing. It returns only the error of the context: a missing flowtable
// is no fault, because all packets then traverse the chains.
func (f *fastPath) install(ctx context.Context, own map[string][]netip.Addr) error {
	select {
	case <-f.scheduled.due:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	f.scheduled = nil
	complete, err := f.tryInstall(own)
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	if failure != f.failure && err != nil {
		f.logger.Warn("connections cannot use the kernel's fast path; they work without it", "err", err)
	}
	f.failure = failure
	if err == nil && complete {
		f.delay = 0
		return nil
	}
	f.delay = min(max(2*f.delay, minInstallDelay), maxInstallDelay)
	f.wait(f.delay)
	return nil
}

// tryInstall installs the table, and reports whether all interfaces exist. If the installed table
// already has all existing interfaces, it stays.
func (f *fastPath) tryInstall(own map[string][]netip.Addr) (complete bool, err error) {
	names := slices.Concat(slices.Collect(maps.Keys(own)), f.cfg.Uplinks)
	slices.Sort(names)
	names = slices.Compact(names)
	devices, err := f.follow(names)
	if err != nil {
		return false, err
	}
	complete = len(devices) == len(names)
	if !f.deleted && maps.Equal(devices, f.devices) {
		return complete, nil
	}
	if err := f.delete(); err != nil {
		return false, err
	}
	if f.beforeWrite != nil {
		if err := f.beforeWrite(); err != nil {
			return false, err
		}
	}
	f.deleted, f.devices = false, nil // after a failure, the kernel may or may not have the table
	existing := slices.Sorted(maps.Keys(devices))
	err = f.table.Install(addresses(own), existing)
	var missing *dataplane.FeatureError
	if errors.As(err, &missing) {
		// The kernel returns the same error if an interface was removed meanwhile.
		if now, failed := f.follow(existing); failed == nil && len(now) < len(existing) {
			return false, nil
		}
	}
	if err != nil {
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
