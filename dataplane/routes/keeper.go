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
)

// KeeperConfig configures a Keeper. The zero value has the defaults.
type KeeperConfig struct {
	// NetNS is the file descriptor of the network namespace to work in. It must stay open for
	// as long as the Keeper is used. 0 means the program's own. Another one needs CAP_SYS_ADMIN,
	// besides the CAP_NET_ADMIN that is always needed.
	NetNS int
	// Protocol number by which our routes, neighbour entries and rules are known: 5 to 255,
	// used by no other process on the node. 0 means DefaultProtocol.
	Protocol uint8
	// Tables whose routes with Protocol are ours; at least one, without 255, which is the kernel's.
	// A Route without a Table goes into the first. Empty means DefaultTable alone.
	Tables []uint32
	// Devices are the names of tunnel devices that are ours also without the alias that names Protocol: a
	// process may have been killed before it set one. Teardown removes them. Empty means none.
	Devices []string
	// UnknownRouteTimeout is how long a route with our protocol that was never Set stays after its
	// interface was first seen. A CNI plugin may have added it for a workload that is not known yet.
	// Watch or the next Apply removes it after that time. 0 means at once.
	UnknownRouteTimeout time.Duration
	// SysctlFile is the path of a file in which the Keeper writes the former value of each sysctl
	// that it sets. With it, Teardown restores the sysctls that an earlier process set. Each Keeper
	// needs a file of its own; the Keeper creates the file and its folder. If it is empty, Teardown
	// restores only what this Keeper has set.
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
	return errors.Join(validateKeeping(c.NetNS, c.Protocol, c.UnknownRouteTimeout), validateTables(c.Tables))
}

func validateTables(tables []uint32) error {
	var errs []error
	for i, table := range tables {
		switch {
		case table == tableLocal || table == 0:
			errs = append(errs, fmt.Errorf("routes: Tables[%d]: %d is the kernel's", i, table))
		case slices.Contains(tables[:i], table):
			errs = append(errs, fmt.Errorf("routes: Tables[%d]: %d is there twice", i, table))
		}
	}
	return errors.Join(errs...)
}

// Keeper keeps objects in the kernel. After Apply, the kernel has the objects that were Set and not
// Deleted, and no others of ours: by protocol number, table or device. A Keeper never changes objects
// of other processes. It is independent of endpoints and policy, and can be used alone.
//
// All methods may be called from any goroutine.
type Keeper struct {
	cfg KeeperConfig

	mu   sync.Mutex
	view *kernelView
	// pending are the changes to the desired state since the last Apply, in order. Before the first
	// Apply, changes take effect at once.
	pending []change
	// applied is set by the first Apply; before, Watch repairs nothing.
	applied bool
	// additionsOnly is set by ApplyAdditions until the next Apply: unwanted objects stay.
	additionsOnly bool
	saved         savedSysctls
	stats         Stats
	repairs       repairs
	// last is the result of the last pass; lastReported is the text of the error that was last returned
	// or reported.
	last         result
	lastReported string
}

// Stats counts the objects and changes of a Keeper.
type Stats struct {
	// Routes desired at the last Apply, and how many objects of all kinds are not as they should be.
	Routes, Failing int
	// Added, Replaced and Deleted count changes to routes.
	Added, Replaced, Deleted uint64
	// Repaired counts objects that another process removed or changed and that were restored.
	Repaired uint64
	// Swept counts unwanted objects with our protocol that another process made while
	// Watch ran, and that were removed.
	Swept uint64
	// Disputed counts objects that another process changes repeatedly. While there are any,
	// Watch repairs at most once a second, and unwanted objects with our protocol stay.
	Disputed int
	// Readings counts how often everything was read; Missed, how often because the kernel had more
	// to announce than fit.
	Readings, Missed uint64
}

// NewKeeper returns a Keeper without objects that has not connected to the kernel yet. Its error is
// a join of all problems of the config.
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

// Set adds objects to the desired state, each in the place of one with the same identity. It takes
// effect with Apply: until then Watch, too, keeps the state of the last Apply.
func (k *Keeper) Set(objects ...Object) { k.change(objects, false) }

// change changes the desired state, or records the change for Apply if Watch may be running.
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

// Delete removes objects from the desired state. Only their identity counts. The next Apply removes
// them from the kernel, except settings, which keep their value until Teardown.
func (k *Keeper) Delete(objects ...Object) { k.change(objects, true) }

// Apply brings the kernel to the desired state. The first call adopts objects that are right already
// and removes unwanted ones of ours; later calls process changes only. It can be repeated: it retries
// failed changes, and reports each until it succeeds.
//
// Errors: a join of *ObjectError, one for each object at fault (all others are in the kernel); any
// other error means that the state of all objects is unknown.
func (k *Keeper) Apply(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.additionsOnly = false
	return k.applyLocked(ctx)
}

// ApplyAdditions is Apply, but leaves unwanted objects to the next Apply or Resync: those that were Deleted, and those
// of an earlier process. Until then, Watch leaves them, too. Errors as for Apply.
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

// reconcile brings the kernel to the desired state. After a conflict with an object that was not in
// the last dump, it reads everything and tries once more. It also tries once more if an interface went
// during the pass.
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

// Resync reads everything of ours again and repairs what differs. Errors as for Apply. Before the
// first Apply it does nothing.
func (k *Keeper) Resync(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.applied {
		return nil
	}
	k.view.synced, k.additionsOnly = false, false
	return k.applyLocked(ctx)
}

// Teardown clears the desired state and removes all objects of ours, also those of an earlier run. A
// sysctl that still has the value that it was set to gets back the one that it had before, if that
// is known (see KeeperConfig.SysctlFile). Errors as for Apply; it can then be called again.
func (k *Keeper) Teardown(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reset()
	k.view.stores.tearDown(k.cfg.Devices)
	err := k.reconcile(ctx)
	k.reset() // the next state begins with a dump
	k.lastReported = ""
	if err != nil {
		return err // a sysctl may be needed by what could not be removed
	}
	return k.saved.restore()
}

// PlanTeardown returns the changes that Teardown would make, as Plan does. It changes nothing.
//
// Errors: those of Plan; one of reading the saved sysctls, beside the plan of all other changes.
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

// Plan returns the changes that Apply would make, one a line, as commands of ip, bridge and sysctl.
// It reads the kernel and touches nothing. Objects that Apply would report are left out, but for
// those with ErrForeign: only an attempt shows that another process has such an object.
//
// Errors: the context's; why the kernel could not be read.
func (k *Keeper) Plan(ctx context.Context) (string, error) {
	return k.planOf(ctx, func(desired *stores) {
		k.view.stores.copyTo(desired)
		for _, c := range k.pending {
			desired.apply(c)
		}
	})
}

// planOf returns the changes to the desired state that fill gives the stores. It locks k while fill
// runs.
func (k *Keeper) planOf(ctx context.Context, fill func(desired *stores)) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	dry := k.view.fork(k.newStores())
	fill(dry.stores)
	return k.planLocked(ctx, dry)
}

// planLocked returns the changes to the desired state of dry.
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

// Close closes the connection to the kernel and leaves the kernel's state as it is. A
// Keeper that is used again connects again.
func (k *Keeper) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.view.disconnect()
}
