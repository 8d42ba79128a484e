// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wayleave/wayleave/internal/rtnl"
)

// KeeperConfig configures a Keeper. The zero value has the defaults.
type KeeperConfig struct {
	// NetNS is the file descriptor of the network namespace to work in. It must stay open for as
	// long as the Keeper is used. 0 means the program's own namespace. CAP_NET_ADMIN is always
	// needed; another namespace needs CAP_SYS_ADMIN as well.
	NetNS int
	// Protocol is the number that marks our routes, neighbour entries and rules in the kernel: 5 to
	// 255. No other process on the node may use the number. 0 means DefaultProtocol.
	Protocol uint8
	// Tables are the routing tables that this Keeper uses. All routes in them whose protocol number
	// is KeeperConfig.Protocol are ours. A Route without a Table goes into the first. Each may be
	// listed once. Tables 0 and 255 are the kernel's, and not allowed. Empty means DefaultTable
	// alone.
	Tables []uint32
	// Devices are names of tunnel devices that Teardown removes even if they have no alias. Our
	// tunnel devices normally have an alias that contains Protocol, but a process may have been
	// killed before it set the alias. Empty means none.
	Devices []string
	// UnknownRouteTimeout is for routes with our protocol number that were never passed to Set. A
	// CNI plugin may have added such a route for a workload that the Keeper does not know yet. If
	// such a route has no gateway, it stays for this time after the Keeper first saw its interface.
	// Then Watch or the next Apply removes it. A route with a gateway is removed at once. 0 means
	// that all are removed at once.
	UnknownRouteTimeout time.Duration
	// SysctlFile is the path of a file to which the Keeper writes the former value of each sysctl
	// that it sets. With this file, Teardown also restores the sysctls that an earlier process set.
	// Each Keeper needs a file of its own; the Keeper creates the file and its folder. If the path
	// is empty, Teardown restores only the sysctls that this Keeper has set.
	SysctlFile string
	// Logger for warnings and information. nil discards.
	Logger *slog.Logger
}

func (c KeeperConfig) withDefaults() KeeperConfig {
	c.Protocol = cmp.Or(c.Protocol, DefaultProtocol)
	if len(c.Tables) == 0 {
		c.Tables = []uint32{DefaultTable}
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

func (c KeeperConfig) validate() error {
	return errors.Join(validateKeeping("KeeperConfig", c.NetNS, c.Protocol, c.UnknownRouteTimeout),
		validateTables("KeeperConfig", c.Tables))
}

func validateTables(owner string, tables []uint32) error {
	var errs []error
	for i, table := range tables {
		switch {
		case table == tableLocal || table == 0:
			errs = append(errs, fmt.Errorf("routes: %s.Tables[%d]: %d is the kernel's", owner, i, table))
		case slices.Contains(tables[:i], table):
			errs = append(errs, fmt.Errorf("routes: %s.Tables[%d]: %d is duplicated", owner, i, table))
		}
	}
	return errors.Join(errs...)
}

// Keeper keeps objects in the kernel. Set and Delete change the desired objects. After Apply, the
// kernel has the desired objects, and no other objects of ours. The package comment says which
// objects are ours. A Keeper never changes objects of other processes. A Keeper knows nothing about
// endpoints and policy, and can be used without a Dataplane.
//
// All methods may be called from any goroutine.
type Keeper struct {
	cfg KeeperConfig

	mu   sync.Mutex
	view *kernelView
	// pending has the changes by Set and Delete since the last Apply, in order. The next Apply
	// makes these changes to the desired state. Before the first Apply, pending is empty: Set and
	// Delete then change the desired state at once.
	pending []change
	// applied is set by the first Apply; before, Watch repairs nothing.
	applied bool
	// additionsOnly is set by ApplyAdditions until the next Apply: unwanted objects stay.
	additionsOnly bool
	saved         savedSysctls
	stats         Stats
	repairs       repairs
	// last is the result of the last pass. lastReported is the text of the error that Apply last
	// returned or Watch last reported.
	last         result
	lastReported string
}

// Stats counts the objects and changes of a Keeper.
type Stats struct {
	// Routes is the number of routes desired at the last Apply. Failing is the number of objects,
	// of all kinds, that could not be added or removed.
	Routes, Failing int
	// Added, Replaced and Deleted count changes to routes.
	Added, Replaced, Deleted uint64
	// Repaired counts objects that another process removed or changed and that were restored.
	Repaired uint64
	// Swept counts objects that another process made with our protocol number while Watch ran, and
	// that were removed because they are not desired.
	Swept uint64
	// Disputed counts objects that another process changes repeatedly. While there are any, Watch
	// repairs at most once a second, and does not remove objects with our protocol number that are
	// not desired.
	Disputed int
	// Readings counts how often all objects were read from the kernel. Missed counts how often the
	// socket's buffer overflowed. Notifications were then lost, and all objects had to be read.
	Readings, Missed uint64
}

// NewKeeper returns a Keeper without objects. It does not connect to the kernel yet. Errors: all
// problems of the config, joined.
func NewKeeper(cfg KeeperConfig) (*Keeper, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Tables, cfg.Devices = slices.Clone(cfg.Tables), slices.Clone(cfg.Devices)
	k := &Keeper{cfg: cfg}
	k.view = &kernelView{sockets: newSockets(cfg.NetNS), now: time.Now, links: &links{}}
	k.saved = savedSysctls{file: cfg.SysctlFile, namespace: cfg.NetNS}
	k.reset()
	return k, nil
}

// reset clears the desired and the observed state.
func (k *Keeper) reset() {
	k.applied, k.additionsOnly, k.pending, k.last = false, false, nil, result{}
	k.view.stores, k.view.synced = k.newStores(), false
}

func (k *Keeper) newStores() *stores { return newStores(k.cfg.Protocol, k.cfg.Tables) }

// Set adds objects to the desired state. An object replaces the object of the same type with the
// same identity; the comment of each type says which fields are the identity. Set takes effect with
// the next Apply. Until then, Watch continues to restore the state of the last Apply.
func (k *Keeper) Set(objects ...Object) { k.change(objects, false) }

// change changes the desired state. After the first Apply, when Watch may be keeping the desired
// state, it only records the changes for the next Apply.
func (k *Keeper) change(objects []Object, remove bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, o := range objects {
		if c := (change{o, remove}); k.applied {
			k.pending = append(k.pending, c)
		} else {
			k.view.stores.apply(c)
		}
	}
}

// Delete removes objects from the desired state. It finds them by their identity, so other fields
// do not matter. The next Apply removes the objects from the kernel. Sysctls (type Setting) keep
// their values until Teardown.
func (k *Keeper) Delete(objects ...Object) { k.change(objects, true) }

// Apply brings the kernel to the desired state. The first call also compares all our objects in the
// kernel with the desired state. It keeps desired objects, and removes the others. Later calls
// process only the changes since the last call, and retry failed changes. Each call returns an
// error for a failed change until the change succeeds.
//
// Errors: a join of *ObjectError, one for each object at fault; all other objects are in the
// kernel. Any other error means that the state of all objects is unknown.
func (k *Keeper) Apply(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.additionsOnly = false
	return k.applyLocked(ctx)
}

// ApplyAdditions does the same as Apply, but does not remove objects that are no longer desired.
// These are objects that were passed to Delete, and our objects from an earlier process. They stay
// in the kernel until the next Apply or Resync. Until then, Watch does not remove them either.
//
// Errors: those of Apply.
func (k *Keeper) ApplyAdditions(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.additionsOnly = true
	return k.applyLocked(ctx)
}

func (k *Keeper) applyLocked(ctx context.Context) error {
	k.applied = true
	for _, c := range k.pending {
		k.view.stores.apply(c)
	}
	k.pending = nil
	err := k.reconcile(ctx)
	k.lastReported = fmt.Sprint(err)
	return err
}

// reconcile brings the kernel to the desired state. It makes a second attempt in two cases. An
// interface may have gone away or down during the pass. Or an object may have conflicted with one
// that the Keeper did not know; then it reads everything again before the second attempt.
func (k *Keeper) reconcile(ctx context.Context) error {
	r, err := k.attempt(ctx)
	if err == nil && (r.conflict || r.stale) && ctx.Err() == nil {
		k.view.synced = k.view.synced && !r.conflict
		r, err = k.attempt(ctx)
	}
	if err != nil {
		return err
	}
	k.last = r
	return r.err()
}

// attempt makes one pass. An error means that the state of all objects is unknown.
func (k *Keeper) attempt(ctx context.Context) (result, error) {
	if err := ctx.Err(); err != nil {
		return result{}, err
	}
	if err := k.view.connect(); err != nil {
		return result{}, err
	}
	err := k.view.update()
	p := pass{
		cfg: &k.cfg, view: k.view, saved: &k.saved, repairs: &k.repairs, stats: &k.stats,
		blocked: map[string]bool{}, additionsOnly: k.additionsOnly,
	}
	if err == nil {
		err = p.run()
	}
	if err != nil { // the next pass connects again
		return result{}, errors.Join(fmt.Errorf("routes: %w", err), k.view.disconnect())
	}
	return p.result, nil
}

// Resync reads all our objects from the kernel again, and repairs those that differ from the
// desired state. Before the first Apply it does nothing. It returns the same errors as Apply.
func (k *Keeper) Resync(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.applied {
		return nil
	}
	k.view.synced, k.additionsOnly = false, false
	return k.applyLocked(ctx)
}

// Foreign reports whether an interface of another process has the name of one of our devices. Apply
// returns ErrForeign for such a device. Foreign changes nothing. Errors: the kernel cannot be read.
func (k *Keeper) Foreign(device string) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.view.connect(); err != nil {
		return false, fmt.Errorf("routes: %w", err)
	}
	link, err := k.view.sockets.conn.Link(device)
	if errors.Is(err, rtnl.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, errors.Join(fmt.Errorf("routes: read interface %s: %w", device, err), k.view.disconnect())
	}
	return link.Name == device && foreignDevice(link, k.cfg.Protocol), nil
}

// Teardown clears the desired state and removes all our objects, also those of an earlier process.
// It restores the former values of sysctls, if they are known (see KeeperConfig.SysctlFile) and the
// sysctls have not changed since. It returns the same errors as Apply; after an error, it can be
// called again.
func (k *Keeper) Teardown(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reset()
	k.view.stores.tearDown(k.cfg.Devices)
	err := k.reconcile(ctx)
	k.reset() // the next state begins with a dump
	k.lastReported = ""
	if err != nil {
		return err // an object that could not be removed may need a sysctl
	}
	return k.saved.restore()
}

// PlanTeardown returns the changes that Teardown would make, as commands of ip, bridge and sysctl.
// Each command is on a line of its own. PlanTeardown changes nothing.
//
// Errors: those of Plan. If PlanTeardown cannot read KeeperConfig.SysctlFile, it returns both the
// error and a plan. This plan lacks the sysctls that Teardown would restore.
func (k *Keeper) PlanTeardown(ctx context.Context) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	dry := k.view.fork(k.newStores())
	dry.stores.tearDown(k.cfg.Devices)
	plan, err := k.planLocked(ctx, dry)
	if err != nil {
		return "", err
	}
	settings, err := k.saved.restorable()
	if err != nil {
		return plan, fmt.Errorf("routes: restore sysctls: %w", err)
	}
	removed := dry.unwantedDevices()
	for _, s := range settings {
		if !slices.ContainsFunc(removed, func(dev string) bool { return strings.Contains(s.Path, "/"+dev+"/") }) {
			plan += "sysctl -w " + s.String() + "\n"
		}
	}
	return plan, nil
}

// Plan returns the changes that Apply would make, as commands of ip, bridge and sysctl. Each
// command is on a line of its own. Plan reads the kernel's state and changes nothing.
//
// If Apply would return an error for an object, the plan usually leaves the object out. But Plan
// does not try to add the object, so it cannot detect every error. For example, a foreign route may
// be in the place of a desired one (ErrForeign). The plan then contains the desired route.
//
// Errors: that of ctx; an error if the kernel's state cannot be read.
func (k *Keeper) Plan(ctx context.Context) (string, error) {
	return k.planOf(ctx, func(desired *stores) {
		k.view.stores.copyTo(desired)
		for _, c := range k.pending {
			desired.apply(c)
		}
	})
}

// planOf returns the changes that lead to a desired state, which fill writes to the stores. It
// locks k while fill runs.
func (k *Keeper) planOf(ctx context.Context, fill func(desired *stores)) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	dry := k.view.fork(k.newStores())
	fill(dry.stores)
	return k.planLocked(ctx, dry)
}

// planLocked returns the changes that lead to the desired state of dry. The caller has locked k.
func (k *Keeper) planLocked(ctx context.Context, dry *kernelView) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := k.view.connect(); err != nil {
		return "", err
	}
	if err := dry.read(); err != nil {
		return "", errors.Join(fmt.Errorf("routes: read state: %w", err), k.view.disconnect())
	}
	p := pass{
		cfg: &k.cfg, view: dry, repairs: &repairs{}, stats: &Stats{}, blocked: map[string]bool{}, dry: true,
	}
	if err := p.run(); err != nil {
		return "", err
	}
	return strings.Join(p.result.lines, ""), nil
}

// Stats returns the counts so far.
func (k *Keeper) Stats() Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.stats
	s.Routes, s.Failing = k.view.stores.routes.desired, len(k.last.failures)
	s.Disputed = len(k.repairs.disputes.Disputed(k.view.now()))
	s.Readings, s.Missed = k.view.readings, k.view.missed
	return s
}

// Close closes the connection to the kernel and leaves the kernel's state as it is. If the Keeper
// is used afterwards, it connects again.
func (k *Keeper) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.view.disconnect()
}
