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

// If a policy cannot be encoded, its endpoint fails. All clients of the endpoint deny everything,
// also clients that connect later. Other endpoints are served. Once the policy is valid, this
// endpoint is served, too.
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
		"port": func(s dptest.State) {
			spoilRule(s, func(r *dataplane.Rule) { r.Source.Ports = []policy.Port{{}} })
		},
		"range of ports": func(s dptest.State) {
			spoilRule(s, func(r *dataplane.Rule) { r.Source.NotPorts = []policy.Port{{First: 81, Last: 80}} })
		},
		"DSCP": func(s dptest.State) {
			spoilRule(s, func(r *dataplane.Rule) { r.NotDSCP = []policy.DSCP{64} })
		},
		"host bits": func(s dptest.State) {
			net := netip.MustParsePrefix("10.0.0.1/8")
			spoilRule(s, func(r *dataplane.Rule) { r.Source.Nets = []netip.Prefix{net} })
		},
		"name of a set": func(s dptest.State) {
			spoilRule(s, func(r *dataplane.Rule) { r.Source.NotSets = []dataplane.IPSetID{""} })
		},
		"endpoint": func(s dptest.State) {
			changed := *e
			changed.Ingress = []dataplane.TierPolicies{{Tier: "default", DefaultAction: "Maybe"}}
			s.Endpoints[key("a")] = &changed
		},
		"set": func(s dptest.State) {
			s.Sets["s:a"] = dptest.Set{Type: dataplane.IPSetNets, Members: append(list(0, 3), dataplane.Member{})}
		},
		"host bits of a member": func(s dptest.State) {
			m := dataplane.Member{Prefix: netip.MustParsePrefix("99.0.0.1/8")}
			s.Sets["s:a"] = dptest.Set{Type: dataplane.IPSetNets, Members: append(list(0, 3), m)}
		},
		"protocol of a member": func(s dptest.State) {
			m := dataplane.Member{Prefix: netip.MustParsePrefix("99.0.0.1/32"), Port: 80}
			s.Sets["s:a"] = dptest.Set{Type: dataplane.IPSetPorts, Members: []dataplane.Member{m}}
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
			// Clients that were not connected deny everything too, and so do those of a server that
			// starts with that policy.
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

// spoilRule changes the rule of the policy of the first endpoint.
func spoilRule(s dptest.State, change func(*dataplane.Rule)) {
	r := dataplane.Rule{Action: policy.Allow, Protocol: policy.ProtocolTCP}
	change(&r)
	s.Policies[policyKey("a")] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{r}}
}

// S20: a staged policy never decides. So its endpoint is served even if the policy, or one of its
// sets, cannot be encoded. Clients get the policy without rules, and with its rules once they are
// valid.
func TestStagedPolicyThatCannotBeSent(t *testing.T) {
	good, staged := world(3, "a", "staged"), policy.Key{Kind: policy.KindStagedPolicy, Namespace: "n", Name: "staged"}
	delete(good.Endpoints, key("staged"))
	tier := &good.Endpoints[key("a")].Ingress[0]
	tier.Policies = append(tier.Policies, staged)
	good.Policies[staged] = good.Policies[policyKey("staged")]
	good.Policies[staged].Staged = true
	delete(good.Policies, policyKey("staged"))
	member := dataplane.Member{Prefix: netip.MustParsePrefix("99.0.0.1/8")}
	for name, spoil := range map[string]func(s dptest.State){
		"policy": func(s dptest.State) {
			rules := []dataplane.Rule{{Action: "Maybe", Source: dataplane.Match{Sets: []dataplane.IPSetID{"s:staged"}}}}
			s.Policies[staged] = &dataplane.Policy{Tier: "default", Staged: true, Egress: rules}
		},
		"set": func(s dptest.State) {
			s.Sets["s:staged"] = dptest.Set{Members: append(list(1, 3), member)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, path := serve(t, policysync.ServerConfig{})
			state := apply(t, server, dptest.NewState(), good)
			r, client := subscribe(t, path(key("a"))), watch(t, path(key("a")))
			r.until(closure(good, key("a")))
			client.until(t, closure(good, key("a")))
			bad := good.Clone()
			spoil(bad)
			want := closure(good, key("a"))
			want.Policies[staged] = &dataplane.Policy{Tier: "default", Staged: true}
			delete(want.Sets, "s:staged")
			for range 2 {
				state = apply(t, server, state, bad)
				r.until(want)
				subscribe(t, path(key("a"))).until(want)
				client.until(t, want)
				state = apply(t, server, state, good)
				r.until(closure(good, key("a")))
				client.until(t, closure(good, key("a")))
			}
			require.Equal(t, 1, r.snapshots)
		})
	}
}

// requireFailed checks that an error is only about the first endpoint.
func requireFailed(t *testing.T, err error) {
	t.Helper()
	objects, general := dataplane.ApplyErrors(err)
	require.False(t, general)
	require.Len(t, objects, 1)
	require.ErrorContains(t, objects[key("a")], "policysync: serve WorkloadEndpoint/n/a: its policy cannot be sent: ")
}
