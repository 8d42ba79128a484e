// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
)

func TestOnlyNetwork(t *testing.T) {
	network := []dataplane.Event{
		&dataplane.RouteUpdate{}, &dataplane.RouteRemove{}, &dataplane.TunnelUpdate{}, &dataplane.TunnelRemove{},
		&dataplane.NodeUpdate{}, &dataplane.NodeRemove{}, &dataplane.PoolUpdate{}, &dataplane.PoolRemove{},
		&dataplane.ServiceUpdate{}, &dataplane.ServiceRemove{}, &dataplane.NamespaceUpdate{},
		&dataplane.NamespaceRemove{}, &dataplane.ServiceAccountUpdate{}, &dataplane.ServiceAccountRemove{},
	}
	require.True(t, dataplane.Batch{Events: network}.OnlyNetwork())
	require.False(t, dataplane.Batch{}.OnlyNetwork(), "it has none of any kind")
	for _, e := range []dataplane.Event{
		&dataplane.IPSetUpdate{}, &dataplane.IPSetDelta{}, &dataplane.IPSetRemove{}, &dataplane.PolicyUpdate{},
		&dataplane.PolicyRemove{}, &dataplane.ProfileUpdate{}, &dataplane.ProfileRemove{}, &dataplane.EndpointUpdate{},
		&dataplane.EndpointRemove{}, &dataplane.HostEndpointUpdate{}, &dataplane.HostEndpointRemove{},
		&dataplane.InSync{},
	} {
		require.False(t, dataplane.Batch{Events: append(network[:1:1], e)}.OnlyNetwork(), "%T", e)
	}
}
