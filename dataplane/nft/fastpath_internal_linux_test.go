// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// Each change that affects established connections starts a grace period of its own. Other changes do not. Nothing is
// installed while a change is not programmed.
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
