// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// result is the result of a call of program, and of Finish.
type result struct {
	err  error
	time time.Time
	// key, device, keeper and filter are the errors of key files, devices, routes.Keeper and the
	// filter table. The field removal is the error of Finish, which stays set until a removal
	// succeeds.
	key, device, keeper, filter, removal error
	// retry is set if another call of program may succeed. An invalid announcement of another node
	// needs no retry.
	retry bool
	// unfinished is a closed channel if Finish has work, otherwise nil. The field skipped is set if
	// the last call of Finish left its work, because of a fault.
	unfinished chan struct{}
	skipped    bool
}

// program brings the kernel to the desired state, except for removals. Finish removes unwanted
// peers, and the routes and rules that lead to them. The blackhole routes of this node's blocks are
// added before the peers, and a peer before the routes to it.
//
// If a key cannot be loaded, program still adds the routes and rules. This is safe: a device
// without a key drops packets, and a device with the key of an earlier process encrypts them.
func (d *Dataplane) program(ctx context.Context, resync bool) error {
	d.last.retry = true
	if err := ctx.Err(); err != nil {
		return err
	}
	r := result{time: d.applyTimer.now(), removal: d.last.removal, skipped: d.last.skipped}
	interfacesErr := d.interfaces.update(d.state)
	// Without these routes, no key and no peer is set: packets that the devices decrypt could leave
	// unencrypted.
	own := d.state.ownBlackholes()
	installed := d.reconciler.applyFirst(ctx, own) == nil
	movingSince := d.programAll(ctx, resync, installed, &r)
	if !installed && !own.fail(r.keeper) {
		installed = true // programAll has installed the routes
		movingSince = d.programAll(ctx, resync, installed, &r)
	}
	r.device = errors.Join(r.device, interfacesErr)
	r.unfinished = make(chan struct{})
	close(r.unfinished)
	d.recordResult(r)
	if installed {
		d.announce()
	}
	d.state.changed = false
	d.applyTimer.schedule(d.nextStep(movingSince))
	return d.last.err
}

// programAll programs everything, and stores the errors in r. If this node's blackhole routes are
// not installed, it sets no key and no peer. movingSince is the result of outDevices.update.
func (d *Dataplane) programAll(ctx context.Context, resync, installed bool, r *result) (movingSince time.Time) {
	r.key = d.devices.loadKeys(loadKey)
	if installed {
		r.device = d.devices.read()
	} else {
		d.devices.forget()
		r.device = d.devices.observe()
	}
	d.remoteNodes = d.state.remoteNodes(d.devices.publicKeys())
	if r.key == nil && installed {
		r.device = errors.Join(r.device, d.rotate(d.remoteNodes))
	}
	published := d.state.published(d.devices.publicKeys())
	movingSince = d.outDevices.update(d.remoteNodes, func(n *remoteNode) int {
		return n.targetDevice(d.cfg.Node, published, d.rotation.avoidedDevice())
	}, d.devices.session, r.time)
	if installed {
		r.addPeers(d.devices.addPeers(d.remoteNodes, d.outDevices))
	}
	desired := d.desiredObjects()
	prefixes := d.state.filterPrefixes()
	if r.filter = d.filter.prepare(ctx, prefixes); r.filter != nil && d.filter.mayDropOwn(ctx) {
		d.reconciler.omitNewExceptions(desired) // the table would drop the packets
	}
	r.keeper = d.reconciler.apply(ctx, desired, resync)
	if r.filter == nil {
		r.filter = d.filter.add(ctx, prefixes, !d.reconciler.finished)
	}
	if resync && r.filter == nil {
		r.filter = d.filter.verify(ctx)
	}
	if installed {
		r.addPeers(d.devices.addPeersToNewDevices(d.remoteNodes, d.outDevices))
	}
	return movingSince
}

// addPeers adds the results of devices.addPeers to r.
func (r *result) addPeers(anyRefused bool, err error) {
	r.retry = r.retry || anyRefused
	r.device = errors.Join(r.device, err)
}

// Finish implements dataplane.Finisher. It removes unwanted objects in this order:
//
//  1. prefixes of other nodes from the nftables table, which would otherwise drop packets that take
//     a new, unencrypted route;
//  2. routes and rules;
//  3. peers;
//  4. prefixes that no longer belong to this node, and old exempt prefixes, from the nftables
//     table.
//
// The first Finish also adds the prefixes of other nodes to the table. Until then, packets to these
// prefixes may take rules and routes of an earlier process.
//
// Finish removes nothing while a rule, a blackhole route or the nftables table cannot be installed.
// In this case, the Driver withholds new and changed routes from the dataplanes after this one.
// These may still have an old, unencrypted route to a prefix. If Finish removed the encrypted route
// to this prefix, packets would leave unencrypted.
//
// Finish returns the error of ctx, and no other error. If a removal fails, Watch makes the Driver
// call Apply, which tries again and returns the error.
func (d *Dataplane) Finish(ctx context.Context) error {
	if err := ctx.Err(); err != nil || d.last.unfinished == nil {
		return err
	}
	r := d.last
	r.unfinished, r.removal = nil, nil
	_, general := keeperFault(r.keeper)
	if r.skipped = general || r.filter != nil; !r.skipped {
		r.removal = d.removeUnwanted(ctx, r.keeper == nil)
	}
	if d.recordResult(r); r.removal != nil {
		d.applyTimer.schedule(r.time.Add(retryInterval))
	}
	return nil
}

// removeUnwanted does the work of Finish. It returns the errors of the keeper only if reportKeeper
// is set; otherwise Apply has reported them. If it cannot remove prefixes of other nodes from the
// table, it removes nothing else: without the routes, the table would drop packets to them.
func (d *Dataplane) removeUnwanted(ctx context.Context, reportKeeper bool) error {
	p := d.state.filterPrefixes()
	if err := d.filter.shrinkRemote(ctx, p); err != nil {
		return err
	}
	err := d.reconciler.finish(ctx)
	if !reportKeeper {
		err = nil
	}
	return errors.Join(err, d.devices.removePeers(d.remoteNodes, d.outDevices), d.filter.apply(ctx, p))
}

// finishNow calls Finish if it has work, and returns all faults. err is the result of ApplyVisible.
func (d *Dataplane) finishNow(ctx context.Context, err error) error {
	if d.last.unfinished == nil {
		return err
	}
	if err := d.Finish(ctx); err != nil {
		return err
	}
	return d.last.err
}

// nodeObject returns the object of errors that are faults of this node.
func (d *Dataplane) nodeObject() policy.Key {
	return policy.Key{Kind: policy.KindNode, Name: d.cfg.Node}
}

// recordResult sets d.last to r, with the errors to report and whether to retry.
func (d *Dataplane) recordResult(r result) {
	r.retry = r.retry || r.key != nil || r.device != nil || r.keeper != nil ||
		r.filter != nil || r.removal != nil
	d.last = r
	d.last.err = d.faults()
}

// announce passes the keys to Config.Announce if they have changed, or if another program has
// removed or replaced the keys in the node's resource. It passes none until all devices are
// configured.
func (d *Dataplane) announce() {
	if !d.devices.known() || d.last.key != nil {
		return
	}
	keys := d.keys()
	resourceDiffers := d.state.resourceKeysChanged && !slices.Equal(keys, d.state.resourceKeys())
	d.state.resourceKeysChanged = false
	if resourceDiffers || !slices.Equal(keys, d.announced) {
		d.announced = keys
		d.cfg.Announce(slices.Clone(keys))
	}
}

// keys returns the keys that this node's resource must have.
func (d *Dataplane) keys() (keys []policy.WireguardKey) {
	for i, dev := range d.devices.list {
		keys = append(keys, policy.WireguardKey{
			PublicKey: dev.key.key.PublicKey().String(), Port: dev.cfg.Port, Rotating: i == d.rotation.device,
		})
	}
	return keys
}

// desiredObjects returns the desired objects of the reconciler.
func (d *Dataplane) desiredObjects() objects {
	return d.state.desiredObjects(d.remoteNodes, func(n *remoteNode) string {
		return d.cfg.Devices[d.outDevices[n.name].index].Name
	})
}

// faults returns the errors to report. If a key or a device has an error, this node is at fault:
// its packets are dropped. The error about a missing rule or blackhole route has no object, because
// packets from or to any node may be sent unencrypted.
func (d *Dataplane) faults() error {
	var errs []error
	add := func(key policy.Key, op string, err error) {
		errs = append(errs, &dataplane.ApplyError{Backend: backend, Op: op, Object: key, Err: err})
	}
	if d.last.key != nil {
		add(d.nodeObject(), "read key", d.last.key)
	}
	if d.last.device != nil {
		add(d.nodeObject(), "change device", d.last.device)
	}
	if d.last.removal != nil {
		add(d.nodeObject(), "remove unwanted objects", d.last.removal)
	}
	if d.last.filter != nil {
		add(policy.Key{}, "program table "+d.cfg.FilterTable, d.last.filter)
	}
	switch err, general := keeperFault(d.last.keeper); {
	case general:
		add(policy.Key{}, "program routes", err)
	case err != nil:
		add(d.nodeObject(), "program routes", err)
	}
	for _, name := range slices.Sorted(maps.Keys(d.remoteNodes)) {
		if err := d.remoteNodes[name].err; err != nil {
			add(policy.Key{Kind: policy.KindNode, Name: name}, "encrypt to", err)
		}
	}
	endpoints := d.state.hostEndpointFaults()
	for _, key := range slices.SortedFunc(maps.Keys(endpoints), policy.Key.Compare) {
		add(key, "apply policy", endpoints[key])
	}
	return errors.Join(errs...)
}

// keeperFault returns the fault to report for the error of a keeper. The result general means that
// packets may pass unencrypted. This is so if a rule or a blackhole route is at fault, or if the
// error does not name an object. Otherwise the fault is the error of the first object, with the
// number of the other objects at fault.
func keeperFault(err error) (fault error, general bool) {
	all := objectErrors(err)
	if len(all) == 0 {
		return err, err != nil
	}
	for _, fault := range all {
		if isGuard(fault.Object) {
			return fault, true
		}
	}
	if more := len(all) - 1; more > 0 {
		return fmt.Errorf("%w (and %d more)", all[0], more), false
	}
	return all[0], false
}
