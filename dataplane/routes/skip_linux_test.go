// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
)

// A batch of only network events is skipped, but failed changes are retried.
func TestNetworkEventsRetryFailedChanges(t *testing.T) {
	n := newNode(t, routes.Config{}, "cali1")
	network := dataplane.Batch{Events: []dataplane.Event{&dataplane.NodeUpdate{Node: &dataplane.Node{Name: "n"}}}}
	apply := func() error { return n.dp.Apply(t.Context(), network) }
	require.ErrorIs(t, n.apply(update("a", "cali1", mac, "10.0.0.1"), update("b", "late", mac, "10.0.0.2"), inSync),
		routes.ErrNoInterface)
	require.ErrorIs(t, apply(), routes.ErrNoInterface, "tried again")
	n.addLinks("late")
	n.ip("link set late up")
	require.NoError(t, apply())
	require.Equal(t, []string{"10.0.0.1 cali1 219", "10.0.0.2 late 219"}, n.routes("main"))
	require.Zero(t, testing.AllocsPerRun(10, func() {
		if apply() != nil {
			t.Fail()
		}
	}))

	// A change of an interface before such a batch is not lost.
	n.ip("link set late down")
	n.ip("link set late up")
	require.NoError(t, apply())
	n.must()
	require.Equal(t, []string{"10.0.0.1 cali1 219", "10.0.0.2 late 219"}, n.routes("main"))
}
