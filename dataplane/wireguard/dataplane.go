// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/policy"
)

var (
	_ dataplane.Dataplane = (*Dataplane)(nil)
	_ dataplane.Planner   = (*Dataplane)(nil)
	_ dataplane.Watcher   = (*Dataplane)(nil)
	_ dataplane.Finisher  = (*Dataplane)(nil)
)

// Dataplane programs the WireGuard devices of a node, and the routes through them. Only one
// goroutine at a time may call its methods. The exception is Watch, which may run concurrently with
// the other methods.
type Dataplane struct {
	cfg        Config
	reconciler reconciler
	state      *state
	filter     filter
	devices    devices
	interfaces interfaceObserver
	outDevices outDevices
	rotation   rotation
	// remoteNodes has the remote nodes of the last call of program, by name.
	remoteNodes map[string]*remoteNode
	// last is the result of the last call of program, with the errors of a later Finish.
	last result
	// announced are the keys that Config.Announce has received.
	announced  []policy.WireguardKey
	applyTimer applyTimer
}

// retryInterval is the least time between a failed change and its retry, if the retry comes with a
// batch that changes nothing for this package.
const retryInterval = time.Second

// New returns a Dataplane. It neither opens a key file nor connects to the kernel. Errors: all
// problems of the Config, joined.
func New(cfg Config) (*Dataplane, error) {
	cfg = cfg.withDefaults()
	d := &Dataplane{
		cfg: cfg, outDevices: outDevices{}, rotation: rotation{device: noDevice},
		devices: devices{namespace: cfg.NetNS}, interfaces: interfaceObserver{namespace: cfg.NetNS},
		applyTimer: applyTimer{now: time.Now, wake: make(chan struct{}, 1)},
	}
	names := make([]string, 0, len(cfg.Devices))
	for _, c := range cfg.Devices {
		d.devices.list = append(d.devices.list, &device{cfg: c})
		names = append(names, c.Name)
	}
	keeper, err := routes.NewKeeper(routes.KeeperConfig{
		NetNS: cfg.NetNS, Protocol: cfg.Protocol, Tables: []uint32{cfg.Table, routes.DefaultTable}, Devices: names,
		SysctlFile: cfg.SysctlFile, Logger: cfg.Logger,
	})
	if err = errors.Join(cfg.validate(), err); err != nil {
		return nil, err
	}
	d.reconciler, d.state, d.filter.cfg = newReconciler(keeper), newState(&d.cfg), &d.cfg
	d.devices.foreign = keeper.Foreign
	return d, nil
}

// Close closes the connections to the kernel and leaves the kernel's state as it is. Errors: those
// of the system calls.
func (d *Dataplane) Close() error {
	return errors.Join(d.devices.close(), d.reconciler.keeper.Close(), d.filter.close())
}

// Apply implements dataplane.Dataplane. With the first complete state, it reads the devices, peers
// and routes of an earlier process. It keeps those that are desired, and removes the others. It
// makes no system call for a batch that changes nothing for this package. The package comment
// explains the errors.
func (d *Dataplane) Apply(ctx context.Context, b dataplane.Batch) error {
	return d.finishNow(ctx, d.ApplyVisible(ctx, b))
}

// ApplyVisible implements dataplane.Finisher. It does what Apply does, but postpones removals until
// the call of Finish. For example, a prefix may no longer belong to another node. A dataplane that
// the Driver calls after this one may still have an unencrypted route to this prefix. Therefore the
// encrypted route stays until Finish: otherwise packets to the prefix would leave unencrypted.
func (d *Dataplane) ApplyVisible(ctx context.Context, b dataplane.Batch) error {
	d.state.update(b)
	if !d.state.inSync {
		return nil
	}
	fired := d.applyTimer.fired.Swap(false)
	retries := d.last.retry && !d.applyTimer.now().Before(d.last.time.Add(retryInterval))
	if !fired && !d.state.changed && !retries && len(b.Events) > 0 {
		return cmp.Or(ctx.Err(), d.last.err)
	}
	return d.program(ctx, false)
}

// Unfinished implements dataplane.Finisher.
func (d *Dataplane) Unfinished() <-chan struct{} { return d.last.unfinished }

// Resync implements dataplane.Dataplane. It repairs objects of this Dataplane that differ in the
// kernel. If ApplyVisible has postponed removals until the call of Finish, Resync postpones them,
// too. It returns the same errors as Apply.
func (d *Dataplane) Resync(ctx context.Context) error {
	if !d.state.inSync {
		return nil
	}
	// There may be removals of a batch that later dataplanes have not received yet.
	pending := d.last.unfinished != nil || d.last.skipped
	err := d.program(ctx, true)
	if pending {
		return err
	}
	return d.finishNow(ctx, err)
}

// Keys returns the public keys that this node's Node resource must have. It returns nil until all
// devices are configured, and after Teardown.
func (d *Dataplane) Keys() []policy.WireguardKey {
	return slices.Clone(d.announced)
}

// Teardown implements dataplane.Dataplane. Before you call it, remove the keys from this node's
// Node resource, and wait until the other nodes have received the change. After Teardown, this node
// cannot decrypt packets: if another node still encrypts to it, the packets are lost. Teardown
// keeps the key files.
//
// Errors: a *dataplane.ApplyError whose field Object is empty. If the nftables table cannot be
// removed, Teardown removes nothing: without the routes, the table would drop packets of this node.
// After an error, Teardown may be called again.
func (d *Dataplane) Teardown(ctx context.Context) error {
	d.state, d.outDevices = newState(&d.cfg), outDevices{}
	d.reconciler.forget() // Watch uses the keeper
	d.announced, d.last = nil, result{}
	d.rotation = rotation{device: noDevice}
	d.applyTimer.schedule(time.Time{})
	d.devices.forget()
	err := d.filter.remove(ctx)
	if err == nil {
		err = d.reconciler.keeper.Teardown(ctx)
	}
	if err != nil {
		return &dataplane.ApplyError{Backend: backend, Op: "remove", Err: err}
	}
	return nil
}

// PlanTeardown returns the changes that Teardown would make, as commands of ip, bridge, sysctl and
// nft. It changes nothing.
func (d *Dataplane) PlanTeardown(ctx context.Context) (string, error) {
	table, tableErr := d.filter.planRemoval()
	plan, err := d.reconciler.keeper.PlanTeardown(ctx)
	return nftCommand(table) + plan, errors.Join(tableErr, err)
}

// nftCommand returns a script of nft as a command of the shell.
func nftCommand(script string) string {
	switch strings.Count(script, "\n") {
	case 0:
		return ""
	case 1:
		return "nft '" + strings.TrimSuffix(script, "\n") + "'\n"
	default:
		return "nft -f - <<'END'\n" + script + "END\n"
	}
}

// Plan implements dataplane.Planner. It returns commands of ip, sysctl, nft and wg, without private
// keys. It creates no key file: only Apply creates and announces a missing key. Errors: a key file
// is invalid, or the kernel's state cannot be read.
func (d *Dataplane) Plan(ctx context.Context, b dataplane.Batch) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	state := d.state.clone()
	state.update(b)
	if !state.inSync {
		return "", nil
	}
	if err := d.devices.loadKeys(readKey); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := errors.Join(d.devices.observe(), d.interfaces.read(state)); err != nil {
		return "", err
	}
	nodes := state.remoteNodes(d.devices.publicKeys())
	desired := state.desiredObjects(nodes, func(n *remoteNode) string {
		return d.cfg.Devices[min(d.outDevices[n.name].index, len(n.peers)-1)].Name
	})
	keeper, err := routes.NewKeeper(routes.KeeperConfig{
		NetNS: d.cfg.NetNS, Protocol: d.cfg.Protocol, Tables: []uint32{d.cfg.Table, routes.DefaultTable},
		Logger: d.cfg.Logger,
	})
	if err != nil {
		return "", err
	}
	keeper.Set(desired.values()...)
	plan, err := keeper.Plan(ctx)
	if err = errors.Join(err, keeper.Close()); err != nil {
		return "", err
	}
	for i, dev := range d.devices.list {
		plan += dev.plan(outDevices{}.desiredPeers(i, nodes))
	}
	table, err := d.filter.plan(ctx, state.filterPrefixes())
	return plan + nftCommand(table), err
}
