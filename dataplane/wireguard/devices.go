// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"errors"
	"slices"

	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/wayleave/wayleave/internal/nsthread"
)

// devices are those of this node, with the connection to the kernel.
type devices struct {
	namespace int
	kernel    kernel // nil if it is not open
	list      []*device
}

// loadKeys reads the key files by load, once.
func (ds *devices) loadKeys(load func(path string) (privateKey, error)) error {
	var errs []error
	for _, dev := range ds.list {
		if dev.hasKey() {
			continue
		}
		key, err := load(dev.cfg.KeyFile)
		if err == nil {
			dev.key = key
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// publicKeys returns those of the devices, each zero if it is not known.
func (ds *devices) publicKeys() (keys []wgtypes.Key) {
	for _, dev := range ds.list {
		key := wgtypes.Key{}
		if dev.hasKey() {
			key = dev.key.key.PublicKey()
		}
		keys = append(keys, key)
	}
	return keys
}

// open connects to the kernel.
func (ds *devices) open() error {
	if ds.kernel != nil {
		return nil
	}
	return ds.in(func() error {
		client, err := wgctrl.New()
		if err == nil {
			ds.kernel = client
		}
		return err
	})
}

// in runs a function in the network namespace.
func (ds *devices) in(fn func() error) error {
	if ds.namespace == 0 {
		return fn()
	}
	return nsthread.In(ds.namespace, fn)
}

func (ds *devices) close() error {
	if ds.kernel == nil {
		return nil
	}
	k := ds.kernel
	ds.kernel = nil
	return k.Close()
}

// forget makes the state of all devices unknown.
func (ds *devices) forget() {
	for _, dev := range ds.list {
		dev.peers = nil
	}
}

// known reports whether all devices exist and their state is known.
func (ds *devices) known() bool {
	return !slices.ContainsFunc(ds.list, func(dev *device) bool { return dev.peers == nil })
}

// read reads the devices, and sets the key and the port of one that has others.
func (ds *devices) read() error {
	ds.forget()
	if err := ds.open(); err != nil {
		return err
	}
	var errs []error
	for _, dev := range ds.list {
		exists, needsKey, err := dev.read(ds.kernel)
		if err == nil && exists && needsKey {
			err = ds.setKey(dev)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return errors.Join(err, ds.close())
	}
	return nil
}

// observe reads the devices whose state is not known, and changes nothing.
func (ds *devices) observe() error {
	if err := ds.open(); err != nil {
		return err
	}
	for _, dev := range ds.list {
		if dev.peers != nil {
			continue
		}
		if _, _, err := dev.read(ds.kernel); err != nil {
			return err
		}
	}
	return nil
}

// setKey sets the key and the port of a device.
func (ds *devices) setKey(dev *device) error {
	if dev.peers == nil {
		return nil // it is set when there is a device
	}
	err := dev.setKey(ds.kernel)
	if err != nil {
		dev.peers = nil
	}
	return err
}

// session returns the session of a device with a peer's key.
func (ds *devices) session(i int, key wgtypes.Key) session {
	if held := ds.list[i].peers[key]; held != nil {
		return held.session
	}
	return session{}
}

// addPeers adds what the devices that exist lack. It sets the error of peers that the kernel refuses, and
// reports whether there are any.
func (ds *devices) addPeers(peers map[string]*peer, at paths) (anyRefused bool, err error) {
	var errs []error
	for i, dev := range ds.list {
		if dev.peers == nil || ds.kernel == nil {
			continue
		}
		refused, err := dev.addPeers(ds.kernel, at.wanted(i, peers))
		if err != nil {
			dev.peers = nil
			errs = append(errs, err)
		}
		anyRefused = anyRefused || len(refused) > 0
		for _, p := range peers {
			if i < len(p.devices) && refused[p.devices[i].key] != nil {
				p.err = refused[p.devices[i].key]
			}
		}
	}
	return anyRefused, errors.Join(errs...)
}

// addLater adds the peers of devices that were made just now, as addPeers does.
func (ds *devices) addLater(peers map[string]*peer, at paths) (anyRefused bool, err error) {
	if ds.known() {
		return false, nil
	}
	// The kernel's module may have been loaded since the connection was opened.
	if err := errors.Join(ds.close(), ds.read()); err != nil {
		return false, err
	}
	return ds.addPeers(peers, at)
}

// removePeers removes unwanted peers of the devices whose state is known.
func (ds *devices) removePeers(peers map[string]*peer, at paths) error {
	var errs []error
	for i, dev := range ds.list {
		if dev.peers == nil || ds.kernel == nil {
			continue
		}
		if err := dev.removePeers(ds.kernel, at.wanted(i, peers)); err != nil {
			dev.peers = nil
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// wanted returns the peers of a device.
func (ps paths) wanted(i int, peers map[string]*peer) map[wgtypes.Key]*desiredPeer {
	all := map[wgtypes.Key]*desiredPeer{}
	for node, p := range peers {
		if p.err == nil && i < len(p.devices) {
			at := ps[node]
			all[p.devices[i].key] = &desiredPeer{
				endpoint: p.devices[i].endpoint, allowed: p.allowed(), keepalive: at.to == i && at.via != i,
			}
		}
	}
	return all
}
