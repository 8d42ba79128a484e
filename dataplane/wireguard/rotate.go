// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"slices"
	"time"
)

// noDevice is the index that means no device.
const noDevice = -1

// rotation is the replacement of the key of one device.
type rotation struct {
	// device is the index of the device; noDevice if no key is rotated.
	device int
	// replaced is set once the device has its new key.
	replaced bool
	// since is when the node began the present announcement: of the rotation or, if replaced is
	// set, of the new key. published is when this node's resource got the announced keys; zero
	// while it does not have them.
	since, published time.Time
	// resumed is set after resumeRotation has checked for a rotation of an earlier process.
	resumed bool
	// waiting is the name of the node that the rotation waits for, according to the last log
	// message. It is this node if its resource lacks the announced keys.
	waiting string
}

// rotates reports whether keys are rotated.
func (d *Dataplane) rotates() bool { return d.cfg.KeyLifetime > 0 && len(d.devices.list) > 1 }

// avoidedDevice returns the index of the device that this node avoids because it rotates the key;
// noDevice if there is none. It avoids the device as soon as its resource has the announcement.
// Before, the other nodes choose the device without knowing about the rotation, and this node must
// choose the same one.
func (r *rotation) avoidedDevice() int {
	if !r.replaced && r.published.IsZero() {
		return noDevice
	}
	return r.device
}

// rotate takes the next step of a rotation, if it is due. These are the steps:
//
//  1. The node announces that it rotates the key of a device.
//  2. RotationDelay after its resource has the announced keys, all nodes have received them. Once
//     no node uses the device, the node replaces the key.
//  3. RotationDelay after its resource has the new key, all nodes have received it. The rotation
//     ends.
//
// While nothing writes the keys to the resource, the rotation waits: with a key that the other
// nodes do not know, this node would be cut off.
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
	case !slices.Equal(d.keys(), d.state.resourceKeys()):
		r.published = time.Time{}
		if now.Sub(r.since) >= d.cfg.RotationDelay && d.devices.known() { // otherwise nothing is announced
			d.logRotationWait(d.cfg.Node,
				"the rotation of a WireGuard key waits until the Node resource has the announced keys")
		}
		return nil
	case r.published.IsZero():
		r.published = now
		return nil
	case now.Sub(r.published) < d.cfg.RotationDelay:
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
		d.logRotationWait(node, "the rotation of a WireGuard key waits for a node that still uses it")
		return nil
	}
	return d.replaceKey()
}

// logRotationWait logs once that the rotation waits for a node.
func (d *Dataplane) logRotationWait(node, message string) {
	if node != d.rotation.waiting {
		d.cfg.Logger.Warn(message, "device", d.devices.list[d.rotation.device].cfg.Name, "node", node)
	}
	d.rotation.waiting = node
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
		d.rotation.published = d.applyTimer.now() // the next attempt is due after RotationDelay
		return err
	}
	dev.key = key
	d.rotation = rotation{device: d.rotation.device, replaced: true, since: d.applyTimer.now(), resumed: true}
	return d.devices.setKey(dev)
}

// rotationDue returns when the next step of a rotation is due; zero if there is no rotation.
func (d *Dataplane) rotationDue() (at time.Time) {
	if !d.rotates() || d.last.key != nil { // without a key, nothing is rotated
		return at
	}
	if d.rotation.device != noDevice {
		at = d.rotation.published
		if at.IsZero() {
			at = d.rotation.since // the next step is to log that the rotation waits
		}
		at = at.Add(d.cfg.RotationDelay)
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
