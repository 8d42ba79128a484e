// SPDX-License-Identifier: Apache-2.0

package policysync_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/wire/policysync"
	"github.com/wayleave/wayleave/policy"
)

// A policy that has no form in a message fails its endpoint, whose clients deny everything, also those that connect
// later. Other endpoints are served, and so is that one once its policy is in order.
func TestEndpointWhosePolicyCannotBeSent(t *testing.T) {
	good := world(3, "a", "b")
	e := good.Endpoints[key("a")]
	e.Profiles = []string{"x"}
	good.Profiles["x"] = &dataplane.Profile{}
	for name, spoil := range map[string]func(s dptest.State){
		"policy": func(s dptest.State) {
			noType := policy.HeaderMatch{ICMP: &policy.ICMP{}}
			s.Policies[policyKey("a")] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
				{Action: policy.Deny, Protocol: policy.ProtocolICMP, HeaderMatch: noType},
			}}
		},
		"text": func(s dptest.State) {
			s.Policies[policyKey("a")] = &dataplane.Policy{Tier: "\xff"}
		},
		"profile": func(s dptest.State) {
			s.Profiles["x"] = &dataplane.Profile{Ingress: []dataplane.Rule{{IPVersion: 5, Action: policy.Deny}}}
		},
		"endpoint": func(s dptest.State) {
			changed := *e
			changed.Ingress = []dataplane.TierPolicies{{Tier: "default", DefaultAction: "Maybe"}}
			s.Endpoints[key("a")] = &changed
		},
		"set": func(s dptest.State) {
			s.Sets["s:a"] = dptest.Set{Type: dataplane.IPSetNets, Members: append(list(0, 3), dataplane.Member{})}
		},
		"type of a member": func(s dptest.State) {
			m := dataplane.Member{Prefix: netip.MustParsePrefix("99.0.0.1/32"), Protocol: policy.ProtocolTCP, Port: 80}
			s.Sets["s:a"] = dptest.Set{Type: dataplane.IPSetNets, Members: append(list(0, 3), m)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, path := serve(t, policysync.ServerConfig{})
			state := apply(t, server, dptest.NewState(), good)
			r, client, other := subscribe(t, path(key("a"))), watch(t, path(key("a"))), subscribe(t, path(key("b")))
			r.until(closure(good, key("a")))
			client.until(t, closure(good, key("a")))
			other.until(closure(good, key("b")))

			bad := good.Clone()
			spoil(bad)
			batch := dptest.Transition(state, bad)
			for range 2 { // a retry changes nothing
				requireFailed(t, server.Apply(t.Context(), batch))
				requireFailed(t, server.Resync(t.Context()))
			}
			require.Equal(t, codes.FailedPrecondition, status.Code(r.read()))
			client.until(t, dptest.NewState())
			requireDenied(t, client.client.State(), "cannot be sent")
			// Clients that were not connected learn of it, and so do those of a server that begins with that policy.
			require.Equal(t, codes.FailedPrecondition, status.Code(end(t, path(key("a")))))
			restarted, restartedPath := serve(t, policysync.ServerConfig{})
			requireFailed(t, restarted.Apply(t.Context(), dptest.Transition(dptest.NewState(), bad)))
			late := watch(t, restartedPath(key("a")))
			late.until(t, dptest.NewState())
			require.Contains(t, late.client.State().Ingress(dptest.Packet{}, 0).By, "cannot be sent")
			subscribe(t, restartedPath(key("b"))).until(closure(good, key("b")))

			next := bad.Clone()
			next.Policies[policyKey("b")] = &dataplane.Policy{Tier: "default"}
			requireFailed(t, server.Apply(t.Context(), dptest.Transition(bad, next)))
			other.until(closure(next, key("b")))

			apply(t, server, next, good)
			client.until(t, closure(good, key("a")))
		})
	}
}

// requireFailed checks that an error is that of the first endpoint alone.
func requireFailed(t *testing.T, err error) {
	t.Helper()
	objects, general := dataplane.ApplyErrors(err)
	require.False(t, general)
	require.Len(t, objects, 1)
	require.ErrorContains(t, objects[key("a")], "policysync: serve WorkloadEndpoint/n/a: its policy cannot be sent: ")
}
