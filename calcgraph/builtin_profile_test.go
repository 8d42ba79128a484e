// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// The built-in profile exists without a resource. A resource replaces it, and denies everything if
// it is invalid (S34).
func TestBuiltinProfile(t *testing.T) {
	graph, err := calcgraph.New(calcgraph.Config{Node: node})
	require.NoError(t, err)
	mirror := dptest.NewMirror()
	actions := func() (list []policy.Action) {
		require.NoError(t, mirror.Apply(t.Context(), graph.Flush()))
		p := mirror.State().Profiles[policy.DefaultAllowProfile]
		require.NotNil(t, p)
		for _, r := range append(p.Ingress, p.Egress...) {
			list = append(list, r.Action)
		}
		return list
	}
	u := endpoint("x", "10.0.0.1")
	u.Resource.(*policy.WorkloadEndpoint).Profiles = []string{policy.DefaultAllowProfile}
	graph.Update(u)
	graph.InSync()
	require.Equal(t, []policy.Action{policy.Allow, policy.Allow}, actions())
	own := &policy.Profile{Name: policy.DefaultAllowProfile, Ingress: []policy.Rule{{Action: policy.Deny}}}
	graph.Update(policy.Update{Key: own.Key(), Resource: own})
	require.Equal(t, []policy.Action{policy.Deny}, actions())
	invalid := &policy.Profile{Name: policy.DefaultAllowProfile, Ingress: []policy.Rule{{}}}
	graph.Update(policy.Update{Key: own.Key(), Resource: invalid})
	require.Equal(t, []policy.Action{policy.Deny, policy.Deny}, actions())
	graph.Update(policy.Update{Key: own.Key()})
	require.Equal(t, []policy.Action{policy.Allow, policy.Allow}, actions())
}
