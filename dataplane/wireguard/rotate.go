// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"time"
)

// noDevice is the index that means no device.
const noDevice = -1

// rotation is the replacement of the key of one device.
type rotation struct {
	// device is the index of the device; noDevice if no key is rotated.
	device int
	// since is when the node began to announce that it rotates the key. If replaced is set, it is
	// when the node began to announce the new key.
	since    time.Time
	replaced bool
	// resumed is set after resumeRotation has checked for a rotation of an earlier process.
	resumed bool
	// waiting is the node that the rotation waits for, according to the last log message.
	waiting string
}

// rotates reports whether keys are rotated.
func (d *Dataplane) rotates() bool { return d.cfg.KeyLifetime > 0 && len(d.devices.list) > 1 }

// rotate takes the next step of a rotation, if it is due. These are the steps:
//
//  1. The node announces that it rotates the key of a device.
//  2. After RotationDelay, all nodes have received that announcement. Once no node uses the device,
//     the node replaces the key.
//  3. After another RotationDelay, all nodes have received the new key. The rotation ends.
//
// After an error the device has the old key, but the key file may have the new one.
func (d *Dataplane) rotate(nodes map[string]*remoteNode) error {
	if !d.rotates() {
		d.rotation.device = noDevice
		return nil
	}
	r, now := &d.rotation, d.applyTimer.now()
	if !r.resumed {
		d.resumeRotation()
	}
	switch {
	case r.device == noDevice:
		for i, dev := range d.devices.list {
			if now.Sub(dev.key.made) >= d.cfg.KeyLifetime {
				*r = rotation{device: i, since: now, resumed: true}
				break
			}
		}
		return nil
	case now.Sub(r.since) < d.cfg.RotationDelay:
		return nil
	case r.replaced:
		d.cfg.Logger.Info("rotated a WireGuard key", "device", d.devices.list[r.device].cfg.Name)
		*r = rotation{device: noDevice, resumed: true}
		return nil
	}
	if !d.devices.known() {
		return nil // it is not known which nodes use the device
	}
	if node := d.nodeUsingRotatedKey(nodes); node != "" {
		if node != r.waiting {
			d.cfg.Logger.Warn("the rotation of a WireGuard key waits for a node that still uses it",
				"device", d.devices.list[r.device].cfg.Name, "node", node)
		}
		r.waiting = node
		return nil
	}
	return d.replaceKey()
}

// resumeRotation continues a rotation that an earlier process announced. If the key is younger than
// KeyLifetime, that process has already replaced it.
func (d *Dataplane) resumeRotation() {
	d.rotation.resumed = d.state.nodes[d.cfg.Node] != nil
	for i, k := range d.state.resourceKeys() {
		if k.Rotating && i < len(d.devices.list) {
			young := d.applyTimer.now().Sub(d.devices.list[i].key.made) < d.cfg.KeyLifetime
			d.rotation = rotation{device: i, since: d.applyTimer.now(), replaced: young, resumed: true}
			return
		}
	}
}

// nodeUsingRotatedKey returns the name of a node that still uses the key that is rotated; empty if
// there is none. A node uses the key in two cases. In the first case, this node sends to that node
// by the key's device, or is moving it there. This node also has a live session with that node.
// In the second case, that node had a handshake with the device within the last RotationDelay.
func (d *Dataplane) nodeUsingRotatedKey(nodes map[string]*remoteNode) string {
	r, now := &d.rotation, d.applyTimer.now()
	if name := d.outDevices.nodeUsing(r.device, nodes, d.devices.session, now); name != "" {
		return name
	}
	for name, n := range nodes {
		if r.device >= len(n.peers) {
			continue
		}
		if at := d.devices.session(r.device, n.peers[r.device].key); now.Sub(at.handshake) < d.cfg.RotationDelay {
			return name
		}
	}
	return ""
}

// replaceKey makes a new key for the device.
func (d *Dataplane) replaceKey() error {
	dev := d.devices.list[d.rotation.device]
	key, err := makeKey(dev.cfg.KeyFile)
	if err != nil {
		d.rotation.since = d.applyTimer.now() // the next attempt is due after RotationDelay
		return err
	}
	dev.key = key
	d.rotation.replaced, d.rotation.since = true, d.applyTimer.now()
	return d.devices.setKey(dev)
}

// rotationDue returns when the next step of a rotation is due; zero if there is no rotation.
func (d *Dataplane) rotationDue() (at time.Time) {
	if !d.rotates() || d.last.key != nil { // without a key, nothing is rotated
		return at
	}
	if d.rotation.device != noDevice {
		at = d.rotation.since.Add(d.cfg.RotationDelay)
		if soon := d.applyTimer.now().Add(d.cfg.RotationDelay / 10); at.Before(soon) {
			at = soon // the rotation waits for a node
		}
		return at
	}
	for _, dev := range d.devices.list {
		if !dev.hasKey() {
			continue
		}
		if due := dev.key.made.Add(d.cfg.KeyLifetime); at.IsZero() || due.Before(at) {
			at = due
		}
	}
	return at
}
