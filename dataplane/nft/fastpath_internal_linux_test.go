// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// Each change that affects established connections starts a grace period of its own. Other changes
// do not. Nothing is installed while a change is not programmed.
func TestFastPathWaitsAfterEachChange(t *testing.T) {
	d, err := New(Config{NetNS: nstest.New(t).FD(), Flowtable: FlowtableConfig{Enabled: true}})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	apply := func(ctx context.Context, events ...dataplane.Event) (<-chan struct{}, error) {
		err := d.ApplyVisible(ctx, dataplane.Batch{Events: events})
		return d.fastPath.due(true), err
	}
	must := func(events ...dataplane.Event) <-chan struct{} {
		t.Helper()
		scheduled, err := apply(t.Context(), events...)
		require.NoError(t, err)
		require.NotNil(t, scheduled)
		return scheduled
	}
	all := &dataplane.ProfileUpdate{Name: "all", Profile: &dataplane.Profile{}}
	first := must(all, nfttest.EndpointUpdate("web", "way1", nil, nil, "10.0.0.1"), &dataplane.InSync{})
	second := must(nfttest.EndpointUpdate("db", "way2", nil, nil, "10.0.0.2"))
	require.NotEqual(t, first, second)
	require.Equal(t, second, must(&dataplane.ProfileUpdate{Name: "all", Profile: &dataplane.Profile{
		Ingress: []dataplane.Rule{{ID: "in", Action: policy.Allow}},
	}}))
	done, cancel := context.WithCancel(t.Context())
	cancel()
	scheduled, err := apply(done, nfttest.EndpointUpdate("db", "way3", nil, nil, "10.0.0.2"))
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, scheduled)
	require.NotEqual(t, second, must(), "the change is programmed now")
}

// newTestFastPath returns a fastPath without interfaces. follow returns the existing ones.
func newTestFastPath(t *testing.T, follow func([]string) (map[string]int, error)) *fastPath {
	t.Helper()
	f, err := newFastPath(Config{
		NetNS: nstest.New(t).FD(), Logger: slog.New(slog.DiscardHandler),
		Flowtable: FlowtableConfig{Enabled: true, Uplinks: []string{"up0"}},
	}, follow)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.close()) })
	return f
}

// An interface that stays missing delays only the attempts to add it: after a change, the table is
// installed without a delay. A change ends the wait for an earlier installation.
func TestMissingInterfaceDoesNotDelayChanges(t *testing.T) {
	f := newTestFastPath(t, func([]string) (map[string]int, error) { return nil, nil })
	synctest.Test(t, func(t *testing.T) {
		defer f.cancel()
		began := time.Now()
		require.NoError(t, f.delete())
		f.schedule()
		for range 10 {
			require.NoError(t, f.install(t.Context(), nil))
		}
		require.Greater(t, time.Since(began), 3*time.Minute, "retries are rare")
		retry := f.due(true)
		began = time.Now()
		require.NoError(t, f.delete())
		<-retry
		f.schedule()
		require.NotNil(t, f.due(false), "Finish waits for it")
		require.NoError(t, f.install(t.Context(), nil))
		require.Zero(t, time.Since(began))
	})
}

// If an interface is removed during an installation, that is not reported as a missing feature of
// the kernel.
func TestInterfaceRemovedDuringInstallation(t *testing.T) {
	calls := 0
	f := newTestFastPath(t, func([]string) (map[string]int, error) {
		if calls++; calls%2 == 0 {
			return nil, nil // the interface is removed before the second call
		}
		return map[string]int{"up0": 7}, nil
	})
	require.NoError(t, f.delete())
	f.schedule()
	own := map[string][]netip.Addr{"up0": {netip.MustParseAddr("10.0.0.1")}}
	require.NoError(t, f.install(t.Context(), own))
	require.Empty(t, f.failure)
	require.True(t, f.scheduled.retry)

	f.follow = func([]string) (map[string]int, error) {
		return map[string]int{"up0": 7}, nil // the interface does not exist, so the kernel refuses it
	}
	complete, err := f.tryInstall(own)
	require.False(t, complete)
	var missing *dataplane.FeatureError
	require.ErrorAs(t, err, &missing)
}
