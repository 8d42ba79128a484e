// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"errors"
	"slices"

	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/wayleave/wayleave/internal/nsthread"
)

// devices are the WireGuard devices of this node, with the connection to the kernel.
type devices struct {
	namespace int    // Config.NetNS
	kernel    kernel // nil if the connection is not open
	list      []*device
	// foreign reports whether a device of another process has the name.
	foreign func(name string) (bool, error)
}

// loadKeys calls load for each device whose private key is not loaded yet. load is loadKey or
// readKey.
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

// publicKeys returns the public key of each device; zero for a device whose private key is not
// loaded.
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

// open connects to the kernel, unless the connection is open.
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

// in runs fn in the network namespace.
func (ds *devices) in(fn func() error) error {
	if ds.namespace == 0 {
		return fn()
	}
	return nsthread.In(ds.namespace, fn)
}

// close closes the connection to the kernel.
func (ds *devices) close() error {
	if ds.kernel == nil {
		return nil
	}
	k := ds.kernel
	ds.kernel = nil
	return k.Close()
}

// forget marks the state of all devices as unknown.
func (ds *devices) forget() {
	for _, dev := range ds.list {
		dev.peers = nil
	}
}

// known reports whether all devices exist and their states are known.
func (ds *devices) known() bool {
	return !slices.ContainsFunc(ds.list, func(dev *device) bool { return dev.peers == nil })
}

// read reads the state of all devices. It sets the private key and the port of a device where they
// differ from the loaded key and the configured port. The state of a device at fault is then
// unknown.
func (ds *devices) read() error {
	ds.forget()
	if err := ds.open(); err != nil {
		return err
	}
	var errs []error
	failed := 0 // devices that cannot be read
	for _, dev := range ds.list {
		exists, needsKey, err := ds.readDevice(dev)
		if err != nil {
			failed++
		} else if exists && needsKey {
			err = ds.setKey(dev)
		}
		errs = append(errs, err)
	}
	if failed == len(ds.list) { // perhaps because of the connection
		errs = append(errs, ds.close())
	}
	return errors.Join(errs...)
}

// readDevice reads the state of a device. A device of another process with its name is not read,
// so nothing configures it; the keeper reports it.
func (ds *devices) readDevice(dev *device) (exists, needsKey bool, err error) {
	dev.peers = nil
	if foreign, err := ds.foreign(dev.cfg.Name); err != nil || foreign {
		return false, false, err
	}
	return dev.read(ds.kernel)
}

// observe reads the devices whose state is unknown. Unlike read, it changes nothing.
func (ds *devices) observe() error {
	if err := ds.open(); err != nil {
		return err
	}
	for _, dev := range ds.list {
		if dev.peers != nil {
			continue
		}
		if _, _, err := ds.readDevice(dev); err != nil {
			return err
		}
	}
	return nil
}

// setKey sets the private key and the port of a device. If the state of the device is unknown, read
// does that later.
func (ds *devices) setKey(dev *device) error {
	if dev.peers == nil {
		return nil
	}
	err := dev.setKey(ds.kernel)
	if err != nil {
		dev.peers = nil
	}
	return err
}

// session returns the session that device i has with the peer that has the key; zero if there is no
// such peer.
func (ds *devices) session(i int, key wgtypes.Key) session {
	if observed := ds.list[i].peers[key]; observed != nil {
		return observed.session
	}
	return session{}
}

// addPeers adds missing peers, and missing parts of peers, on the devices whose state is known. If
// the kernel refuses a peer, addPeers sets the err of its node and returns anyRefused. err is set
// if a device is at fault.
func (ds *devices) addPeers(nodes map[string]*remoteNode, outs outDevices) (anyRefused bool, err error) {
	var errs []error
	for i, dev := range ds.list {
		if dev.peers == nil || ds.kernel == nil {
			continue
		}
		refused, err := dev.addPeers(ds.kernel, outs.desiredPeers(i, nodes))
		if err != nil {
			dev.peers = nil
			errs = append(errs, err)
		}
		anyRefused = anyRefused || len(refused) > 0
		for _, n := range nodes {
			if i < len(n.peers) && refused[n.peers[i].key] != nil {
				n.err = refused[n.peers[i].key]
			}
		}
	}
	return anyRefused, errors.Join(errs...)
}

// addPeersToNewDevices reads all devices and calls addPeers, if the state of a device is unknown:
// the keeper may have created it since the last read.
func (ds *devices) addPeersToNewDevices(nodes map[string]*remoteNode, outs outDevices) (anyRefused bool, err error) {
	if ds.known() {
		return false, nil
	}
	// Open a new connection: the kernel module may have been loaded since this one was opened.
	readErr := errors.Join(ds.close(), ds.read())
	anyRefused, err = ds.addPeers(nodes, outs) // on the devices without a fault
	return anyRefused, errors.Join(readErr, err)
}

// removePeers removes unwanted peers and allowed IPs from the devices whose state is known.
func (ds *devices) removePeers(nodes map[string]*remoteNode, outs outDevices) error {
	var errs []error
	for i, dev := range ds.list {
		if dev.peers == nil || ds.kernel == nil {
			continue
		}
		if err := dev.removePeers(ds.kernel, outs.desiredPeers(i, nodes)); err != nil {
			dev.peers = nil
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// desiredPeers returns the peers that device i is to have, by public key. A node at fault is left
// out.
func (outs outDevices) desiredPeers(i int, nodes map[string]*remoteNode) map[wgtypes.Key]*desiredPeer {
	all := map[wgtypes.Key]*desiredPeer{}
	for name, n := range nodes {
		if n.err == nil && i < len(n.peers) {
			out := outs[name]
			all[n.peers[i].key] = &desiredPeer{
				endpoint: n.peers[i].endpoint, allowedIPs: n.allowedIPs(), keepalive: out.target == i && out.index != i,
			}
		}
	}
	return all
}
