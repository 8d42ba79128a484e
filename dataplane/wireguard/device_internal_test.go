// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"errors"
	"io/fs"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// fakeKernel has WireGuard devices that behave like those of the kernel. It fails the test if a
// peer loses addresses that it must keep, even for a moment.
type fakeKernel struct {
	*testing.T
	devices map[string]*wgtypes.Device
	// keep has addresses that must always have a peer.
	keep []netip.Prefix
	// refuse is a peer with an error.
	refuse  wgtypes.Key
	changes int
	// beforeRead and beforeChange may be nil.
	beforeRead, beforeChange func()
}

func (k *fakeKernel) Close() error { return nil }

func (k *fakeKernel) Device(name string) (*wgtypes.Device, error) {
	if k.beforeRead != nil {
		k.beforeRead()
	}
	if d := k.devices[name]; d != nil {
		return d, nil
	}
	return nil, fs.ErrNotExist
}

func (k *fakeKernel) ConfigureDevice(name string, cfg wgtypes.Config) error {
	if k.changes++; k.beforeChange != nil {
		k.beforeChange()
	}
	d := k.devices[name]
	if cfg.PrivateKey != nil {
		d.PrivateKey, d.PublicKey = *cfg.PrivateKey, cfg.PrivateKey.PublicKey()
	}
	if cfg.ListenPort != nil {
		d.ListenPort = *cfg.ListenPort
	}
	for _, c := range cfg.Peers {
		if c.PublicKey == k.refuse {
			return errors.New("refused")
		}
		require.False(k, c.ReplaceAllowedIPs, "the kernel would remove all first")
		k.peer(d, c)
		for _, p := range k.keep {
			require.True(k, k.owned(d, p), p)
		}
	}
	return nil
}

func (k *fakeKernel) peer(d *wgtypes.Device, c wgtypes.PeerConfig) {
	at := -1
	for i := range d.Peers {
		if d.Peers[i].PublicKey == c.PublicKey {
			at = i
		}
	}
	switch {
	case c.Remove && at >= 0:
		d.Peers = append(d.Peers[:at:at], d.Peers[at+1:]...)
		return
	case c.Remove:
		return
	case at < 0:
		d.Peers, at = append(d.Peers, wgtypes.Peer{PublicKey: c.PublicKey}), len(d.Peers)
	}
	if c.Endpoint != nil {
		d.Peers[at].Endpoint = c.Endpoint
	}
	if c.PersistentKeepaliveInterval != nil {
		d.Peers[at].PersistentKeepaliveInterval = *c.PersistentKeepaliveInterval
	}
	for _, n := range c.AllowedIPs {
		for i := range d.Peers {
			for j, have := range d.Peers[i].AllowedIPs {
				if have.String() == n.String() {
					d.Peers[i].AllowedIPs = append(d.Peers[i].AllowedIPs[:j:j], d.Peers[i].AllowedIPs[j+1:]...)
					break
				}
			}
		}
		d.Peers[at].AllowedIPs = append(d.Peers[at].AllowedIPs, n)
	}
}

func (k *fakeKernel) owned(d *wgtypes.Device, p netip.Prefix) bool {
	for i := range d.Peers {
		for _, n := range d.Peers[i].AllowedIPs {
			if prefixOf(n) == p {
				return true
			}
		}
	}
	return false
}

func prefixes(list ...string) (all []netip.Prefix) {
	for _, s := range list {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

// While peers are added, changed and removed, each unchanged address always has a peer.
func TestDevicePeers(t *testing.T) {
	k := &fakeKernel{T: t, devices: map[string]*wgtypes.Device{"wg": {Type: wgtypes.LinuxKernel, Name: "wg"}}}
	d := &device{cfg: Device{Name: "wg", Port: 1}, key: privateKey{key: testKey(9)}}
	reconcile := func(desired map[wgtypes.Key]*desiredPeer) {
		refused, err := d.addPeers(k, desired)
		require.NoError(t, err)
		require.Empty(t, refused)
		require.NoError(t, d.removePeers(k, desired))
		changes := k.changes
		for range 2 {
			_, err = d.addPeers(k, desired)
			require.NoError(t, err)
			require.NoError(t, d.removePeers(k, desired))
			require.Equal(t, changes, k.changes, "no more changes")
			_, _, err = d.read(k) // the recorded state equals that of the kernel
			require.NoError(t, err)
		}
		require.Len(t, k.devices["wg"].Peers, len(desired))
		for key, peer := range desired {
			observed := d.peers[key]
			require.Equal(t, peer.endpoint, observed.endpoint)
			require.Equal(t, peer.keepalive, observed.keepalive == time.Second)
			for _, p := range peer.allowedIPs {
				require.Equal(t, key, d.owners[p])
			}
		}
	}
	_, unset, err := d.read(k)
	require.NoError(t, err)
	require.True(t, unset)
	require.NoError(t, d.setKey(k))

	one, two := netip.MustParseAddrPort("192.0.2.1:1"), netip.MustParseAddrPort("[2001:db8::2]:2")
	reconcile(map[wgtypes.Key]*desiredPeer{
		testKey(1): {endpoint: one, allowedIPs: prefixes("10.0.1.0/26", "10.0.1.9/32", "fd00:1::/64")},
		testKey(2): {endpoint: two, allowedIPs: prefixes("10.0.2.0/26")},
	})
	k.keep = prefixes("10.0.1.0/26", "10.0.1.9/32", "10.0.2.0/26")
	reconcile(map[wgtypes.Key]*desiredPeer{ // one address moves, one is removed, one is added
		testKey(1): {endpoint: two, allowedIPs: prefixes("10.0.1.0/26"), keepalive: true},
		testKey(2): {endpoint: two, allowedIPs: prefixes("10.0.1.9/32", "10.0.2.0/26", "fd00:2::/64")},
	})
	reconcile(map[wgtypes.Key]*desiredPeer{ // a node gets another key
		testKey(3): {endpoint: two, allowedIPs: prefixes("10.0.1.0/26")},
		testKey(2): {endpoint: two, allowedIPs: prefixes("10.0.1.9/32", "10.0.2.0/26")},
	})
	k.keep = nil
	reconcile(nil)
	exists, _, err := (&device{cfg: Device{Name: "none"}}).read(k)
	require.NoError(t, err)
	require.False(t, exists)
	k.devices["user"] = &wgtypes.Device{Type: wgtypes.Userspace}
	_, _, err = (&device{cfg: Device{Name: "user"}}).read(k)
	require.ErrorContains(t, err, "is not a kernel device", "it would get the private key")
}

// If the kernel refuses one peer, the others are programmed.
func TestRefusedPeer(t *testing.T) {
	k := &fakeKernel{T: t, devices: map[string]*wgtypes.Device{"wg": {Type: wgtypes.LinuxKernel}}, refuse: testKey(2)}
	d := &device{cfg: Device{Name: "wg"}}
	_, _, err := d.read(k)
	require.NoError(t, err)
	desired := map[wgtypes.Key]*desiredPeer{testKey(1): {}, testKey(2): {}, testKey(3): {}}
	refused, err := d.addPeers(k, desired)
	require.NoError(t, err)
	require.Len(t, refused, 1)
	require.ErrorContains(t, refused[testKey(2)], "change peers of device wg: refused")
	require.Len(t, k.devices["wg"].Peers, 2)
	k.refuse = wgtypes.Key{}
	refused, err = d.addPeers(k, desired)
	require.NoError(t, err)
	require.Empty(t, refused)
	require.Len(t, k.devices["wg"].Peers, 3)
}
