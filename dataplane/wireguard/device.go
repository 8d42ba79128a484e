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

// kernel configures WireGuard devices; a *wgctrl.Client is one.
type kernel interface {
	Device(name string) (*wgtypes.Device, error)
	ConfigureDevice(name string, cfg wgtypes.Config) error
	Close() error
}

// desiredPeer is how a device is to have a peer.
type desiredPeer struct {
	endpoint netip.AddrPort
	allowed  []netip.Prefix
	// keepalive makes the device send to the peer each second, and so begin a session.
	keepalive bool
}

// observedPeer is how a device has a peer.
type observedPeer struct {
	endpoint  netip.AddrPort
	keepalive time.Duration
	session   session
}

// device is a WireGuard device of this node and its observed state.
type device struct {
	cfg Device
	key privateKey
	// peers of the kernel by key. Nil if they are not known: the device is read again.
	peers map[wgtypes.Key]*observedPeer
	// owners has the peer of each allowed address: the kernel has one at most.
	owners map[netip.Prefix]wgtypes.Key
}

// probing is the keepalive of a peer that is to begin a session.
const probing = time.Second

// hasKey reports whether the private key is known.
func (d *device) hasKey() bool { return d.key.key != wgtypes.Key{} }

// read reads the peers. exists is false if there is no such device yet. needsKey means that the private key or
// the port differs from the wanted one.
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
		held := &observedPeer{
			keepalive: p.PersistentKeepaliveInterval, session: session{p.LastHandshakeTime, p.ReceiveBytes},
		}
		if p.Endpoint != nil {
			held.endpoint = plainEndpoint(p.Endpoint.AddrPort())
		}
		for _, n := range p.AllowedIPs {
			d.owners[prefixOf(n)] = p.PublicKey
		}
		d.peers[p.PublicKey] = held
	}
	return true, d.hasKey() && (got.PrivateKey != d.key.key || got.ListenPort != int(d.cfg.Port)), nil
}

// setKey sets the private key and the port.
func (d *device) setKey(k kernel) error {
	port := int(d.cfg.Port)
	err := k.ConfigureDevice(d.cfg.Name, wgtypes.Config{PrivateKey: &d.key.key, ListenPort: &port})
	if err != nil {
		return fmt.Errorf("set key and port %d of device %s: %w", port, d.cfg.Name, err)
	}
	return nil
}

// addPeers adds peers and what they lack, and changes what differs, but removes nothing. It returns the
// keys of the peers that the kernel refused, with the errors.
func (d *device) addPeers(k kernel, wanted map[wgtypes.Key]*desiredPeer) (refused map[wgtypes.Key]error, err error) {
	var changes []wgtypes.PeerConfig
	for _, key := range sortedKeys(wanted) {
		if c, differs := d.addition(key, wanted[key]); differs {
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
	for i := range changes { // which of them is it?
		if one := d.configure(k, changes[i:i+1]); one != nil {
			refused[changes[i].PublicKey] = one
			continue
		}
		d.record(changes[i : i+1])
	}
	if len(refused) == len(changes) && len(changes) > 1 {
		return nil, err // none of them: the device is at fault
	}
	return refused, nil
}

// addition returns what a peer lacks.
func (d *device) addition(key wgtypes.Key, want *desiredPeer) (c wgtypes.PeerConfig, differs bool) {
	held := d.peers[key]
	c = wgtypes.PeerConfig{PublicKey: key}
	if held == nil {
		held, differs = &observedPeer{}, true
	}
	if held.endpoint != want.endpoint {
		c.Endpoint, differs = net.UDPAddrFromAddrPort(want.endpoint), true
	}
	keepalive := time.Duration(0)
	if want.keepalive {
		keepalive = probing
	}
	if held.keepalive != keepalive {
		c.PersistentKeepaliveInterval, differs = &keepalive, true
	}
	for _, p := range want.allowed {
		if owner, ok := d.owners[p]; !ok || owner != key {
			c.AllowedIPs, differs = append(c.AllowedIPs, netOf(p)), true
		}
	}
	return c, differs
}

// record updates the observed state after additions. Adding an allowed address to one peer takes it from
// another.
func (d *device) record(changes []wgtypes.PeerConfig) {
	for i := range changes {
		c := &changes[i]
		held := d.peers[c.PublicKey]
		if held == nil {
			held = &observedPeer{}
			d.peers[c.PublicKey] = held
		}
		if c.Endpoint != nil {
			held.endpoint = plainEndpoint(c.Endpoint.AddrPort())
		}
		if c.PersistentKeepaliveInterval != nil {
			held.keepalive = *c.PersistentKeepaliveInterval
		}
		for _, n := range c.AllowedIPs {
			d.owners[prefixOf(n)] = c.PublicKey
		}
	}
}

// removePeers removes unwanted peers, and allowed addresses that a wanted one must not have. The kernel can
// replace all allowed addresses of a peer, but not delete one, and a replacement is not atomic for packets. So
// stale addresses are first moved to a temporary peer, and then that peer is removed.
func (d *device) removePeers(k kernel, wanted map[wgtypes.Key]*desiredPeer) error {
	var changes []wgtypes.PeerConfig
	for _, key := range sortedKeys(d.peers) {
		if wanted[key] == nil {
			changes = append(changes, wgtypes.PeerConfig{PublicKey: key, Remove: true})
		}
	}
	used := map[netip.Prefix]struct{}{}
	for _, want := range wanted {
		for _, p := range want.allowed {
			used[p] = struct{}{}
		}
	}
	var stale []net.IPNet
	for _, p := range slices.SortedFunc(maps.Keys(d.owners), dataplane.ComparePrefixes) {
		if _, ok := used[p]; !ok && wanted[d.owners[p]] != nil {
			stale = append(stale, netOf(p))
		}
	}
	if len(stale) > 0 {
		nobody, err := wgtypes.GeneratePrivateKey()
		if err != nil {
			return err
		}
		key := nobody.PublicKey()
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
	maps.DeleteFunc(d.peers, func(key wgtypes.Key, _ *observedPeer) bool { return wanted[key] == nil })
	maps.DeleteFunc(d.owners, func(p netip.Prefix, key wgtypes.Key) bool {
		_, ok := used[p]
		return !ok || wanted[key] == nil
	})
	return nil
}

// plan returns the changes to the peers as last observed, as commands of wg.
func (d *device) plan(wanted map[wgtypes.Key]*desiredPeer) (text string) {
	for _, key := range sortedKeys(d.peers) {
		if wanted[key] == nil {
			text += fmt.Sprintf("wg set %s peer %s remove\n", d.cfg.Name, key)
		}
	}
	for _, key := range sortedKeys(wanted) {
		want := wanted[key]
		_, differs := d.addition(key, want)
		owned := 0
		for _, owner := range d.owners {
			if owner == key {
				owned++
			}
		}
		if !differs && owned == len(want.allowed) {
			continue
		}
		text += fmt.Sprintf("wg set %s peer %s endpoint %s allowed-ips ", d.cfg.Name, key, want.endpoint)
		for i, p := range want.allowed {
			if i > 0 {
				text += ","
			}
			text += p.String()
		}
		text += "\n"
	}
	return text
}

func (d *device) configure(k kernel, peers []wgtypes.PeerConfig) error {
	if err := k.ConfigureDevice(d.cfg.Name, wgtypes.Config{Peers: peers}); err != nil {
		return fmt.Errorf("change peers of device %s: %w", d.cfg.Name, err)
	}
	return nil
}

func sortedKeys[V any](m map[wgtypes.Key]V) []wgtypes.Key {
	return slices.SortedFunc(maps.Keys(m), func(a, b wgtypes.Key) int { return slices.Compare(a[:], b[:]) })
}

// plainEndpoint returns an endpoint as it is compared.
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
