// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// TestOutputDNATWhereNeeded: the base chain that evaluates translated packets of the host exists
// only if a rule may deny them (S35, S104, S170). All forwarded packets traverse it.
func TestOutputDNATWhereNeeded(t *testing.T) {
	up := func() dptest.State {
		s := dptest.NewState()
		for _, name := range []string{"way1", "way2"} {
			s.Endpoints[nfttest.EndpointKey(name)] = &dataplane.Endpoint{Interface: name}
		}
		s.InSync = true
		return s
	}
	down, unknownPolicy := up(), up()
	down.Endpoints[nfttest.EndpointKey("way1")].Down = true
	unknownPolicy.Endpoints[nfttest.EndpointKey("way1")].Profiles = []string{"none"}
	host := policy.Key{Kind: policy.KindHostEndpoint, Name: "eth0"}
	hosts := func(h dataplane.HostEndpoint) dptest.State {
		s := up()
		h.Interface = "eth0"
		s.HostEndpoints[host] = &h
		return s
	}
	tiers := []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny}}
	has := func(r *render.Renderer) bool {
		table, _ := r.Table()
		return strings.Contains(table.String(), "chain output-dnat {")
	}
	for _, c := range []struct {
		name   string
		action policy.HostAction
		state  dptest.State
		want   bool
	}{
		{"nothing", policy.HostAccept, up(), false},
		{"an endpoint is down", policy.HostAccept, down, true},
		{"an endpoint is at fault", policy.HostAccept, unknownPolicy, true},
		{"a host endpoint", policy.HostAccept, hosts(dataplane.HostEndpoint{}), true},
		{"a host endpoint with policy", policy.HostAccept, hosts(dataplane.HostEndpoint{Egress: tiers}), true},
		{"policy of workloads", policy.HostReturn, up(), true},
		{"no packets of the host", policy.HostDrop, up(), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := render.New(render.Config{Host: policy.HostConfig{HostToEndpointAction: c.action}})
			require.NoError(t, err)
			r.Update(nfttest.Transition(c.state))
			require.Equal(t, c.want, has(r))
			r.Update(dptest.Transition(c.state, up()))
			require.Equal(t, c.action != policy.HostAccept, has(r), "all endpoints are up")
			r.Update(dptest.Transition(up(), c.state))
			require.Equal(t, c.want, has(r), "again")
		})
	}
}
