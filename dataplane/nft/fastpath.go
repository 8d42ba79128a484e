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

// How long it takes until a failed installation is repeated, at first and at most.
const (
	minInstallDelay = time.Second
	maxInstallDelay = time.Minute
)

// fastPath keeps the flowtable in the kernel while nothing changes that affects established connections.
//
//	change of endpoints ─▶ delete ─▶ transaction ─▶ schedule ─▶ grace period ─▶ install
type fastPath struct {
	cfg   FlowtableConfig
	table *flowtable.Table
	// exists reports whether there is an interface of that name.
	exists      func(name string) (bool, error)
	beforeWrite func() error
	logger      *slog.Logger
	// deleted is set while the table is known not to exist. devices are the interfaces of the installed table.
	deleted bool
	devices []string
	// scheduled is the next installation, or nil if there is nothing to install.
	scheduled *installation
	// suspended is set while the kernel may lack the desired state, so that nothing is installed.
	suspended bool
	// delay is how long the last retry waited after its grace period: longer with each one.
	delay time.Duration
	// failure is the text of the last error, if the last installation failed.
	failure string
}

// installation is an installation of the table after a wait.
type installation struct {
	due chan struct{} // closed after the wait
	// canceled is closed to end the wait early.
	canceled chan struct{}
	// retry says that it is delayed.
	retry bool
}

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
	f.cancel()
	return f.table.Close()
}

// inUse reports whether delete may have something to do.
func (f *fastPath) inUse() bool { return f.cfg.Enabled || !f.deleted }

// delete deletes the table: from then on, all packets traverse the chains. An installation that is scheduled is not
// made: a change needs a grace period of its own.
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

// forget makes the next delete look for the table in the kernel.
func (f *fastPath) forget() { f.deleted = false }

// suspend prevents an installation until schedule.
func (f *fastPath) suspend() { f.suspended = true }

// schedule starts the grace period after which the table may be installed. Until it ends, a packet that the chains
// accepted before the change could add its flow. After a failure, the installation is delayed, too.
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

// wait schedules an installation after a grace period and a delay.
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

// cancel ends the wait for an installation, which is then not made.
func (f *fastPath) cancel() {
	if f.scheduled != nil {
		close(f.scheduled.canceled)
		f.scheduled = nil
	}
}

// due returns a channel that is closed once install need not wait, or nil while nothing is to be installed. Without
// retries, it is also nil during the delay of a retry.
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

// install waits for the grace period and installs the table. It is repeated after a failure, and while interfaces are
// missing. It returns only the error of the context: without a flowtable, all packets traverse the chains.
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

// tryInstall installs the table, and reports whether it has all interfaces. It keeps a table that already has
// all existing interfaces.
func (f *fastPath) tryInstall(own map[string][]netip.Addr) (complete bool, err error) {
	names := slices.Concat(slices.Collect(maps.Keys(own)), f.cfg.Uplinks)
	slices.Sort(names)
	names = slices.Compact(names)
	devices, err := f.existing(names)
	if err != nil {
		return false, err
	}
	complete = len(devices) == len(names)
	if !f.deleted && slices.Equal(devices, f.devices) {
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
	f.deleted, f.devices = false, nil // the result of a failure is not known
	err = f.table.Install(addresses(own), devices)
	var missing *dataplane.FeatureError
	if errors.As(err, &missing) {
		// The kernel has the same error for an interface that was removed meanwhile.
		if now, failed := f.existing(devices); failed == nil && len(now) < len(devices) {
			return false, nil
		}
	}
	if err != nil {
		return false, err
	}
	f.devices = devices
	return complete, nil
}

// existing returns the names of interfaces that exist.
func (f *fastPath) existing(names []string) (found []string, err error) {
	for _, name := range names {
		exists, err := f.exists(name)
		if err != nil {
			return nil, err
		}
		if exists {
			found = append(found, name)
		}
	}
	return found, nil
}

func addresses(own map[string][]netip.Addr) (all []flowtable.Address) {
	for name, list := range own {
		for _, a := range list {
			all = append(all, flowtable.Address{Interface: name, Addr: a})
		}
	}
	return all
}
