// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
	"github.com/wayleave/wayleave/dataplane/felix/internal/translate"
	"github.com/wayleave/wayleave/policy"
)

// denyProfile is sent before the first workload endpoint.
const (
	denyProfile = "active_profile_update:{id:{name:wayleave/deny-all}," +
		"profile:{inbound_rules:[{action:deny}],outbound_rules:[{action:deny}]}}"
	// denyLast are the profiles of an endpoint that has no others.
	denyLast = "profile_ids:[wayleave/deny-all]"
)

// tierText returns how the tiers of an endpoint are sent.
func tierText(t *testing.T, dialect translate.Dialect, e *dataplane.Endpoint, policies ...string) (string, []error) {
	tr := translate.New(dialect)
	var events []dataplane.Event
	for _, text := range policies { // tier/name, with an exclamation mark if it is staged
		staged := strings.HasPrefix(text, "!")
		tier, name, _ := strings.Cut(strings.TrimPrefix(text, "!"), "/")
		events = append(events, &dataplane.PolicyUpdate{
			Key: policyKey("", name), Policy: &dataplane.Policy{Tier: tier, Staged: staged},
		})
	}
	sent(tr, events...)
	e.Interface = "i"
	key := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "n", Name: "e"}
	list := sent(tr, &dataplane.EndpointUpdate{Key: key, Endpoint: e})
	require.Len(t, list, 2)
	require.Equal(t, denyProfile, list[0])
	text := strings.TrimPrefix(list[1],
		"workload_endpoint_update:{id:{orchestrator_id:k8s,workload_id:n/e,endpoint_id:eth0},endpoint:{state:")
	return strings.TrimSuffix(strings.ReplaceAll(text, ",name:i", ""), "}}"), tr.Faults()
}

func tier(name string, action policy.Action, policies ...string) dataplane.TierPolicies {
	t := dataplane.TierPolicies{Tier: name, DefaultAction: action}
	for _, p := range policies {
		t.Policies = append(t.Policies, policyKey("", p))
	}
	return t
}

// The tiers of both directions are merged into one list, in the order of each direction. Policies
// are base64 here.
func TestTiersAreMerged(t *testing.T) {
	const p, q, r = "cA==", "cQ==", "cg==" // p, q and r
	list := func(tiers ...dataplane.TierPolicies) []dataplane.TierPolicies { return tiers }
	all := []string{"a/p", "b/q", "a/r", "!a/s"}
	for name, tt := range map[string]struct {
		in, out []dataplane.TierPolicies
		want    string
	}{
		"one direction": {
			list(tier("a", policy.Deny, "p", "r")), nil,
			"{name:a,ingress_policies:[" + p + "," + r + "],default_action:Deny}",
		},
		"both directions": {
			list(tier("a", policy.Pass, "p")), list(tier("a", policy.Pass, "r")),
			"{name:a,ingress_policies:[" + p + "],egress_policies:[" + r + "],default_action:Pass}",
		},
		"different tiers": {
			list(tier("a", policy.Deny, "p")), list(tier("b", policy.Deny, "q")),
			"{name:a,ingress_policies:[" + p + "],default_action:Deny}," +
				"{name:b,egress_policies:[" + q + "],default_action:Deny}",
		},
		"one more before": {
			list(tier("b", policy.Deny, "q")), list(tier("a", policy.Deny, "p"), tier("b", policy.Deny, "q")),
			"{name:a,egress_policies:[" + p + "],default_action:Deny}," +
				"{name:b,ingress_policies:[" + q + "],egress_policies:[" + q + "],default_action:Deny}",
		},
		"the other order": {
			list(tier("a", policy.Deny, "p"), tier("b", policy.Deny, "q")),
			list(tier("b", policy.Deny, "q"), tier("a", policy.Deny, "p")),
			"{name:b,egress_policies:[" + q + "],default_action:Deny}," +
				"{name:a,ingress_policies:[" + p + "],egress_policies:[" + p + "],default_action:Deny}," +
				"{name:b,ingress_policies:[" + q + "],default_action:Deny}",
		},
		"another default action": {
			list(tier("a", policy.Pass, "p")), list(tier("a", policy.Deny, "p")),
			"{name:a,ingress_policies:[" + p + "],default_action:Pass}," +
				"{name:a,egress_policies:[" + p + "],default_action:Deny}",
		},
		"staged policies": {
			list(tier("a", policy.Deny, "s", "p")), list(tier("a", policy.Deny, "s")),
			"{name:a,ingress_policies:[" + p + "],default_action:Deny}",
		},
	} {
		text, faults := tierText(t, translate.Tiers, &dataplane.Endpoint{Ingress: tt.in, Egress: tt.out}, all...)
		require.Empty(t, faults, name)
		require.Equal(t, "active,"+denyLast+",tiers:["+tt.want+"]", text, name)
	}
	text, _ := tierText(t, translate.Tiers, &dataplane.Endpoint{Ingress: list(tier("a", policy.Deny, "s"))}, all...)
	require.Equal(t, "active,"+denyLast, text, "a tier of staged policies decides nothing")
	text, _ = tierText(t, translate.Kinds, &dataplane.Endpoint{Ingress: list(tier("a", policy.Deny, "p"))}, all...)
	const id = "EgFwIhNHbG9iYWxOZXR3b3JrUG9saWN5" // PolicyID{name: p, kind: GlobalNetworkPolicy}
	require.Equal(t, "active,"+denyLast+",tiers:[{name:a,ingress_policies:["+id+"],default_action:Deny}]", text)
}

// The last profile of a workload endpoint denies all packets. Without it, a driver would allow all
// packets of an endpoint without policies and profiles (S33), and those in a direction without
// policies (S13).
func TestLastProfileDenies(t *testing.T) {
	text, _ := tierText(t, translate.Tiers, &dataplane.Endpoint{})
	require.Equal(t, "active,"+denyLast, text)
	text, _ = tierText(t, translate.Tiers, &dataplane.Endpoint{
		Ingress: []dataplane.TierPolicies{tier("a", policy.Deny, "p")},
	}, "a/p")
	require.Equal(t, "active,"+denyLast+",tiers:[{name:a,ingress_policies:[cA==],default_action:Deny}]", text)
	e := &dataplane.Endpoint{Profiles: append(make([]string, 0, 3), "x", "y")}
	text, _ = tierText(t, translate.Kinds, e)
	require.Equal(t, "active,profile_ids:[x,y,wayleave/deny-all]", text)
	require.Equal(t, []string{"x", "y", ""}, e.Profiles[:3], "the event is not changed")
}

// An endpoint that must be down (S35) has no policies and profiles that allow: a driver may ignore
// the state.
func TestDownEndpointIsClosed(t *testing.T) {
	tiers := []dataplane.TierPolicies{tier("a", policy.Pass, "p")}
	text, faults := tierText(t, translate.Tiers, &dataplane.Endpoint{
		Down: true, Profiles: []string{"x"}, Ingress: tiers, Egress: tiers,
	}, "a/p")
	require.Empty(t, faults)
	require.Equal(t, "inactive,"+denyLast, text)
}

// Each driver gets the profile that denies once: before the first workload endpoint.
func TestDenyProfileIsSentOnce(t *testing.T) {
	tr := translate.New(translate.Tiers)
	isDeny := func(list []string) (at []int) {
		for i, text := range list {
			if text == denyProfile {
				at = append(at, i)
			}
		}
		return at
	}
	key := func(name string) policy.Key { return policy.Key{Kind: policy.KindWorkloadEndpoint, Name: name} }
	add := func(name string) dataplane.Event {
		return &dataplane.EndpointUpdate{Key: key(name), Endpoint: &dataplane.Endpoint{Interface: name}}
	}
	require.Empty(t, isDeny(snapshot(tr)), "a state without endpoints")
	require.Equal(t, []int{0}, isDeny(sent(tr, add("a"), add("b"))))
	require.Empty(t, isDeny(sent(tr, &dataplane.EndpointRemove{Key: key("a")},
		&dataplane.EndpointRemove{Key: key("b")})))
	require.Empty(t, isDeny(sent(tr, add("c"), &dataplane.ProfileUpdate{Name: "x", Profile: &dataplane.Profile{}})))
	for range 2 {
		require.Equal(t, []int{1}, isDeny(snapshot(tr)), "after the profile x")
	}
	require.Empty(t, isDeny(sent(tr, add("d"))))
}

// An endpoint with a policy that the driver cannot find is closed, and reported.
func TestEndpointWithUnknownPolicy(t *testing.T) {
	for _, dialect := range []translate.Dialect{translate.Tiers, translate.Kinds} {
		e := &dataplane.Endpoint{
			Profiles: []string{"x"}, Ingress: []dataplane.TierPolicies{tier("a", policy.Pass, "gone")},
		}
		text, faults := tierText(t, dialect, e, "a/p")
		require.Equal(t, "inactive,"+denyLast, text)
		require.Len(t, faults, 1)
		require.ErrorContains(t, faults[0], "felix: translate WorkloadEndpoint/n/e: Policy/gone does not exist")
	}
	e := &dataplane.Endpoint{Ingress: []dataplane.TierPolicies{tier("b", policy.Pass, "p")}}
	text, faults := tierText(t, translate.Tiers, e, "a/p")
	require.Equal(t, "inactive,"+denyLast, text)
	require.ErrorContains(t, faults[0], "Policy/p is in tier a, not in b")
	_, faults = tierText(t, translate.Kinds, e, "a/p")
	require.Empty(t, faults)

	tr := translate.New(translate.Tiers)
	key := policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}
	require.Equal(t, []string{
		"host_endpoint_update:{id:{endpoint_id:h},endpoint:{name:eth0,forward_tiers:" +
			"[{name:a,ingress_policies:[Z29uZQ==],default_action:Deny}]}}",
	}, sent(tr, &dataplane.HostEndpointUpdate{Key: key, HostEndpoint: &dataplane.HostEndpoint{
		Interface: "eth0", ForwardIngress: []dataplane.TierPolicies{tier("a", policy.Pass, "gone")},
	}}))
	require.Len(t, tr.Faults(), 1)
}

// All fields of endpoints are sent, and identities are reversible.
func TestEndpoints(t *testing.T) {
	tr := translate.New(translate.Tiers)
	nat := func(external, internal string) policy.IPNAT {
		return policy.IPNAT{ExternalIP: netip.MustParseAddr(external), InternalIP: netip.MustParseAddr(internal)}
	}
	key := policy.Key{Kind: policy.KindWorkloadEndpoint, Name: "e"}
	require.Equal(t, []string{
		denyProfile,
		"workload_endpoint_update:{id:{orchestrator_id:k8s,workload_id:e,endpoint_id:eth0}," +
			"endpoint:{state:active,name:i,mac:02:00:00:00:00:01,profile_ids:[x,y,wayleave/deny-all]," +
			"ipv4_nets:[10.0.0.1/32],ipv6_nets:[fd00::1/128]," +
			"ipv4_nat:[{ext_ip:1.1.1.1,int_ip:10.0.0.1}],ipv6_nat:[{ext_ip:fd01::1,int_ip:fd00::1}]," +
			"allow_spoofed_source_prefixes:[10.1.0.0/16]}}",
	}, sent(tr, &dataplane.EndpointUpdate{Key: key, Endpoint: &dataplane.Endpoint{
		Interface: "i", MAC: "02:00:00:00:00:01", Profiles: []string{"x", "y"},
		Addresses:      []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
		NATs:           []policy.IPNAT{nat("1.1.1.1", "10.0.0.1"), nat("fd01::1", "fd00::1")},
		AllowedSources: nets("10.1.0.0/16"),
	}}))
	host := policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}
	sent(tr, &dataplane.PolicyUpdate{Key: policyKey("", "p"), Policy: &dataplane.Policy{Tier: "a"}})
	list := []dataplane.TierPolicies{tier("a", policy.Pass, "p")}
	const info = "{name:a,ingress_policies:[cA==],default_action:Pass}"
	require.Equal(t, []string{
		"host_endpoint_update:{id:{endpoint_id:h},endpoint:{name:*,profile_ids:[x],tiers:[" + info + "]," +
			"expected_ipv4_addrs:[10.0.0.1],expected_ipv6_addrs:[fd00::1]," +
			"untracked_tiers:[{name:a,egress_policies:[cA==],default_action:Pass}]," +
			"pre_dnat_tiers:[" + info + "],forward_tiers:[" + info + "]}}",
	}, sent(tr, &dataplane.HostEndpointUpdate{Key: host, HostEndpoint: &dataplane.HostEndpoint{
		Interface: policy.AllInterfaces, Profiles: []string{"x"},
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
		Ingress:   list, ForwardIngress: list, UntrackedEgress: list, PreDNATIngress: list,
	}}))
	require.Equal(t, []string{
		"workload_endpoint_remove:{id:{orchestrator_id:k8s,workload_id:e,endpoint_id:eth0}}",
		"host_endpoint_remove:{id:{endpoint_id:h}}",
	}, sent(tr, &dataplane.EndpointRemove{Key: key}, &dataplane.HostEndpointRemove{Key: host}))
	for id, want := range map[string]policy.Key{
		"n/e": {Kind: policy.KindWorkloadEndpoint, Namespace: "n", Name: "e"}, "e": key,
	} {
		got, ok := translate.Workload(&felixpb.WorkloadEndpointID{
			OrchestratorId: "k8s", WorkloadId: id, EndpointId: "eth0",
		})
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	_, ok := translate.Workload(nil)
	require.False(t, ok)
	require.Equal(t, host, translate.Host(&felixpb.HostEndpointID{EndpointId: "h"}))
}
