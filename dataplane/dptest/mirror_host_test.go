// SPDX-License-Identifier: Apache-2.0

package dptest_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

var (
	hostKey    = policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}
	forwardKey = policy.Key{Kind: policy.KindPolicy, Name: "forward"}
	preDNATKey = policy.Key{Kind: policy.KindPolicy, Name: "pre-dnat"}
	rawKey     = policy.Key{Kind: policy.KindPolicy, Name: "raw"}
)

func tier(action policy.Action, keys ...policy.Key) []dataplane.TierPolicies {
	return []dataplane.TierPolicies{{Tier: "default", DefaultAction: action, Policies: keys}}
}

// host makes a host endpoint with a policy of each sort.
func host(change func(h *dataplane.HostEndpoint)) *dataplane.HostEndpointUpdate {
	h := &dataplane.HostEndpoint{
		Interface: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("192.168.0.1")}, Profiles: []string{"prof"},
		Ingress: tier(policy.Deny, forwardKey), ForwardIngress: tier(policy.Deny, forwardKey),
		UntrackedIngress: tier(policy.Pass, rawKey), PreDNATIngress: tier(policy.Pass, preDNATKey),
	}
	if change != nil {
		change(h)
	}
	return &dataplane.HostEndpointUpdate{Key: hostKey, HostEndpoint: h}
}

// hostPolicies are the policies that host refers to.
func hostPolicies() []dataplane.Event {
	return []dataplane.Event{
		&dataplane.PolicyUpdate{Key: forwardKey, Policy: &dataplane.Policy{Tier: "default", Forward: true}},
		&dataplane.PolicyUpdate{
			Key: preDNATKey, Policy: &dataplane.Policy{Tier: "default", Forward: true, PreDNAT: true},
		},
		&dataplane.PolicyUpdate{
			Key: rawKey, Policy: &dataplane.Policy{Tier: "default", Forward: true, Untracked: true},
		},
	}
}

// hostBase is base with host endpoint h.
func hostBase(t *testing.T) *dptest.Mirror {
	m := base(t)
	require.NoError(t, m.Play(dataplane.Batch{Events: append(hostPolicies(), host(nil))}))
	return m
}

func TestMirrorRefusesHostEndpoints(t *testing.T) {
	one := func(change func(h *dataplane.HostEndpoint)) []dataplane.Event { return []dataplane.Event{host(change)} }
	pol := func(p dataplane.Policy) []dataplane.Event {
		p.Tier = "default"
		return []dataplane.Event{&dataplane.PolicyUpdate{Key: rawKey, Policy: &p}}
	}
	for _, c := range []struct {
		name, want string
		events     []dataplane.Event
	}{
		{"phases", "out of order", []dataplane.Event{host(nil), endpoint(endpointKey, nil)}},
		{"removes", "out of order", []dataplane.Event{
			&dataplane.HostEndpointRemove{Key: hostKey}, &dataplane.EndpointRemove{Key: endpointKey},
		}},
		{"twice", "second event", []dataplane.Event{host(nil), &dataplane.HostEndpointRemove{Key: hostKey}}},
		{"none", "no host endpoint", []dataplane.Event{&dataplane.HostEndpointUpdate{Key: hostKey}}},
		{"key", "key is not", []dataplane.Event{
			&dataplane.HostEndpointUpdate{Key: polKey, HostEndpoint: &dataplane.HostEndpoint{}},
		}},
		{"inert", "neither an interface nor addresses", one(func(h *dataplane.HostEndpoint) {
			h.Interface, h.Addresses = "", nil
		})},
		{"addresses", "not distinct", one(func(h *dataplane.HostEndpoint) {
			h.Addresses = append(h.Addresses, h.Addresses...)
		})},
		{"profiles", "duplicate profile", one(func(h *dataplane.HostEndpoint) {
			h.Profiles = []string{"prof", "prof"}
		})},
		{"absent profile", "absent profile q", one(func(h *dataplane.HostEndpoint) { h.Profiles = []string{"q"} })},
		{"absent policy", "absent policy", one(func(h *dataplane.HostEndpoint) {
			h.ForwardEgress = tier(policy.Deny, stagedKey)
		})},
		{"empty tier", "has no policy", one(func(h *dataplane.HostEndpoint) { h.UntrackedEgress = tier(policy.Pass) })},
		{"untracked that denies", "not Pass", one(func(h *dataplane.HostEndpoint) {
			h.UntrackedEgress = tier(policy.Deny, rawKey)
		})},
		{"untracked among normal", "not belong in the tracked list", one(func(h *dataplane.HostEndpoint) {
			h.Egress = tier(policy.Deny, rawKey)
		})},
		{"pre-DNAT among normal", "not belong in the tracked list", one(func(h *dataplane.HostEndpoint) {
			h.Egress = tier(policy.Deny, preDNATKey)
		})},
		{"normal among forward", "not belong in the forward list", one(func(h *dataplane.HostEndpoint) {
			h.ForwardEgress = tier(policy.Deny, polKey)
		})},
		{"forward among untracked", "not belong in the untracked list", one(func(h *dataplane.HostEndpoint) {
			h.UntrackedEgress = tier(policy.Pass, forwardKey)
		})},
		{"untracked among pre-DNAT", "not belong in the pre-DNAT list", one(func(h *dataplane.HostEndpoint) {
			h.PreDNATIngress = tier(policy.Pass, rawKey)
		})},
		{"untracked of a workload", "host endpoints only", []dataplane.Event{
			endpoint(endpointKey, func(e *dataplane.Endpoint) { e.Egress = tier(policy.Deny, rawKey) }),
		}},
		{"untracked and pre-DNAT", "both", pol(dataplane.Policy{Forward: true, Untracked: true, PreDNAT: true})},
		{"untracked without forward", "without forward", pol(dataplane.Policy{Untracked: true})},
		{
			"pre-DNAT egress", "egress",
			pol(dataplane.Policy{Forward: true, PreDNAT: true, Egress: []dataplane.Rule{{Action: policy.Deny}}}),
		},
		{"used policy", "refer to it", []dataplane.Event{&dataplane.PolicyRemove{Key: rawKey}}},
		{"absent", "does not exist", []dataplane.Event{
			&dataplane.HostEndpointRemove{Key: policy.Key{Kind: policy.KindHostEndpoint, Name: "x"}},
		}},
		{"floating addresses", "not distinct", []dataplane.Event{endpoint(endpointKey, func(e *dataplane.Endpoint) {
			nat := policy.IPNAT{
				ExternalIP: netip.MustParseAddr("192.0.2.1"), InternalIP: netip.MustParseAddr("10.0.0.1"),
			}
			e.NATs = []policy.IPNAT{nat, nat}
		})}},
		{"floating address", "not canonical", []dataplane.Event{endpoint(endpointKey, func(e *dataplane.Endpoint) {
			e.NATs = []policy.IPNAT{{ExternalIP: netip.MustParseAddr("192.0.2.1")}}
		})}},
		{"sources", "not sorted", []dataplane.Event{endpoint(endpointKey, func(e *dataplane.Endpoint) {
			e.AllowedSources = []netip.Prefix{
				netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.0.0.0/16"),
			}
		})}},
		{"source with host bits", "host bits", []dataplane.Event{endpoint(endpointKey, func(e *dataplane.Endpoint) {
			e.AllowedSources = []netip.Prefix{netip.MustParsePrefix("10.1.0.1/16")}
		})}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorContains(t, hostBase(t).Play(dataplane.Batch{Events: c.events}), c.want)
		})
	}
	early := append(append(hostPolicies(), profile("prof")), host(nil))
	// S97
	require.ErrorContains(t, dptest.NewMirror().Play(dataplane.Batch{Events: early}),
		"before the batch that carries in-sync")
}

func TestMirrorFollowsHostEndpoints(t *testing.T) {
	m := hostBase(t)
	before := m.State()
	play := func(events ...dataplane.Event) { require.NoError(t, m.Play(dataplane.Batch{Events: events})) }
	play(host(func(h *dataplane.HostEndpoint) { h.ForwardIngress, h.Profiles = nil, nil }))
	require.False(t, before.Equal(m.State()))
	play(dptest.Transition(m.State(), before).Events...)
	require.True(t, before.Equal(m.State()))
	play(dptest.Transition(before, base(t).State()).Events...)
	require.True(t, base(t).State().Equal(m.State()))
	require.Contains(t, before.HostEndpoints, hostKey, "State is a copy")
}

// A service has two sets, whose ids have one prefix.
func TestMirrorAcceptsSetsOfServices(t *testing.T) {
	m := base(t)
	require.NoError(t, m.Play(dataplane.Batch{Events: []dataplane.Event{
		&dataplane.IPSetUpdate{ID: "v:a", Members: []dataplane.Member{member("10.0.0.1/32")}},
		&dataplane.IPSetUpdate{
			ID: "v:b", Type: dataplane.IPSetPorts, Members: []dataplane.Member{ports("10.0.0.1/32", 6, 80)},
		},
	}}))
}
