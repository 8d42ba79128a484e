// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// TestCacheForgetsInterfaces: the cache has no interfaces of endpoints that are gone.
func TestCacheForgetsInterfaces(t *testing.T) {
	d, err := New(Config{NetNS: nstest.New(t).FD()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	require.NoError(t, d.Apply(t.Context(), dataplane.Batch{Events: []dataplane.Event{&dataplane.InSync{}}}))
	for _, count := range []int{1, 100} {
		var come, left []dataplane.Event
		for i := range count {
			key := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "n", Name: fmt.Sprint(i)}
			come = append(come, &dataplane.EndpointUpdate{Key: key, Endpoint: &dataplane.Endpoint{
				Interface: fmt.Sprint("way", i),
			}})
			left = append(left, &dataplane.EndpointRemove{Key: key})
		}
		require.NoError(t, d.Apply(t.Context(), dataplane.Batch{Events: come}))
		require.Len(t, d.observed.masters, count)
		require.Empty(t, d.observed.missing)
		require.NoError(t, d.Apply(t.Context(), dataplane.Batch{Events: left}))
		require.Empty(t, d.observed.masters)
		require.Empty(t, d.observed.missing)
		require.Nil(t, d.observed.all)
	}
}
