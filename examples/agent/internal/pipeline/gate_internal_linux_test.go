// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// From the first complete batch on, BeforeWrite is called before each Apply and Resync. If it
// fails, nothing is written, and the call fails.
func TestRoutesAreWrittenAfterBeforeWrite(t *testing.T) {
	node := nstest.New(t)
	routing, err := routes.New(routes.Config{NetNS: node.FD()})
	require.NoError(t, err)
	var refusal error
	calls := 0
	gate := &gated{writer: routing, before: func() error {
		calls++
		return refusal
	}}
	nstest.NewWorkload(t, node, "way0", "10.0.0.1")
	endpoint := dataplane.Batch{Events: []dataplane.Event{&dataplane.EndpointUpdate{
		Key:      policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "web"},
		Endpoint: &dataplane.Endpoint{Interface: "way0", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}},
	}}}
	require.NoError(t, gate.Resync(t.Context()))
	require.NoError(t, gate.Apply(t.Context(), dataplane.Batch{}))
	require.Zero(t, calls, "nothing is written before the first complete batch")
	require.NoError(t, gate.Apply(t.Context(), dataplane.Batch{Events: []dataplane.Event{&dataplane.InSync{}}}))
	require.Equal(t, 1, calls)

	refusal = errors.New("no")
	require.ErrorIs(t, gate.Apply(t.Context(), endpoint), refusal)
	require.ErrorIs(t, gate.Resync(t.Context()), refusal)
	plan, err := routing.PlanTeardown(t.Context())
	require.NoError(t, err)
	require.NotContains(t, plan, "way0")
	refusal = nil
	require.NoError(t, gate.Apply(t.Context(), endpoint))
	plan, err = routing.PlanTeardown(t.Context())
	require.NoError(t, err)
	require.Contains(t, plan, "ip route del 10.0.0.1/32 dev way0")
	require.Equal(t, 4, calls)
	require.NoError(t, routing.Close())
}
