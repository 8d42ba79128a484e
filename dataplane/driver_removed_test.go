// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// waitRemoved starts to wait for the removal of an endpoint. The channel gets the
// result.
func (r *rig) waitRemoved(ctx context.Context, k policy.Key) <-chan error {
	result := make(chan error, 1)
	go func() { result <- r.driver.WaitRemoved(ctx, k) }()
	synctest.Wait()
	return result
}

// An endpoint is not removed before every dataplane has removed it, whatever the failure.
func TestDriverWaitRemoved(t *testing.T) {
	for name, fault := range map[string]error{"general": errBoom, "of the endpoint": objectError(endpointKey("a"))} {
		for _, at := range []string{"policy", "between", "routes"} {
			t.Run(name+" in "+at, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRigOf(t, "policy", "between", "routes")
					defer r.done()
					r.send(world("a", "b"))
					early := r.waitRemoved(t.Context(), endpointKey("a"))
					r.fail(at, fault)
					r.send(world("b"))
					limited, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					require.ErrorIs(t, r.driver.WaitRemoved(limited, endpointKey("a")), context.DeadlineExceeded)
					require.Empty(t, early)

					r.fail(at, nil)
					require.NoError(t, r.driver.WaitRemoved(t.Context(), endpointKey("a")))
					require.NoError(t, <-early)
					for _, name := range r.names {
						require.NotContains(t, r.state(name).Endpoints, endpointKey("a"), name)
					}
				})
			})
		}
	}
}

// WaitRemoved returns neither before the first complete state, nor while the removal is in the
// queue, nor if the endpoint is added again.
func TestDriverWaitRemovedWaitsForState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		never := r.waitRemoved(t.Context(), endpointKey("never"))
		require.Empty(t, never)
		r.send(world("a"))
		require.NoError(t, <-never)

		release := r.hold()
		r.send(world())
		gone := r.waitRemoved(t.Context(), endpointKey("a"))
		require.Empty(t, gone)
		r.send(world("a"))
		release()
		require.Empty(t, gone, "it was added again")
		r.send(world())
		require.NoError(t, <-gone)

		stopped := r.waitRemoved(t.Context(), endpointKey("b"))
		require.NoError(t, <-stopped)
		r.send(world("b"))
		stopped = r.waitRemoved(t.Context(), endpointKey("b"))
		r.stop()
		require.ErrorIs(t, <-stopped, dataplane.ErrStopped)
	})
}

// The same holds for host endpoints.
func TestDriverWaitRemovedOfHostEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		r.send(addHost(world()))
		require.NoError(t, r.driver.WaitProgrammed(t.Context(), hostKey))
		r.fail("policy", objectError(hostKey))
		r.send(world())
		gone := r.waitRemoved(t.Context(), hostKey)
		require.Empty(t, gone)
		r.fail("policy", nil)
		require.NoError(t, <-gone)
		require.Empty(t, r.state("policy").HostEndpoints)
	})
}
