// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// rotationTest is a node with two devices in a fake kernel, and a clock.
type rotationTest struct {
	*testing.T
	d      *Dataplane
	now    time.Time
	kernel *fakeKernel
	log    nstest.Log
	nodes  map[string]*remoteNode
}

func newRotationTest(t *testing.T) *rotationTest {
	directory := t.TempDir()
	r := &rotationTest{T: t, now: time.Now(), log: nstest.NewLog(), kernel: &fakeKernel{
		T: t, devices: map[string]*wgtypes.Device{
			"wg.way": {Type: wgtypes.LinuxKernel}, "wg2.way": {Type: wgtypes.LinuxKernel},
		},
	}}
	d, err := New(Config{
		Node: "a", KeyLifetime: time.Hour, Logger: slog.New(slog.NewTextHandler(r.log, nil)),
		Devices: []Device{{KeyFile: filepath.Join(directory, "1")}, {KeyFile: filepath.Join(directory, "2")}},
	})
	require.NoError(t, err)
	d.SetRotationDelay(time.Minute)
	r.d, d.devices.kernel, d.applyTimer.now = d, r.kernel, func() time.Time { return r.now }
	require.NoError(t, d.devices.loadKeys(loadKey))
	require.NoError(t, d.devices.read())
	r.nodes = map[string]*remoteNode{"b": {name: "b", peers: []announcedPeer{{key: testKey(1)}, {key: testKey(2)}}}}
	return r
}

// step advances the clock and takes the steps that are due, like Apply.
func (r *rotationTest) step(by time.Duration) {
	r.Helper()
	r.now = r.now.Add(by)
	require.NoError(r, r.d.devices.read())
	require.NoError(r, r.d.rotate(r.nodes))
	r.d.outDevices.update(r.nodes, func(n *remoteNode) int {
		return n.targetDevice("a", []bool{true, true}, r.d.rotation.avoidedDevice())
	}, r.d.devices.session, r.now)
}

// publish writes the announced keys to the node's resource, and takes the steps that are due.
func (r *rotationTest) publish() {
	r.Helper()
	r.d.state.update(dataplane.Batch{Events: []dataplane.Event{
		&dataplane.NodeUpdate{Node: &dataplane.Node{Name: "a", WireguardKeys: r.d.keys()}},
	}})
	r.step(0)
}

// answers makes the remote node answer at a device.
func (r *rotationTest) answers(name string, key wgtypes.Key) {
	r.kernel.devices[name].Peers = []wgtypes.Peer{{PublicKey: key, LastHandshakeTime: r.now}}
}

// A key is replaced once it is too old, all nodes have received the announcement, and no node uses
// it any more.
func TestRotation(t *testing.T) {
	r := newRotationTest(t)
	first := r.d.devices.publicKeys()
	require.WithinDuration(t, r.now.Add(time.Hour), r.d.rotationDue(), time.Minute)
	r.answers("wg.way", testKey(1))
	r.step(59 * time.Minute)
	require.Equal(t, noDevice, r.d.rotation.device)
	r.answers("wg.way", testKey(1))
	r.step(2 * time.Minute)
	require.Equal(t, 0, r.d.rotation.device)
	require.Equal(t, 0, r.d.outDevices["b"].target, "the other node does not know of the rotation yet")
	r.d.announce()
	require.Equal(t, []bool{true, false}, []bool{r.d.Keys()[0].Rotating, r.d.Keys()[1].Rotating})
	r.publish()
	require.Equal(t, 1, r.d.outDevices["b"].target)

	// The node does not answer at the second device, and is still reached at the first.
	r.answers("wg.way", testKey(1))
	r.step(2 * time.Minute)
	require.Equal(t, first, r.d.devices.publicKeys())
	r.log.Wait(t, "waits for a node")
	require.WithinDuration(t, r.now.Add(6*time.Second), r.d.rotationDue(), 0)

	// It answers, but it has used the first one recently.
	r.answers("wg2.way", testKey(2))
	r.step(time.Second)
	require.Equal(t, 1, r.d.outDevices["b"].index)
	require.Equal(t, first, r.d.devices.publicKeys())
	r.answers("wg2.way", testKey(2))
	r.step(time.Minute)
	r.d.devices.list[0].key.made = r.now // the file has the time of the real clock
	now := r.d.devices.publicKeys()
	require.NotEqual(t, first[0], now[0])
	require.Equal(t, first[1], now[1])
	require.Equal(t, now[0], r.kernel.devices["wg.way"].PublicKey)
	text, err := os.ReadFile(r.d.cfg.Devices[0].KeyFile)
	require.NoError(t, err)
	require.Equal(t, r.kernel.devices["wg.way"].PrivateKey.String()+"\n", string(text))
	require.Equal(t, 0, r.d.rotation.device, "all nodes must receive the new key first")
	require.Equal(t, 1, r.d.outDevices["b"].index)
	r.step(10 * time.Minute)
	require.Equal(t, 0, r.d.rotation.device, "the resource does not have the new key yet")
	r.publish()
	r.step(59 * time.Second)
	require.Equal(t, 0, r.d.rotation.device)
	r.step(time.Second)
	require.Equal(t, noDevice, r.d.rotation.device)
	r.step(time.Second) // the second key is as old
	require.Equal(t, 1, r.d.rotation.device)
}

// A node that does not answer at all does not stop a rotation.
func TestRotationDoesNotWaitForDeadNode(t *testing.T) {
	r := newRotationTest(t)
	first := r.d.devices.publicKeys()
	r.step(time.Hour + time.Second)
	r.publish()
	r.step(time.Minute)
	require.NotEqual(t, first[0], r.d.devices.publicKeys()[0])
}

// No key is replaced while the node's resource does not have the announcement. Otherwise the other
// nodes would still use the old key, and this node would be cut off.
func TestRotationWaitsForResource(t *testing.T) {
	r := newRotationTest(t)
	first := r.d.devices.publicKeys()
	r.step(time.Hour + time.Second)
	require.Equal(t, 0, r.d.rotation.device)
	for range 3 {
		r.step(time.Minute)
		require.WithinDuration(t, r.now.Add(6*time.Second), r.d.rotationDue(), 0)
	}
	line := r.log.Wait(t, "waits until the Node resource has the announced keys")
	require.Contains(t, line, "device=wg.way")
	require.Empty(t, r.log, "one line")
	r.publish()
	require.WithinDuration(t, r.now.Add(time.Minute), r.d.rotationDue(), 0)
	r.step(30 * time.Second)
	r.d.state.update(dataplane.Batch{Events: []dataplane.Event{
		&dataplane.NodeUpdate{Node: &dataplane.Node{Name: "a"}},
	}})
	r.step(time.Minute)
	require.Equal(t, first, r.d.devices.publicKeys(), "another program has removed the keys")
	r.publish()
	r.step(59 * time.Second)
	require.Equal(t, first, r.d.devices.publicKeys())
	r.step(time.Second)
	require.NotEqual(t, first[0], r.d.devices.publicKeys()[0])
}

// A new process continues the rotation that the node's resource announces.
func TestRotationIsResumed(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		r := newRotationTest(t)
		first := r.d.devices.publicKeys()
		keys := r.d.keys()
		keys[1].Rotating = true
		r.d.state.update(dataplane.Batch{Events: []dataplane.Event{
			&dataplane.NodeUpdate{Node: &dataplane.Node{Name: "a", WireguardKeys: keys}},
		}})
		if !replaced {
			r.d.devices.list[1].key.made = r.now.Add(-2 * time.Hour)
		}
		r.step(0)
		require.Equal(t, 1, r.d.rotation.device)
		require.Equal(t, replaced, r.d.rotation.replaced)
		r.step(time.Minute)
		require.Equal(t, replaced, first[1] == r.d.devices.publicKeys()[1])
		require.Equal(t, replaced, r.d.rotation.device == noDevice)
	}
}

// A process was killed after it replaced a key, and before its resource got the new one. The next
// process does not use the device until the resource has the new key.
func TestRotationIsResumedBeforeNewKeyIsPublished(t *testing.T) {
	r := newRotationTest(t)
	keys := r.d.keys()
	keys[0].PublicKey, keys[0].Rotating = testKey(9).String(), true
	r.d.state.update(dataplane.Batch{Events: []dataplane.Event{
		&dataplane.NodeUpdate{Node: &dataplane.Node{Name: "a", WireguardKeys: keys}},
	}})
	first := r.d.devices.publicKeys()
	for range 3 {
		r.step(time.Minute)
		require.True(t, r.d.rotation.replaced)
		require.Equal(t, 1, r.d.outDevices["b"].target)
	}
	r.publish()
	r.step(time.Minute)
	require.Equal(t, noDevice, r.d.rotation.device)
	require.Equal(t, first, r.d.devices.publicKeys())
}

// A key that cannot be written stays, and the rotation is repeated later.
func TestRotationFails(t *testing.T) {
	r := newRotationTest(t)
	first := r.d.devices.publicKeys()
	r.step(time.Hour + time.Second)
	r.publish()
	blocker := r.d.cfg.Devices[0].KeyFile + ".new"
	require.NoError(t, os.MkdirAll(filepath.Join(blocker, "x"), 0o700))
	r.now = r.now.Add(time.Minute)
	require.ErrorIs(t, r.d.rotate(r.nodes), ErrKey)
	require.Equal(t, first, r.d.devices.publicKeys())
	require.NoError(t, os.RemoveAll(blocker))
	r.step(time.Second)
	require.Equal(t, first, r.d.devices.publicKeys())
	r.step(time.Minute)
	require.NotEqual(t, first, r.d.devices.publicKeys())
}
