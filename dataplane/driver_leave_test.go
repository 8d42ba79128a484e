// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/dptest"
)

// TestDriverBlocksEndpointWhileRemovalFails: while a route may still lead to an endpoint, the
// endpoint is blocked in all dataplanes before the one that fails.
func TestDriverBlocksEndpointWhileRemovalFails(t *testing.T) {
	for name, fault := range map[string]error{"general": errBoom, "of the endpoint": objectError(endpointKey("a"))} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRigOf(t, "policy", "between", "routes")
				defer r.done()
				r.send(world("a", "b"))
				gone := world("b")
				addPolicy(gone, "q")
				delete(gone.Policies, policyKey("p"))
				addEndpoint(gone, "b", "q", "if-b")
				r.fail("routes", fault)
				r.send(gone)
				for _, early := range []string{"policy", "between"} {
					state := r.state(early)
					require.NotContains(t, state.Policies, policyKey("p"), early)
					require.Contains(t, state.Endpoints, endpointKey("a"), early)
					require.True(t, state.Endpoints[endpointKey("a")].Down, early)
					require.Empty(t, state.Endpoints[endpointKey("a")].Ingress, early)
				}
				require.Error(t, r.driver.Status().LastError)

				r.fail("routes", nil)
				time.Sleep(time.Second)
				for _, name := range r.names {
					require.Equal(t, gone.String(), r.state(name).String(), name)
				}
				require.NoError(t, r.driver.Status().LastError)
			})
		})
	}
}

// TestDriverEndpointIsAddedAgainAfterFailedRemoval: the endpoint is sent again while its removal
// fails.
func TestDriverEndpointIsAddedAgainAfterFailedRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		r.send(world("a"))
		r.fail("routes", errBoom)
		r.send(world())
		require.True(t, r.state("policy").Endpoints[endpointKey("a")].Down)
		again := world("a")
		again.Endpoints[endpointKey("a")].Interface = "if-new"
		r.send(again)
		require.Equal(t, "if-new", r.state("policy").Endpoints[endpointKey("a")].Interface)
		r.fail("routes", nil)
		require.NoError(t, r.driver.WaitProgrammed(t.Context(), endpointKey("a")))
		for _, name := range r.names {
			require.Equal(t, again.String(), r.state(name).String(), name)
		}
		r.send(dptest.State{InSync: true})
		require.Empty(t, r.state("policy").Endpoints)
	})
}
