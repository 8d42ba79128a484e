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

// While the first state of a dataplane is in doubt, the next one is told of no host endpoint either.
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

		// One that is known goes on with what it refers to, and goes at once.
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

// A host endpoint at fault holds up no workload.
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
