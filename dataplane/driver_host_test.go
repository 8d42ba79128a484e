// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

var hostKey = policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}

func addHost(s dptest.State) dptest.State {
	s.HostEndpoints[hostKey] = &dataplane.HostEndpoint{Interface: "eth0", Ingress: []dataplane.TierPolicies{
		{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{policyKey("p")}},
	}}
	return s
}

// While the state of the first dataplane is unknown, the next one gets no host endpoint.
func TestDriverHoldsHostEndpointsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		want := addHost(world("a"))
		r.fail("policy", errBoom)
		r.send(want)
		require.Empty(t, r.state("routes").HostEndpoints)
		r.fail("policy", nil)
		time.Sleep(time.Minute)
		require.NoError(t, r.driver.Status().LastError)
		for _, name := range r.names {
			require.Equal(t, want.String(), r.state(name).String(), name)
		}

		// A known one keeps its references, and is removed at once.
		gone := world("a")
		r.fail("policy", errBoom)
		r.send(gone)
		require.Empty(t, r.state("routes").HostEndpoints)
		r.fail("policy", nil)
		time.Sleep(time.Minute)
		for _, name := range r.names {
			require.Equal(t, gone.String(), r.state(name).String(), name)
		}
	})
}

// A host endpoint at fault delays no workload.
func TestDriverFaultOfHostEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		r.send(addHost(world()))
		r.fail("policy", objectError(hostKey))
		r.send(addHost(world("a")))
		require.NoError(t, r.driver.WaitProgrammed(t.Context(), endpointKey("a")))
		require.Contains(t, r.state("routes").Endpoints, endpointKey("a"))
		require.Error(t, r.driver.Status().LastError)
		r.fail("policy", nil)
		time.Sleep(time.Minute)
		require.NoError(t, r.driver.Status().LastError)
	})
}

// A host endpoint at fault, by itself or by a policy that it refers to, shows in Status. The later
// dataplane keeps the host endpoint's former interface, and refers to no removed object.
func TestDriverHostEndpointAtFaultKeepsItsInterface(t *testing.T) {
	for _, at := range []policy.Key{hostKey, policyKey("q")} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			defer r.done()
			r.send(addHost(world("a")))
			require.NoError(t, r.driver.WaitProgrammed(t.Context(), hostKey))
			next := addHost(world())
			addPolicy(next, "q")
			delete(next.Policies, policyKey("p"))
			host := next.HostEndpoints[hostKey]
			host.Interface = "eth1"
			host.Ingress[0].Policies = []policy.Key{policyKey("q")}
			r.fail("policy", objectError(at))
			r.send(next)
			status := r.driver.Status().Endpoints[hostKey]
			require.Equal(t, dataplane.EndpointFailed, status.State)
			require.ErrorIs(t, status.Err, errBoom)
			require.Equal(t, uint64(2), status.Generation)
			require.Equal(t, "eth0", r.state("routes").HostEndpoints[hostKey].Interface)
			require.NotContains(t, r.state("routes").Policies, policyKey("p"))

			r.fail("policy", nil)
			require.NoError(t, r.driver.WaitProgrammed(t.Context(), hostKey))
			require.Equal(t, next.String(), r.state("routes").String())
			r.send(world())
			require.NotContains(t, r.driver.Status().Endpoints, hostKey)
		})
	}
}

// A new host endpoint at fault is withheld, and dropped if it is removed before the later dataplane
// got it.
func TestDriverNewHostEndpointAtFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		r.fail("policy", objectError(hostKey))
		r.send(addHost(world()))
		require.True(t, r.driver.Status().InSync)
		require.Empty(t, r.state("routes").HostEndpoints)
		r.calls()
		r.fail("policy", nil)
		r.send(world())
		require.Equal(t, []string{"policy apply", "  remove host endpoint HostEndpoint/h"}, r.calls(),
			"routes never received it")
	})
}
