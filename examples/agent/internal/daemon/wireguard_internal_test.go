// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/wireguard"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/fence"
	"github.com/wayleave/wayleave/policy"
)

// leftObjects are the WireGuard objects of an earlier run. Teardown returns err.
type leftObjects struct {
	*fence.Log
	plan   string
	err    error
	closed int
	steps  []string // the calls, including those for the Node
}

func (o *leftObjects) PlanTeardown(context.Context) (string, error) {
	o.Cross()
	return o.plan, nil
}

func (o *leftObjects) Teardown(context.Context) error {
	o.Cross()
	o.steps = append(o.steps, "teardown")
	if o.err == nil {
		o.plan = ""
	}
	return o.err
}

func (o *leftObjects) Close() error {
	o.Cross()
	o.closed++
	return nil
}

// removalTest runs a removal. It has an API, unless a test sets withdraw to nil.
type removalTest struct {
	*wireguardRemoval
	objects *leftObjects
	log     *fence.Log
	ready   *milestone
	state   wireguardState
	// err is the result of a withdrawal.
	err error
}

func newRemovalTest(plan string) *removalTest {
	log := fence.NewLog()
	r := &removalTest{objects: &leftObjects{Log: log, plan: plan}, log: log, ready: newMilestone()}
	r.wireguardRemoval = &wireguardRemoval{
		open:  func() (removable, error) { return r.objects, nil },
		ready: r.ready.done, allow: func() error { return nil },
		withdraw: func(context.Context) error {
			r.objects.Cross()
			r.objects.steps = append(r.objects.steps, "withdraw")
			return r.err
		},
		report: r.state.setRemoval,
		logger: slog.New(slog.NewTextHandler(r.log, nil)),
	}
	return r
}

func (r *removalTest) start(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// after waits for a time of the bubble, and returns all steps so far.
func (r *removalTest) after(d time.Duration) []string {
	r.objects.Cross()
	time.Sleep(d) // the clock of the bubble
	synctest.Wait()
	return r.objects.steps
}

// The keys are withdrawn before the objects are removed, and nothing happens before the first
// complete state.
func TestWireguardRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemovalTest("ip link del wg.way\n")
		r.start(t)
		require.Empty(t, r.after(time.Hour))
		r.ready.reach()
		r.ready.reach()
		require.Equal(t, []string{"withdraw"}, r.after(withdrawalTime-time.Second))
		require.Equal(t, []string{"withdraw", "teardown"}, r.after(time.Second))
		require.Len(t, r.after(time.Hour), 2)
		require.Equal(t, 1, r.objects.closed)
		require.Equal(t, 4, strings.Count(r.log.String(), "level=INFO"))
		require.Contains(t, r.log.String(), "removed the WireGuard objects of an earlier run")
	})
}

// Without the API, people have to remove the keys: the log has a warning.
func TestWireguardRemovalWithoutAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemovalTest("ip link del wg.way\n")
		r.withdraw = nil
		r.ready.reach()
		r.start(t)
		require.Empty(t, r.after(withdrawalTime-time.Second))
		require.Contains(t, r.log.String(), "level=WARN")
		require.Contains(t, r.log.String(), "remove the keys from the Node resource")
		require.Equal(t, []string{"teardown"}, r.after(time.Second))
	})
}

// If nothing is left, the keys of the Node stay: they may be those of another program.
func TestWireguardRemovalOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemovalTest("")
		r.ready.reach()
		r.start(t)
		require.Empty(t, r.after(time.Hour))
		require.Empty(t, r.log.String())
		require.Equal(t, 1, r.objects.closed)
	})
}

// problem returns the error of the last attempt.
func (r *removalTest) problem() error {
	_, err := r.state.get()
	return err
}

// A failure is logged once and reported. The removal is tried again. The objects stay until the
// keys are withdrawn, and the withdrawal is not repeated.
func TestWireguardRemovalAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemovalTest("ip link del wg.way\n")
		r.err, r.objects.err = errors.New("refused"), errors.New("busy")
		r.ready.reach()
		r.start(t)
		steps := r.after(10 * time.Minute)
		require.NotContains(t, steps, "teardown")
		require.Greater(t, len(steps), 5)
		require.Less(t, len(steps), 20)
		require.Equal(t, 1, strings.Count(r.log.String(), "withdraw the WireGuard keys: refused"))
		require.EqualError(t, r.problem(), "withdraw the WireGuard keys: refused")
		r.err, r.objects.steps = nil, nil
		steps = r.after(time.Hour)
		require.Equal(t, []string{"withdraw", "teardown", "teardown"}, steps[:3])
		require.NotContains(t, steps[3:], "withdraw")
		require.Equal(t, 1, strings.Count(r.log.String(), "err=busy"))
		require.EqualError(t, r.problem(), "busy")
		r.objects.err, r.objects.steps = nil, nil
		require.Equal(t, []string{"teardown"}, r.after(time.Hour))
		require.NoError(t, r.problem())
	})
}

// An agent whose start was refused withdraws and removes nothing.
func TestWireguardRemovalOfRefusedStart(t *testing.T) {
	r := newRemovalTest("ip link del wg.way\n")
	refused := errors.New("refused")
	r.allow = func() error { return refused }
	require.ErrorIs(t, r.remove(t.Context()), refused)
	require.Empty(t, r.objects.steps)
}

// Without the API, the keys are in the log and in the status.
func TestAnnounceWithoutAPI(t *testing.T) {
	var log bytes.Buffer
	d, err := newDaemon(Config{Log: &log, Below: []settings.Layer{{Source: "test", Values: map[string]string{
		"node": "n", "manifests": t.TempDir(), "wireguard": "true", "wireguard-key-lifetime": "24h",
		"wireguard-dir": "/keys", "wireguard-mtu": "1400", "wireguard-host-encryption": "true",
		"wireguard-unencrypted-hosts": "192.0.2.1",
	}}}})
	require.NoError(t, err)
	require.Nil(t, d.wireguardStatus())
	cfg := d.wireguardConfig(d.local.Settings)
	cfg.Announce([]policy.WireguardKey{
		{PublicKey: "one", Port: 51820}, {PublicKey: "two", Port: 51821, Rotating: true},
	})
	require.Contains(t, log.String(), "announce these WireGuard keys in the Node resource")
	require.Contains(t, log.String(), "keys=one:51820,two:51821:rotating")
	require.Equal(t, &api.Wireguard{Keys: []string{"one:51820", "two:51821:rotating"}}, d.wireguardStatus())

	cfg.Announce = nil
	require.Equal(t, &wireguard.Config{
		Devices: d.local.WireguardDevices(), MTU: 1400, KeyLifetime: 24 * time.Hour, HostEncryption: true,
		UnencryptedHosts: d.local.WireguardUnencryptedPrefixes(),
	}, cfg)
	require.Len(t, cfg.Devices, 2)
	require.Len(t, cfg.UnencryptedHosts, 1)
	require.Nil(t, d.wireguardConfig(settings.Defaults()))
}
