// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/policy"
)

var (
	_ dataplane.Dataplane = (*Dataplane)(nil)
	_ dataplane.Planner   = (*Dataplane)(nil)
	_ dataplane.Watcher   = (*Dataplane)(nil)
)

// Dataplane programs the WireGuard devices of a node, and the routes through them. It is not safe for
// concurrent use, except Watch.
type Dataplane struct {
	cfg     Config
	keeper  *routes.Keeper
	state   *state
	devices devices
	paths   paths
	rotation rotation
	// installed are the objects that the keeper has.
	installed objects
	// encrypting is set once this node has been seen to announce keys, also those of an earlier process.
	encrypting bool
	// applied is set by the first call of the keeper.
	applied bool
	// last is the outcome of the last attempt.
	last outcome
	// announced are the keys that Config.Announce has received.
	announced []policy.WireguardKey
	reminder  reminder
}

// outcome is the result of an attempt.
type outcome struct {
	err error
	// retry is set if another attempt may succeed. The faults of announcements stay until they change.
	retry bool
}

// New returns a Dataplane that has neither opened a key file nor connected to the kernel yet. Its error is a
// join of all problems of the Config.
func New(cfg Config) (*Dataplane, error) {
	cfg = cfg.withDefaults()
	d := &Dataplane{
		cfg: cfg, paths: paths{}, installed: objects{}, rotation: rotation{device: noDevice},
		devices: devices{namespace: cfg.NetNS}, reminder: reminder{now: time.Now, wake: make(chan struct{}, 1)},
	}
	names := make([]string, 0, len(cfg.Devices))
	for _, c := range cfg.Devices {
		d.devices.list = append(d.devices.list, &device{cfg: c})
		names = append(names, c.Name)
	}
	var err error
	d.keeper, err = routes.NewKeeper(routes.KeeperConfig{
		NetNS: cfg.NetNS, Protocol: cfg.Protocol, Tables: []uint32{cfg.Table}, Devices: names,
		SysctlFile: cfg.SysctlFile, Logger: cfg.Logger,
	})
	if err = errors.Join(cfg.validate(), err); err != nil {
		return nil, err
	}
	d.state = newState(&d.cfg)
	return d, nil
}

// Close closes the connections to the kernel and leaves the kernel's state as it is.
func (d *Dataplane) Close() error {
	return errors.Join(d.devices.close(), d.keeper.Close())
}

// Apply implements dataplane.Dataplane. The first complete state adopts devices, peers and routes that are
// already right, and removes unwanted ones of ours. A batch that changes nothing here costs nothing.
func (d *Dataplane) Apply(ctx context.Context, b dataplane.Batch) error {
	d.state.update(b)
	if !d.state.inSync {
		return nil
	}
	if fired := d.reminder.fired.Swap(false); !fired && !d.state.changed && !d.last.retry && len(b.Events) > 0 {
		return cmp.Or(ctx.Err(), d.last.err)
	}
	return d.program(ctx, false)
}

// Resync implements dataplane.Dataplane: it reads everything of ours again, and repairs.
func (d *Dataplane) Resync(ctx context.Context) error {
	if !d.state.inSync {
		return nil
	}
	return d.program(ctx, true)
}

// program brings the kernel to the desired state. A peer is added before the routes to it, and removed
// after them.
func (d *Dataplane) program(ctx context.Context, again bool) error {
	d.last.retry = true
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.devices.loadKeys(loadKey); err != nil {
		return &dataplane.ApplyError{Backend: backend, Op: "read key", Err: err}
	}
	deviceErr := errors.Join(d.devices.read(), d.findUplinks(d.state))
	peers := d.peers()
	deviceErr = errors.Join(deviceErr, d.rotate(peers))
	announced := d.state.announced(d.devices.publicKeys())
	d.encrypting = d.encrypting || d.state.hasKeys()
	moving := d.paths.update(peers, func(p *peer) int {
		return p.target(d.cfg.Node, announced, d.rotation.device)
	}, d.devices.session, d.reminder.now())
	refused, err := d.devices.addPeers(peers, d.paths)
	deviceErr = errors.Join(deviceErr, err)
	keeperErr := d.applyObjects(ctx, peers, again)
	refusedLater, err := d.devices.finish(peers, d.paths)
	deviceErr = errors.Join(deviceErr, err)
	d.state.changed = false
	if d.devices.known() {
		d.announce()
	}
	d.reminder.schedule(d.nextStep(moving, len(peers)))
	d.last = outcome{
		err:   d.faults(peers, deviceErr, keeperErr),
		retry: refused || refusedLater || deviceErr != nil || keeperErr != nil,
	}
	return d.last.err
}

// findUplinks sets the interfaces with the node's addresses, if they are needed.
func (d *Dataplane) findUplinks(s *state) error {
	if !d.cfg.HostEncryption {
		return nil
	}
	return d.devices.in(func() error {
		links, err := net.Interfaces()
		s.uplinks = nil
		for _, l := range links {
			addresses, addrErr := l.Addrs()
			err = errors.Join(err, addrErr)
			for _, a := range addresses {
				p, parseErr := netip.ParsePrefix(a.String())
				if parseErr == nil && s.holds(p.Addr().Unmap()) {
					s.uplinks = append(s.uplinks, l.Name)
					break
				}
			}
		}
		return err
	})
}

// Keys returns the public keys that this node's Node resource must have. It returns nil until all devices are
// configured, and after Teardown.
func (d *Dataplane) Keys() []policy.WireguardKey {
	return slices.Clone(d.announced)
}

// announce reports the keys to Config.Announce if they have changed.
func (d *Dataplane) announce() {
	var keys []policy.WireguardKey
	for i, dev := range d.devices.list {
		keys = append(keys, policy.WireguardKey{
			PublicKey: dev.key.key.PublicKey().String(), Port: dev.cfg.Port, Rotating: i == d.rotation.device,
		})
	}
	if !slices.Equal(keys, d.announced) {
		d.announced = keys
		d.cfg.Announce(slices.Clone(keys))
	}
}

// peers returns the peers, of the keys that this node has.
func (d *Dataplane) peers() map[string]*peer { return d.state.peers(d.devices.publicKeys()) }

// applyObjects brings the keeper's objects to the desired state.
func (d *Dataplane) applyObjects(ctx context.Context, peers map[string]*peer, again bool) error {
	to := d.state.objects(peers, d.encrypting, func(p *peer) string { return d.cfg.Devices[d.paths[p.node].via].Name })
	set, gone := d.installed.changes(to)
	d.keeper.Delete(gone...)
	d.keeper.Set(set...)
	d.installed = to
	if again && d.applied {
		return d.keeper.Resync(ctx)
	}
	d.applied = true
	return d.keeper.Apply(ctx)
}

// faults returns the errors to report. A device error is a fault of this node: its packets are dropped. A
// missing rule or blackhole route has no object, because packets of any node may be sent unencrypted.
func (d *Dataplane) faults(peers map[string]*peer, deviceErr, keeperErr error) error {
	var errs []error
	add := func(key policy.Key, op string, err error) {
		errs = append(errs, &dataplane.ApplyError{Backend: backend, Op: op, Object: key, Err: err})
	}
	here := policy.Key{Kind: policy.KindNode, Name: d.cfg.Node}
	if deviceErr != nil {
		add(here, "change device", deviceErr)
	}
	switch err, open := keeperFault(keeperErr); {
	case open:
		add(policy.Key{}, "program routes", err)
	case err != nil:
		add(here, "program routes", err)
	}
	for _, node := range slices.Sorted(maps.Keys(peers)) {
		if err := peers[node].err; err != nil {
			add(policy.Key{Kind: policy.KindNode, Name: node}, "use peer", err)
		}
	}
	hosts := d.state.hostFaults()
	for _, key := range slices.SortedFunc(maps.Keys(hosts), policy.Key.Compare) {
		add(key, "apply policy", hosts[key])
	}
	return errors.Join(errs...)
}

// keeperFault returns the error of a keeper, with the first of many objects. open means that packets may pass
// in the clear.
func keeperFault(err error) (fault error, open bool) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err, err != nil
	}
	all := joined.Unwrap()
	for _, e := range all {
		fault, ok := e.(*routes.ObjectError)
		if !ok {
			return err, true
		}
		switch o := fault.Object.(type) {
		case routes.Rule:
			return fault, true
		case routes.Route:
			if o.Type == routes.Blackhole {
				return fault, true
			}
		}
	}
	if more := len(all) - 1; more > 0 {
		return fmt.Errorf("%w (and %d more)", all[0], more), false
	}
	return all[0], false
}

// Teardown implements dataplane.Dataplane. Withdraw the announcement before, and give the other nodes time
// to read that: what they encrypt afterwards is lost. Key files stay.
func (d *Dataplane) Teardown(ctx context.Context) error {
	d.state, d.paths, d.installed = newState(&d.cfg), paths{}, objects{}
	d.encrypting, d.announced, d.last, d.applied = false, nil, outcome{}, false
	d.rotation = rotation{device: noDevice}
	d.reminder.schedule(time.Time{})
	d.devices.forget()
	if err := d.keeper.Teardown(ctx); err != nil {
		return &dataplane.ApplyError{Backend: backend, Op: "remove", Err: err}
	}
	return nil
}

// PlanTeardown returns the changes that Teardown would make, as routes.Keeper.PlanTeardown.
func (d *Dataplane) PlanTeardown(ctx context.Context) (string, error) {
	return d.keeper.PlanTeardown(ctx)
}

// Plan implements dataplane.Planner. The lines are commands of ip and sysctl, and of wg without private
// keys. Plan makes no key file: a device without one gets its key with Apply, and announces it then.
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
	if err := errors.Join(d.devices.observe(), d.findUplinks(state)); err != nil {
		return "", err
	}
	own := d.devices.publicKeys()
	peers := state.peers(own)
	encrypting := d.encrypting || state.hasKeys()
	to := state.objects(peers, encrypting, func(p *peer) string {
		return d.cfg.Devices[min(d.paths[p.node].via, len(p.devices)-1)].Name
	})
	keeper, err := routes.NewKeeper(routes.KeeperConfig{
		NetNS: d.cfg.NetNS, Protocol: d.cfg.Protocol, Tables: []uint32{d.cfg.Table}, Logger: d.cfg.Logger,
	})
	if err != nil {
		return "", err
	}
	keeper.Set(to.values()...)
	plan, err := keeper.Plan(ctx)
	if err = errors.Join(err, keeper.Close()); err != nil {
		return "", err
	}
	for i, dev := range d.devices.list {
		plan += dev.plan(paths{}.wanted(i, peers))
	}
	return plan, nil
}
