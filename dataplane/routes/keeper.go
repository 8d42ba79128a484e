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

	"github.com/wayleave/wayleave/internal/dispute"
	"github.com/wayleave/wayleave/internal/rtnl"
)

// KeeperConfig configures a Keeper. The zero value is good.
type KeeperConfig struct {
	// Namespace is the file descriptor of the network namespace to work in. It must stay open for
	// as long as the Keeper is used. 0 means the program's own. Another one needs CAP_SYS_ADMIN,
	// besides the CAP_NET_ADMIN that is always needed.
	Namespace int
	// Protocol number by which our routes, neighbour entries and rules are known: 5 to 255, of
	// nobody else on the node. 0 means DefaultProtocol.
	Protocol uint8
	// Tables whose routes with Protocol are ours; at least one, without 255, which is the kernel's.
	// Routes go into the first unless they say otherwise. Empty means DefaultTable alone.
	Tables []uint32
	// GracePeriod is how long a route of ours that nobody wants may stay after its interface was
	// first seen: one that a CNI plugin made for a workload that is not known yet. Watch removes it
	// then, or the next Apply. 0 means not at all.
	GracePeriod time.Duration
	// SysctlFile is the path of a file in which the Keeper writes the former value of each sysctl
	// that it sets. With it, Teardown restores the sysctls that an earlier process set. Each Keeper
	// needs a file of its own; the Keeper creates the file and its folder. If it is empty, Teardown
	// restores only what this Keeper has set.
	SysctlFile string
	// Logger for what is worth knowing but no error. nil discards.
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
	errs := []error{validateKeeping(c.Namespace, c.Protocol, c.GracePeriod)}
	for i, table := range c.Tables {
		if table == tableLocal || table == 0 {
			errs = append(errs, fmt.Errorf("routes: Tables[%d]: %d is the kernel's", i, table))
		}
	}
	return errors.Join(errs...)
}

// Keeper keeps objects in the kernel: what was Set and not Deleted is there after Apply, and
// whatever else is ours by protocol number, table or device is gone. What others made is never
// changed. It knows nothing of endpoints and policy, and can be used alone.
//
// All methods may be called from any goroutine.
type Keeper struct {
	cfg KeeperConfig
	now func() time.Time

	mu      sync.Mutex
	conn    *rtnl.Conn    // nil until needed, and after it failed
	monitor *rtnl.Monitor // is there when conn is
	// known says that the stores know what the kernel has.
	known bool
	// applied says that the wanted state is to be kept: Apply was called.
	applied  bool
	links    *links
	routes   *routeStore
	entries  *entryStore
	rules    *ruleStore
	settings *settingStore
	devices  *deviceStore
	saved    savedSysctls
	stats    Stats
	// pending are changes to what is wanted since the last Apply, in order. None are kept back
	// before the first.
	pending []change
	// ownDevices are the names of devices that Teardown removes also without an alias.
	ownDevices []string
	// ending means that all of ours has to go, and nothing has a grace period.
	ending bool
	// events counts the events of the monitor.
	events uint64
	// failing are the objects at fault after the last pass; lastReported is the text of the error that
	// the caller knows of.
	failing      []*ObjectError
	lastReported string
	// again is when to look without being asked; zero for never.
	again time.Time
	// disputes detects objects that another process changes repeatedly, by their identity.
	disputes dispute.Tracker[any]
	// repairs are the objects that were repaired after a change by another process and that Watch
	// has not reported yet; at most maxRepairs.
	repairs []Object
	// batch is what is sent next; it keeps its memory.
	batch rtnl.Batch
	// through returns what changes are made through: conn, but in tests.
	through func(*rtnl.Conn) doer
}

// change is one to what is wanted.
type change struct {
	object Object
	gone   bool
}

// doer makes changes to the kernel, as rtnl.Conn.Do does.
type doer interface {
	Do(b *rtnl.Batch, failed func(i int, err error)) error
}

// Stats counts what a Keeper did and has.
type Stats struct {
	// Routes wanted at the last Apply, and how many objects of all kinds are not as they should be.
	Routes, Failing int
	// Added, Replaced and Deleted count changes to routes.
	Added, Replaced, Deleted uint64
	// Repaired counts objects that somebody else took away or changed and that were put back.
	Repaired uint64
	// Swept counts unwanted objects with our protocol that somebody else made while Watch ran, and
	// that were removed.
	Swept uint64
	// Disputed counts objects that another process changes repeatedly. While there are any,
	// Watch repairs at most once a second, and unwanted objects with our protocol stay.
	Disputed int
	// Readings counts how often everything was read; Missed, how often because the kernel had more
	// to announce than fit.
	Readings, Missed uint64
}

// NewKeeper returns a Keeper that wants nothing and has not touched the kernel yet. It reports all
// problems of the config.
func NewKeeper(cfg KeeperConfig) (*Keeper, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Tables = slices.Clone(cfg.Tables)
	k := &Keeper{cfg: cfg, now: time.Now, through: func(c *rtnl.Conn) doer { return c }}
	k.saved = savedSysctls{file: cfg.SysctlFile, namespace: cfg.Namespace}
	k.forget()
	return k, nil
}

// forget wants and knows nothing any more.
func (k *Keeper) forget() {
	if k.links == nil {
		k.links = &links{}
	}
	k.known, k.applied, k.pending, k.failing, k.again = false, false, nil, nil, time.Time{}
	k.routes = newRouteStore(k.cfg.Protocol, k.cfg.Tables)
	k.entries = newStore[entryKey, entryValue]()
	k.rules = newStore[ruleKey, struct{}]()
	k.settings = newStore[string, Setting]()
	k.devices = &deviceStore{wanted: map[string]device{}}
}

// Set wants objects, each in the place of one with the same identity. Nothing comes of it before
// Apply: Watch, too, keeps what was wanted then, and sees no half of a change.
func (k *Keeper) Set(objects ...Object) { k.change(objects, false) }

// change notes what is to be wanted, or no more. What Watch keeps must not change before Apply.
func (k *Keeper) change(objects []Object, gone bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, o := range objects {
		if c := (change{o, gone}); k.applied {
			k.pending = append(k.pending, c)
		} else {
			k.apply(c)
		}
	}
}

// apply makes a change to the desired state.
func (k *Keeper) apply(c change) {
	switch o := c.object.(type) {
	case Route:
		k.routes.change(o, c.gone)
	case Rule:
		k.rules.change(o.key(k.cfg.Protocol), struct{}{}, c.gone)
	case Setting:
		k.settings.change(o.Path, o, c.gone)
	case device:
		k.devices.change(o, c.gone)
	default:
		if key, v, ok := entryOf(o); ok {
			k.entries.change(key, v, c.gone)
		}
	}
}

// Delete wants objects no more. Only their identity counts. Settings stay as they are in the kernel
// until Teardown; whatever else goes with the next Apply.
func (k *Keeper) Delete(objects ...Object) { k.change(objects, true) }

// Apply brings the kernel to the wanted state. The first call adopts what is right already and
// removes what is ours and unwanted; later ones look at what changed alone. It can be repeated:
// what failed is tried again, and reported for as long as it lasts.
//
// Errors: a join of *ObjectError, one for each object at fault (all others are in the kernel); any
// other error means that nothing can be said of any object.
func (k *Keeper) Apply(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.applyLocked(ctx)
}

func (k *Keeper) applyLocked(ctx context.Context) error {
	k.applied = true
	for _, c := range k.pending {
		k.apply(c)
	}
	k.pending = nil
	err := k.reconcile(ctx)
	k.lastReported = fmt.Sprint(err)
	return err
}

// Resync reads everything of ours again and repairs what differs. Errors as for Apply. Before the
// first Apply it does nothing.
func (k *Keeper) Resync(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.applied {
		return nil
	}
	k.known = false
	return k.applyLocked(ctx)
}

// Teardown removes everything of ours, also what an earlier run left, and wants nothing any more. A
// sysctl that still has the value that it was set to gets back the one that it had before, if that
// is known (see KeeperConfig.SysctlFile). Errors as for Apply; it can then be called again.
func (k *Keeper) Teardown(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	k.ending = true
	err := k.reconcile(ctx)
	k.ending = false
	k.forget() // the next state begins with a reading
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
	dry := k.fork()
	dry.ending = true
	plan, err := k.planLocked(ctx, dry)
	if err != nil {
		return "", err
	}
	settings, err := k.saved.restorable()
	if err != nil {
		return plan, fmt.Errorf("routes: restore sysctls: %w", err)
	}
	removed := dry.strayDevices()
	for _, s := range settings {
		if !slices.ContainsFunc(removed, func(dev string) bool { return strings.Contains(s.Path, "/"+dev+"/") }) {
			plan += "sysctl -w " + s.String() + "\n"
		}
	}
	return plan, nil
}

// Plan returns the changes that Apply would make, one a line, as commands of ip, bridge and sysctl.
// It reads the kernel and touches nothing. Objects that Apply would report are left out, but for
// those that somebody else's are in the way of: that only shows when it is tried.
//
// Errors: the context's; why the kernel could not be read.
func (k *Keeper) Plan(ctx context.Context) (string, error) { return k.planOf(ctx, k.copyTo) }

// planOf returns the changes to what want makes a Keeper want. It locks k while want runs.
func (k *Keeper) planOf(ctx context.Context, want func(dry *Keeper)) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	dry := k.fork()
	want(dry)
	return k.planLocked(ctx, dry)
}

// copyTo makes dry want what k wants.
func (k *Keeper) copyTo(dry *Keeper) {
	for _, slot := range k.routes.slots {
		for _, r := range slot.claims {
			dry.routes.change(r, false)
		}
	}
	k.entries.copyTo(dry.entries)
	k.rules.copyTo(dry.rules)
	k.settings.copyTo(dry.settings)
	for _, d := range k.devices.wanted {
		dry.devices.change(d, false)
	}
	for _, c := range k.pending {
		dry.apply(c)
	}
}

// fork returns a Keeper that wants nothing, to plan with.
func (k *Keeper) fork() *Keeper {
	dry := &Keeper{cfg: k.cfg, now: k.now, through: k.through, ownDevices: k.ownDevices}
	dry.forget()
	dry.links.ByIndex = k.links.ByIndex // for since when interfaces have been there: reading replaces it
	return dry
}

// planLocked returns the changes to what dry wants.
func (k *Keeper) planLocked(ctx context.Context, dry *Keeper) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := k.connect(); err != nil {
		return "", err
	}
	dry.conn = k.conn
	if err := dry.read(); err != nil {
		return "", errors.Join(fmt.Errorf("routes: read state: %w", err), k.closeLocked())
	}
	p := newPass(dry)
	p.dry = true
	if err := p.run(); err != nil {
		return "", err
	}
	return strings.Join(p.lines, ""), nil
}

// Stats returns what has been done so far.
func (k *Keeper) Stats() Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.stats
	s.Routes, s.Failing, s.Disputed = k.routes.wanted, len(k.failing), len(k.disputes.Disputed(k.now()))
	return s
}

// Close closes the connection to the kernel and leaves the kernel's state as it is. A
// Keeper that is used again connects again.
func (k *Keeper) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closeLocked()
}

func (k *Keeper) closeLocked() error {
	if k.conn == nil {
		return nil
	}
	conn, monitor := k.conn, k.monitor
	k.conn, k.monitor, k.known = nil, nil, false // what happens from now on is not seen
	return errors.Join(monitor.Close(), conn.Close())
}

// connect opens the connections if there are none. The monitor reports all changes except this
// Keeper's own to routes, entries and rules.
func (k *Keeper) connect() error {
	if k.conn != nil {
		return nil
	}
	cfg := rtnl.Config{Namespace: k.cfg.Namespace}
	monitor, err := rtnl.Listen(cfg, rtnl.GroupLinks, rtnl.GroupAddresses, rtnl.GroupRoutes, rtnl.GroupNeighbours,
		rtnl.GroupRules, rtnl.GroupNetconf)
	if err != nil {
		return fmt.Errorf("routes: connect: %w", err)
	}
	conn, err := rtnl.Dial(cfg)
	if err != nil {
		return fmt.Errorf("routes: connect: %w", errors.Join(err, monitor.Close()))
	}
	if err := monitor.Ignore(conn.Port()); err != nil {
		return fmt.Errorf("routes: connect: %w", errors.Join(err, monitor.Close(), conn.Close()))
	}
	k.conn, k.monitor, k.known = conn, monitor, false
	return nil
}
