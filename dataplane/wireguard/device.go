// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/wayleave/wayleave/dataplane"
)

// kernel reads and configures WireGuard devices. *wgctrl.Client implements it.
type kernel interface {
	Device(name string) (*wgtypes.Device, error)
	ConfigureDevice(name string, cfg wgtypes.Config) error
	Close() error
}

// desiredPeer is the desired state of a peer of a device.
type desiredPeer struct {
	endpoint   netip.AddrPort
	allowedIPs []netip.Prefix
	// keepalive makes the device send a packet to the peer each second, and so begin a session.
	keepalive bool
}

// observedPeer is the state of a peer of a device, as last read from the kernel or written to it.
type observedPeer struct {
	endpoint  netip.AddrPort
	keepalive time.Duration
	session   session
}

// device is a WireGuard device of this node, with its private key and its observed state.
type device struct {
	cfg Device
	key privateKey
	// peers has the observed peers, by public key. nil means that the device does not exist, or
	// that its state must be read.
	peers map[wgtypes.Key]*observedPeer
	// owners has the peer of each allowed IP. In the kernel, an allowed IP belongs to at most one
	// peer of a device.
	owners map[netip.Prefix]wgtypes.Key
}

// probeInterval is the persistent keepalive interval of a peer with which the device is to begin a
// session.
const probeInterval = time.Second

// hasKey reports whether the private key is loaded.
func (d *device) hasKey() bool { return d.key.key != wgtypes.Key{} }

// read reads the state of the device from the kernel. exists reports whether the kernel has the
// device. needsKey reports whether the device lacks the loaded private key or the configured port.
func (d *device) read(k kernel) (exists, needsKey bool, err error) {
	d.peers = nil
	got, err := k.Device(d.cfg.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, false, nil
	case err != nil:
		return false, false, fmt.Errorf("read device %s: %w", d.cfg.Name, err)
	case got.Type != wgtypes.LinuxKernel:
		return false, false, fmt.Errorf("device %s is not a kernel device: %s", d.cfg.Name, got.Type)
	}
	d.peers, d.owners = make(map[wgtypes.Key]*observedPeer, len(got.Peers)), map[netip.Prefix]wgtypes.Key{}
	for i := range got.Peers {
		p := &got.Peers[i]
		observed := &observedPeer{
			keepalive: p.PersistentKeepaliveInterval, session: session{p.LastHandshakeTime, p.ReceiveBytes},
		}
		if p.Endpoint != nil {
			observed.endpoint = plainEndpoint(p.Endpoint.AddrPort())
		}
		for _, n := range p.AllowedIPs {
			d.owners[prefixOf(n)] = p.PublicKey
		}
		d.peers[p.PublicKey] = observed
	}
	return true, d.hasKey() && (got.PrivateKey != d.key.key || got.ListenPort != int(d.cfg.Port)), nil
}

// setKey sets the private key and the port of the device.
func (d *device) setKey(k kernel) error {
	port := int(d.cfg.Port)
	err := k.ConfigureDevice(d.cfg.Name, wgtypes.Config{PrivateKey: &d.key.key, ListenPort: &port})
	if err != nil {
		return fmt.Errorf("set key and port %d of device %s: %w", port, d.cfg.Name, err)
	}
	return nil
}

// addPeers adds the missing peers and allowed IPs, and updates endpoints and keepalives that
// differ. It removes nothing. If the kernel refuses some of the peers, it adds the others, and
// refused has the errors by key. If the kernel refuses every one of several peers, the device is at
// fault: addPeers returns err alone.
func (d *device) addPeers(k kernel, desired map[wgtypes.Key]*desiredPeer) (refused map[wgtypes.Key]error, err error) {
	var changes []wgtypes.PeerConfig
	for _, key := range sortedKeys(desired) {
		if c, differs := d.addition(key, desired[key]); differs {
			changes = append(changes, c)
		}
	}
	if len(changes) == 0 {
		return nil, nil
	}
	if err = d.configure(k, changes); err == nil {
		d.record(changes)
		return nil, nil
	}
	refused = map[wgtypes.Key]error{}
	for i := range changes { // one by one, to find the refused peers
		if one := d.configure(k, changes[i:i+1]); one != nil {
			refused[changes[i].PublicKey] = one
			continue
		}
		d.record(changes[i : i+1])
	}
	if len(refused) == len(changes) && len(changes) > 1 {
		return nil, err
	}
	return refused, nil
}

// addition returns the change that adds the missing parts of a peer, without removals. differs is
// false if none is missing.
func (d *device) addition(key wgtypes.Key, desired *desiredPeer) (c wgtypes.PeerConfig, differs bool) {
	observed := d.peers[key]
	c = wgtypes.PeerConfig{PublicKey: key}
	if observed == nil {
		observed, differs = &observedPeer{}, true
	}
	if observed.endpoint != desired.endpoint {
		c.Endpoint, differs = net.UDPAddrFromAddrPort(desired.endpoint), true
	}
	keepalive := time.Duration(0)
	if desired.keepalive {
		keepalive = probeInterval
	}
	if observed.keepalive != keepalive {
		c.PersistentKeepaliveInterval, differs = &keepalive, true
	}
	for _, p := range desired.allowedIPs {
		if owner, ok := d.owners[p]; !ok || owner != key {
			c.AllowedIPs, differs = append(c.AllowedIPs, netOf(p)), true
		}
	}
	return c, differs
}

// record updates the observed state after the kernel has made the changes of addPeers. An allowed
// IP that is added to one peer is removed from the peer that had it.
func (d *device) record(changes []wgtypes.PeerConfig) {
	for i := range changes {
		c := &changes[i]
		observed := d.peers[c.PublicKey]
		if observed == nil {
			observed = &observedPeer{}
			d.peers[c.PublicKey] = observed
		}
		if c.Endpoint != nil {
			observed.endpoint = plainEndpoint(c.Endpoint.AddrPort())
		}
		if c.PersistentKeepaliveInterval != nil {
			observed.keepalive = *c.PersistentKeepaliveInterval
		}
		for _, n := range c.AllowedIPs {
			d.owners[prefixOf(n)] = c.PublicKey
		}
	}
}

// removePeers removes unwanted peers, and unwanted allowed IPs of desired peers. The kernel cannot
// delete one allowed IP of a peer. It can replace all of them, but packets see the steps of a
// replacement. So removePeers moves the unwanted allowed IPs to a temporary peer, and then removes
// that peer.
func (d *device) removePeers(k kernel, desired map[wgtypes.Key]*desiredPeer) error {
	var changes []wgtypes.PeerConfig
	for _, key := range sortedKeys(d.peers) {
		if desired[key] == nil {
			changes = append(changes, wgtypes.PeerConfig{PublicKey: key, Remove: true})
		}
	}
	used := map[netip.Prefix]struct{}{}
	for _, peer := range desired {
		for _, p := range peer.allowedIPs {
			used[p] = struct{}{}
		}
	}
	var stale []net.IPNet
	for _, p := range slices.SortedFunc(maps.Keys(d.owners), dataplane.ComparePrefixes) {
		if _, ok := used[p]; !ok && desired[d.owners[p]] != nil {
			stale = append(stale, netOf(p))
		}
	}
	if len(stale) > 0 {
		temporary, err := wgtypes.GeneratePrivateKey()
		if err != nil {
			return err
		}
		key := temporary.PublicKey()
		d.peers[key] = &observedPeer{} // if its removal fails, the next call removes it
		if err := d.configure(k, []wgtypes.PeerConfig{{PublicKey: key, AllowedIPs: stale}}); err != nil {
			return err
		}
		changes = append(changes, wgtypes.PeerConfig{PublicKey: key, Remove: true})
	}
	if len(changes) == 0 {
		return nil
	}
	if err := d.configure(k, changes); err != nil {
		return err
	}
	maps.DeleteFunc(d.peers, func(key wgtypes.Key, _ *observedPeer) bool { return desired[key] == nil })
	maps.DeleteFunc(d.owners, func(p netip.Prefix, key wgtypes.Key) bool {
		_, ok := used[p]
		return !ok || desired[key] == nil
	})
	return nil
}

// plan returns the commands of wg that bring the peers from the observed to the desired state.
func (d *device) plan(desired map[wgtypes.Key]*desiredPeer) (text string) {
	for _, key := range sortedKeys(d.peers) {
		if desired[key] == nil {
			text += fmt.Sprintf("wg set %s peer %s remove\n", d.cfg.Name, key)
		}
	}
	for _, key := range sortedKeys(desired) {
		peer := desired[key]
		_, differs := d.addition(key, peer)
		owned := 0
		for _, owner := range d.owners {
			if owner == key {
				owned++
			}
		}
		if !differs && owned == len(peer.allowedIPs) {
			continue
		}
		text += fmt.Sprintf("wg set %s peer %s endpoint %s allowed-ips ", d.cfg.Name, key, peer.endpoint)
		for i, p := range peer.allowedIPs {
			if i > 0 {
				text += ","
			}
			text += p.String()
		}
		text += "\n"
	}
	return text
}

// configure sends changes of peers to the kernel.
func (d *device) configure(k kernel, peers []wgtypes.PeerConfig) error {
	if err := k.ConfigureDevice(d.cfg.Name, wgtypes.Config{Peers: peers}); err != nil {
		return fmt.Errorf("change peers of device %s: %w", d.cfg.Name, err)
	}
	return nil
}

func sortedKeys[V any](m map[wgtypes.Key]V) []wgtypes.Key {
	return slices.SortedFunc(maps.Keys(m), func(a, b wgtypes.Key) int { return slices.Compare(a[:], b[:]) })
}

// plainEndpoint returns an endpoint in the form that is compared: an IPv4-mapped IPv6 address
// becomes IPv4.
func plainEndpoint(e netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(e.Addr().Unmap(), e.Port())
}

func netOf(p netip.Prefix) net.IPNet {
	return net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func prefixOf(n net.IPNet) netip.Prefix {
	a, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), bits)
}
