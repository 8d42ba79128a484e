// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package wireguard_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/wayleave/wayleave/policy"
)

// moment is a step of the rotation of a key, after which the process is killed.
type moment string

const (
	rotationAnnounced moment = "the rotation was announced"
	keyFileReplaced   moment = "the key file was replaced"
	newKeyAnnounced   moment = "the new key was announced"
)

// A process that is killed while it rotates a key leaves no state in which packets between pods
// leave unencrypted. The next process uses the state, and completes the rotation.
func TestProcessKilledDuringRotation(t *testing.T) {
	if os.Getenv(childKeys) != "" {
		keepNode(t)
	}
	c := newCluster(t, 2, twoDevices)
	c.requireReachable()
	n := c.nodes[0]
	n.stop()
	wire, end := n.capture(), n.startTrafficBothWays(c.nodes[1])
	for _, kill := range []struct {
		device int
		moment moment
		lost   bool // the last announcement
	}{
		{0, rotationAnnounced, false},
		{0, keyFileReplaced, false},
		{0, keyFileReplaced, false},
		{1, rotationAnnounced, true},
		{1, newKeyAnnounced, true},
		{1, keyFileReplaced, false},
	} {
		n.killInRotation(kill.device, kill.moment, kill.lost)
		require.Empty(t, plaintext(wire.packets()), kill)

		n.rotationDelay = time.Hour // it makes no step of the rotation
		n.start()
		require.NoError(t, n.driver.WaitApplied(t.Context()))
		c.awaitKeys()
		c.requireReachable()
		n.requireKeys()
		packets := wire.packets()
		require.True(t, slices.ContainsFunc(packets, func(p string) bool { return strings.HasPrefix(p, "wireguard") }))
		require.Empty(t, plaintext(packets), kill)
		n.stop()
	}
	n.rotationDelay = 5 * time.Second
	n.start()
	c.until("the end of the rotation", func() bool {
		return !slices.ContainsFunc(n.announced(), func(k policy.WireguardKey) bool { return k.Rotating })
	})
	n.requireKeys()
	c.requireReachable()
	require.Empty(t, plaintext(wire.packets()))
	end(func(sent, answered int) { require.Greater(t, answered, 0) })
}

// killInRotation makes the key of a device too old, starts a process, and kills it at a moment of
// the rotation. If lost is set, the announcement of that moment is lost.
func (n *node) killInRotation(device int, at moment, lost bool) {
	n.Helper()
	path := n.cfg.Devices[device].KeyFile
	old := time.Now().Add(-2 * keyLifetime)
	require.NoError(n, os.Chtimes(path, old, old))
	oldKey := n.fileKey(device)
	p := n.startChild("TestProcessKilledDuringRotation")
	watchdog := time.AfterFunc(waitTimeout, p.kill)
	defer watchdog.Stop()
	if at == keyFileReplaced {
		n.onceReplaced(path, p.kill)
	}
	n.setChild(p)
	defer n.setChild(nil)
	p.endBatch()
	reached := false
	for !reached && p.out.Scan() {
		if p.out.Text() == "applied" {
			continue
		}
		var keys []policy.WireguardKey
		require.NoError(n, json.Unmarshal(p.out.Bytes(), &keys), p.out.Text())
		switch at {
		case rotationAnnounced:
			reached = keys[device].Rotating
		case newKeyAnnounced:
			reached = keys[device].PublicKey != oldKey
		}
		if !reached || !lost {
			n.change(func(resource *policy.Node) { resource.WireguardKeys = keys })
		}
	}
	if at != keyFileReplaced {
		require.True(n, reached, at)
		p.kill()
	}
	require.Equal(n, at != rotationAnnounced, oldKey != n.fileKey(device), at)
	n.Logf("killed when %s, the device has the key of the file: %t", at,
		n.fileKey(device) == n.device([]string{"wg.way", "wg2.way"}[device]).PublicKey.String())
}

// setChild sets the process that receives changes of resources.
func (n *node) setChild(p *child) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.child = p
}

// onceReplaced calls do when the file with a path is replaced.
func (n *node) onceReplaced(path string, do func()) {
	n.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	require.NoError(n, err)
	_, err = unix.InotifyAddWatch(fd, filepath.Dir(path), unix.IN_MOVED_TO)
	require.NoError(n, err)
	changes := os.NewFile(uintptr(fd), "inotify")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if _, err := changes.Read(make([]byte, unix.SizeofInotifyEvent+unix.NAME_MAX+1)); err == nil {
			do()
		}
	}()
	n.Cleanup(func() {
		require.NoError(n, changes.Close())
		<-ended
	})
}

// fileKey returns the public key of the key file of a device.
func (n *node) fileKey(device int) string {
	n.Helper()
	text, err := os.ReadFile(n.cfg.Devices[device].KeyFile)
	require.NoError(n, err)
	key, err := wgtypes.ParseKey(strings.TrimSpace(string(text)))
	require.NoError(n, err)
	return key.PublicKey().String()
}

// announced returns the keys of the node's resource.
func (n *node) announced() []policy.WireguardKey {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.resource.WireguardKeys
}

// requireKeys waits until the devices and the resource have the keys of the files.
func (n *node) requireKeys() {
	n.Helper()
	for i, name := range []string{"wg.way", "wg2.way"} {
		key := n.fileKey(i)
		n.until(key, func() bool {
			return n.device(name).PublicKey.String() == key && n.announced()[i].PublicKey == key
		})
	}
}
