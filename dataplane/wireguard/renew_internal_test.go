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
	"github.com/wayleave/wayleave/policy"
)

// renewing is a node with two devices over a fake kernel, and a clock.
type renewing struct {
	*testing.T
	d      *Dataplane
	now    time.Time
	kernel *fakeKernel
	log    nstest.Log
	peers  map[string]*peer
}

func newRenewing(t *testing.T) *renewing {
	folder := t.TempDir()
	r := &renewing{T: t, now: time.Now(), log: nstest.NewLog(), kernel: &fakeKernel{
		T: t, devices: map[string]*wgtypes.Device{
			"wg.way": {Type: wgtypes.LinuxKernel}, "wg2.way": {Type: wgtypes.LinuxKernel},
		},
	}}
	d, err := New(Config{
		Node: "a", KeyLifetime: time.Hour, RenewalDelay: time.Minute, Logger: slog.New(slog.NewTextHandler(r.log, nil)),
		Devices: []Device{{KeyFile: filepath.Join(folder, "1")}, {KeyFile: filepath.Join(folder, "2")}},
	})
	require.NoError(t, err)
	r.d, d.devices.kernel, d.reminder.now = d, r.kernel, func() time.Time { return r.now }
	require.NoError(t, d.devices.loadKeys(loadKey))
	require.NoError(t, d.devices.read())
	r.peers = map[string]*peer{"b": {node: "b", slots: []slot{{key: testKey(1)}, {key: testKey(2)}}}}
	return r
}

// step advances the clock and takes the steps that are due, as Apply does.
func (r *renewing) step(by time.Duration) {
	r.Helper()
	r.now = r.now.Add(by)
	require.NoError(r, r.d.devices.read())
	require.NoError(r, r.d.renew(r.peers))
	r.d.paths.update(r.peers, func(p *peer) int {
		return p.target("a", []bool{true, true}, r.d.renewal.slot)
	}, r.d.devices.look, r.now)
}

// answers makes the peer answer by a device.
func (r *renewing) answers(name string, key wgtypes.Key) {
	r.kernel.devices[name].Peers = []wgtypes.Peer{{PublicKey: key, LastHandshakeTime: r.now}}
}

// A key is replaced once it is old, all have read that, and nobody uses it any more.
func TestRenewal(t *testing.T) {
	r := newRenewing(t)
	first := r.d.devices.publicKeys()
	require.WithinDuration(t, r.now.Add(time.Hour), r.d.renewalDue(), time.Minute)
	r.answers("wg.way", testKey(1))
	r.step(59 * time.Minute)
	require.Equal(t, none, r.d.renewal.slot)
	r.answers("wg.way", testKey(1))
	r.step(2 * time.Minute)
	require.Equal(t, 0, r.d.renewal.slot)
	require.Equal(t, 1, r.d.paths["b"].to)
	r.d.announce()
	require.Equal(t, []bool{true, false}, []bool{r.d.Keys()[0].Renewing, r.d.Keys()[1].Renewing})

	// The peer does not answer by the second device, and is still reached by the first.
	r.answers("wg.way", testKey(1))
	r.step(2 * time.Minute)
	require.Equal(t, first, r.d.devices.publicKeys())
	r.log.Wait(t, "waits for a node")
	require.WithinDuration(t, r.now.Add(6*time.Second), r.d.renewalDue(), 0)

	// It does, but it has used the first one lately.
	r.answers("wg2.way", testKey(2))
	r.step(time.Second)
	require.Equal(t, 1, r.d.paths["b"].via)
	require.Equal(t, first, r.d.devices.publicKeys())
	r.answers("wg2.way", testKey(2))
	r.step(time.Minute)
	r.d.devices.list[0].key.made = r.now // the file has the true time
	now := r.d.devices.publicKeys()
	require.NotEqual(t, first[0], now[0])
	require.Equal(t, first[1], now[1])
	require.Equal(t, now[0], r.kernel.devices["wg.way"].PublicKey)
	text, err := os.ReadFile(r.d.cfg.Devices[0].KeyFile)
	require.NoError(t, err)
	require.Equal(t, r.kernel.devices["wg.way"].PrivateKey.String()+"\n", string(text))
	require.Equal(t, 0, r.d.renewal.slot, "until all have read the new key")
	require.Equal(t, 1, r.d.paths["b"].via)
	r.step(59 * time.Second)
	require.Equal(t, 0, r.d.renewal.slot)
	r.step(time.Second)
	require.Equal(t, none, r.d.renewal.slot)
	r.step(time.Second) // the second key is as old
	require.Equal(t, 1, r.d.renewal.slot)
}

// A peer that does not answer at all does not stop a renewal.
func TestRenewalDoesNotWaitForDeadNode(t *testing.T) {
	r := newRenewing(t)
	first := r.d.devices.publicKeys()
	r.step(time.Hour + time.Second)
	r.step(time.Minute)
	require.NotEqual(t, first[0], r.d.devices.publicKeys()[0])
}

// A process that starts again goes on with the renewal that its resource shows.
func TestRenewalIsResumed(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		r := newRenewing(t)
		first := r.d.devices.publicKeys()
		r.d.state.update(dataplane.Batch{Events: []dataplane.Event{&dataplane.NodeUpdate{Node: &dataplane.Node{
			Name: "a", WireguardKeys: []policy.WireguardKey{{Port: 1}, {Port: 2, Renewing: true}},
		}}}})
		if !replaced {
			r.d.devices.list[1].key.made = r.now.Add(-2 * time.Hour)
		}
		r.step(0)
		require.Equal(t, 1, r.d.renewal.slot)
		require.Equal(t, replaced, r.d.renewal.replaced)
		r.step(time.Minute)
		require.Equal(t, replaced, first[1] == r.d.devices.publicKeys()[1])
	}
}

// A key that cannot be written stays, and the renewal is tried again.
func TestRenewalFails(t *testing.T) {
	r := newRenewing(t)
	first := r.d.devices.publicKeys()
	r.step(time.Hour + time.Second)
	blocker := r.d.cfg.Devices[0].KeyFile + ".new"
	require.NoError(t, os.MkdirAll(filepath.Join(blocker, "x"), 0o700))
	r.now = r.now.Add(time.Minute)
	require.ErrorIs(t, r.d.renew(r.peers), ErrKey)
	require.Equal(t, first, r.d.devices.publicKeys())
	require.NoError(t, os.RemoveAll(blocker))
	r.step(time.Second)
	require.Equal(t, first, r.d.devices.publicKeys())
	r.step(time.Minute)
	require.NotEqual(t, first, r.d.devices.publicKeys())
}
