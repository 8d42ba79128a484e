// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// none stands for no device.
const none = -1

// renewal is the replacement of the key of one device.
type renewal struct {
	// slot is the index of the device; none if no key is renewed.
	slot int
	// since is when the announcement began: that the key is renewed or, if replaced is set, the new key.
	since    time.Time
	replaced bool
	// resumed is set once a renewal of an earlier process has been looked for, and waiting is the node
	// that it waits for, as last logged.
	resumed bool
	waiting string
}

// renews reports whether keys are renewed at all.
func (d *Dataplane) renews() bool { return d.cfg.KeyLifetime > 0 && len(d.devices.list) > 1 }

// renew takes the next step of a renewal, if it is due. First the node announces that it renews the key of
// a device. Once all others have read that and nobody uses the device, it replaces the key. Once all have
// read the new key, the device is as good as the other one. An error means that the key stays for now.
func (d *Dataplane) renew(peers map[string]*peer) error {
	if !d.renews() {
		d.renewal.slot = none
		return nil
	}
	r, now := &d.renewal, d.reminder.now()
	if !r.resumed {
		d.resumeRenewal()
	}
	switch {
	case r.slot == none:
		for i, dev := range d.devices.list {
			if now.Sub(dev.key.made) >= d.cfg.KeyLifetime {
				*r = renewal{slot: i, since: now, resumed: true}
				break
			}
		}
		return nil
	case now.Sub(r.since) < d.cfg.RenewalDelay:
		return nil
	case r.replaced:
		d.cfg.Logger.Info("renewed a WireGuard key", "device", d.devices.list[r.slot].cfg.Name)
		*r = renewal{slot: none, resumed: true}
		return nil
	}
	if !d.devices.known() {
		return nil // nor is it known who uses the device
	}
	if node := d.deviceUser(peers); node != "" {
		if node != r.waiting {
			d.cfg.Logger.Warn("the renewal of a WireGuard key waits for a node that still uses it",
				"device", d.devices.list[r.slot].cfg.Name, "node", node)
		}
		r.waiting = node
		return nil
	}
	return d.replaceKey()
}

// resumeRenewal continues a renewal that an earlier process announced. If the key is younger than KeyLifetime,
// that process has already replaced it.
func (d *Dataplane) resumeRenewal() {
	d.renewal.resumed = true
	n := d.state.nodes[d.cfg.Node]
	if n == nil {
		return
	}
	for i, k := range n.WireguardKeys {
		if k.Renewing && i < len(d.devices.list) {
			young := d.reminder.now().Sub(d.devices.list[i].key.made) < d.cfg.KeyLifetime
			d.renewal = renewal{slot: i, since: d.reminder.now(), replaced: young, resumed: true}
			return
		}
	}
}

// deviceUser returns a node that still uses the device whose key is renewed. This node sends to it by that
// device, or the device had a handshake with it within the last RenewalDelay.
func (d *Dataplane) deviceUser(peers map[string]*peer) string {
	r, now := &d.renewal, d.reminder.now()
	if node := d.paths.uses(r.slot, peers, d.devices.look, now); node != "" {
		return node
	}
	for node, p := range peers {
		if r.slot >= len(p.slots) {
			continue
		}
		if at := d.devices.look(r.slot, p.slots[r.slot].key); now.Sub(at.handshake) < d.cfg.RenewalDelay {
			return node
		}
	}
	return ""
}

// replaceKey makes a new key for the device.
func (d *Dataplane) replaceKey() error {
	dev := d.devices.list[d.renewal.slot]
	key, err := makeKey(dev.cfg.KeyFile)
	if err != nil {
		d.renewal.since = d.reminder.now() // again after the delay
		return err
	}
	dev.key = key
	d.renewal.replaced, d.renewal.since = true, d.reminder.now()
	return d.devices.setKey(dev)
}

// renewalDue returns when the next step of a renewal is due; zero if none is.
func (d *Dataplane) renewalDue() (at time.Time) {
	if !d.renews() {
		return at
	}
	if d.renewal.slot != none {
		at = d.renewal.since.Add(d.cfg.RenewalDelay)
		if soon := d.reminder.now().Add(d.cfg.RenewalDelay / 10); at.Before(soon) {
			at = soon // it waits for a node
		}
		return at
	}
	for _, dev := range d.devices.list {
		if dev.key.key == (wgtypes.Key{}) {
			continue
		}
		if due := dev.key.made.Add(d.cfg.KeyLifetime); at.IsZero() || due.Before(at) {
			at = due
		}
	}
	return at
}
