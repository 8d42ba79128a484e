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
	endpointKey = policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "n", Name: "w1"}
	otherKey    = policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "n", Name: "w2"}
	polKey      = policy.Key{Kind: policy.KindPolicy, Name: "p"}
	stagedKey   = policy.Key{Kind: policy.KindStagedPolicy, Name: "p"}
)

func member(s string) dataplane.Member { return dataplane.Member{Prefix: netip.MustParsePrefix(s)} }

func ports(s string, proto policy.Protocol, port uint16) dataplane.Member {
	return dataplane.Member{Prefix: netip.MustParsePrefix(s), Protocol: proto, Port: port}
}

func set(id dataplane.IPSetID, members ...dataplane.Member) *dataplane.IPSetUpdate {
	u := &dataplane.IPSetUpdate{ID: id, Members: members}
	if id[0] == 'p' {
		u.Type = dataplane.IPSetPorts
	}
	return u
}

func pol(k policy.Key, rules ...dataplane.Rule) *dataplane.PolicyUpdate {
	return &dataplane.PolicyUpdate{
		Key: k, Policy: &dataplane.Policy{Tier: "default", Staged: k.Kind == policy.KindStagedPolicy, Ingress: rules},
	}
}

func profile(name string, rules ...dataplane.Rule) *dataplane.ProfileUpdate {
	return &dataplane.ProfileUpdate{Name: name, Profile: &dataplane.Profile{Egress: rules}}
}

func from(m dataplane.Match) dataplane.Rule { return dataplane.Rule{Action: policy.Allow, Source: m} }

func endpoint(k policy.Key, change func(*dataplane.Endpoint)) *dataplane.EndpointUpdate {
	e := &dataplane.Endpoint{
		Interface: "wl1", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Profiles: []string{"prof"},
		Ingress: []dataplane.TierPolicies{
			{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{polKey}},
		},
	}
	if change != nil {
		change(e)
	}
	return &dataplane.EndpointUpdate{Key: k, Endpoint: e}
}

// base is a mirror with a set of each type, a policy and a profile that refer to them, and an
// endpoint.
func base(t *testing.T) *dptest.Mirror {
	m := dptest.NewMirror()
	require.NoError(t, m.Play(dataplane.Batch{Events: []dataplane.Event{
		set("p:a", ports("10.0.0.1/32", policy.ProtocolTCP, 80)),
		set("s:a", member("10.0.0.0/8"), member("10.0.0.1/32"), member("fd00::/8")),
		pol(polKey, from(dataplane.Match{Sets: []dataplane.IPSetID{"s:a"}, NotPortSets: []dataplane.IPSetID{"p:a"}})),
		profile("prof", from(dataplane.Match{NotSets: []dataplane.IPSetID{"s:a"}})),
		endpoint(endpointKey, nil),
		&dataplane.InSync{},
	}}))
	require.Empty(t, m.Unused())
	return m
}

// refusal is a batch that a mirror refuses, with part of the error.
type refusal struct {
	name, want string
	events     []dataplane.Event
}

// requireRefused checks that a mirror in the state that start makes refuses each batch, and all
// batches after it.
func requireRefused(t *testing.T, start func(*testing.T) *dptest.Mirror, refusals []refusal) {
	t.Helper()
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			m := start(t)
			err := m.Play(dataplane.Batch{Events: c.events})
			require.ErrorContains(t, err, c.want)
			var pe *dptest.PlayError
			require.ErrorAs(t, err, &pe)
			require.Equal(t, err, m.Play(dataplane.Batch{}), "for ever")
		})
	}
}

// The tests of refusals play batches that each break one promise on top of base.
func TestMirrorRefusesOrder(t *testing.T) {
	requireRefused(t, base, []refusal{
		{"nil event", "unknown event", []dataplane.Event{nil}},
		{"nil pointer", "unknown event", []dataplane.Event{(*dataplane.RouteUpdate)(nil)}},
		{"embedded event", "unknown event", []dataplane.Event{struct{ dataplane.Event }{&dataplane.InSync{}}}},
		{"phases", "out of order", []dataplane.Event{profile("q"), pol(polKey)}},
		{"remove before update", "out of order", []dataplane.Event{
			&dataplane.EndpointRemove{Key: endpointKey}, set("s:b"),
		}},
		{"ids", "not sorted", []dataplane.Event{set("s:c"), set("s:b")}},
		{"keys", "not sorted", []dataplane.Event{pol(stagedKey), pol(polKey)}},
		{"names", "not sorted", []dataplane.Event{profile("b"), profile("a")}},
		{"twice", "second event", []dataplane.Event{set("s:b"), set("s:b")}},
		{"new set with delta", "second event", []dataplane.Event{
			set("s:b"), &dataplane.IPSetDelta{ID: "s:b", Added: []dataplane.Member{member("::/0")}},
		}},
		{"update and remove", "second event", []dataplane.Event{profile("b"), &dataplane.ProfileRemove{Name: "b"}}},
		{"in-sync again", "second in-sync", []dataplane.Event{&dataplane.InSync{}}},
		{"after in-sync", "second in-sync", []dataplane.Event{&dataplane.InSync{}, set("s:b")}},
	})
}

func TestMirrorRefusesSets(t *testing.T) {
	requireRefused(t, base, []refusal{
		{"set id without prefix", "does not fit", []dataplane.Event{&dataplane.IPSetUpdate{ID: "abc"}}},
		{"set id of the other type", "does not fit", []dataplane.Event{
			&dataplane.IPSetUpdate{ID: "s:b", Type: dataplane.IPSetPorts},
		}},
		{"set id with a space", "an invalid character", []dataplane.Event{set("s:a b")}},
		{"unsorted members", "not sorted", []dataplane.Event{set("s:b", member("10.0.0.2/32"), member("10.0.0.1/32"))}},
		{"double members", "not distinct", []dataplane.Event{set("s:b", member("10.0.0.1/32"), member("10.0.0.1/32"))}},
		{"host bits", "host bits", []dataplane.Event{set("s:b", member("10.0.0.1/8"))}},
		{"mapped", "IPv6 form", []dataplane.Event{set("s:b", member("::ffff:10.0.0.1/128"))}},
		{"zero member", "not a prefix", []dataplane.Event{set("s:b", dataplane.Member{})}},
		{"port among nets", "in a set of addresses", []dataplane.Event{set("s:b", ports("10.0.0.1/32", 6, 80))}},
		{"prefix among ports", "in a set of ports", []dataplane.Event{set("p:b", ports("10.0.0.0/8", 6, 80))}},
		{"port 0", "in a set of ports", []dataplane.Event{set("p:b", ports("10.0.0.1/32", 6, 0))}},
		{"ICMP port", "in a set of ports", []dataplane.Event{set("p:b", ports("10.0.0.1/32", 1, 80))}},

		{"delta of nothing", "does not exist", []dataplane.Event{
			&dataplane.IPSetDelta{ID: "s:b", Added: []dataplane.Member{member("::/0")}},
		}},
		{"empty delta", "changes nothing", []dataplane.Event{&dataplane.IPSetDelta{ID: "s:a"}}},
		{"adds present", "present member", []dataplane.Event{
			&dataplane.IPSetDelta{ID: "s:a", Added: []dataplane.Member{member("10.0.0.1/32")}},
		}},
		{"removes absent", "absent member", []dataplane.Event{
			&dataplane.IPSetDelta{ID: "s:a", Removed: []dataplane.Member{member("10.0.0.2/32")}},
		}},
		{"adds and removes", "present member", []dataplane.Event{&dataplane.IPSetDelta{
			ID:    "s:a",
			Added: []dataplane.Member{member("10.0.0.1/32")}, Removed: []dataplane.Member{member("10.0.0.1/32")},
		}}},
		{"unsorted delta", "not sorted", []dataplane.Event{
			&dataplane.IPSetDelta{ID: "s:a", Added: []dataplane.Member{member("::/0"), member("0.0.0.0/0")}},
		}},
	})
}

func TestMirrorRefusesRemovals(t *testing.T) {
	removeAll := func(events ...dataplane.Event) []dataplane.Event {
		return append([]dataplane.Event{&dataplane.EndpointRemove{Key: endpointKey}}, events...)
	}
	requireRefused(t, base, []refusal{
		{"removes an absent set", "does not exist", []dataplane.Event{&dataplane.IPSetRemove{ID: "s:b"}}},
		{"removes an absent policy", "does not exist", []dataplane.Event{&dataplane.PolicyRemove{Key: stagedKey}}},
		{"removes an absent profile", "does not exist", []dataplane.Event{&dataplane.ProfileRemove{Name: "b"}}},
		{"removes an absent endpoint", "does not exist", []dataplane.Event{&dataplane.EndpointRemove{Key: otherKey}}},
		{
			"removes a used set", "refer to it",
			removeAll(&dataplane.PolicyRemove{Key: polKey}, &dataplane.IPSetRemove{ID: "s:a"}),
		},
		{"removes a used policy", "refer to it", []dataplane.Event{&dataplane.PolicyRemove{Key: polKey}}},
		{"removes a used profile", "refer to it", []dataplane.Event{&dataplane.ProfileRemove{Name: "prof"}}},
	})
}

func TestMirrorRefusesPolicies(t *testing.T) {
	typ, code := 8, 300
	rule := func(r dataplane.Rule) []dataplane.Event { return []dataplane.Event{pol(polKey, r)} }
	requireRefused(t, base, []refusal{
		{"no policy", "no policy", []dataplane.Event{&dataplane.PolicyUpdate{Key: polKey}}},
		{"staged under the key of another", "key is not", []dataplane.Event{
			&dataplane.PolicyUpdate{Key: polKey, Policy: &dataplane.Policy{Tier: "t", Staged: true}},
		}},
		{"no tier", "no tier", []dataplane.Event{&dataplane.PolicyUpdate{Key: polKey, Policy: &dataplane.Policy{}}}},
		{"no profile", "no profile", []dataplane.Event{&dataplane.ProfileUpdate{Name: "b"}}},
		{"absent set", "absent set s:b", rule(from(dataplane.Match{NotSets: []dataplane.IPSetID{"s:b"}}))},
		{"absent set in a profile", "absent set p:b", []dataplane.Event{
			profile("b", from(dataplane.Match{PortSets: []dataplane.IPSetID{"p:b"}})),
		}},
		{"nets as ports", "of type nets as ports", rule(from(dataplane.Match{PortSets: []dataplane.IPSetID{"s:a"}}))},
		{"ports as nets", "of type ports as nets", rule(from(dataplane.Match{Sets: []dataplane.IPSetID{"p:a"}}))},
		{"no action", "unknown action", rule(dataplane.Rule{})},
		{"IP version", "unknown IP version", rule(dataplane.Rule{Action: policy.Allow, IPVersion: 5})},
		{
			"ICMP code", "icmp.code: want 0 to 255",
			rule(dataplane.Rule{Action: policy.Allow, Protocol: 1, HeaderMatch: policy.HeaderMatch{
				ICMP: &policy.ICMP{Type: &typ, Code: &code},
			}}),
		},
		{
			"ICMP without type", "notICMP.type: required",
			rule(dataplane.Rule{Action: policy.Allow, Protocol: 1, HeaderMatch: policy.HeaderMatch{
				NotICMP: &policy.ICMP{},
			}}),
		},
		{
			"ICMP without protocol", "icmp: needs protocol",
			rule(dataplane.Rule{Action: policy.Allow, HeaderMatch: policy.HeaderMatch{ICMP: &policy.ICMP{Type: &typ}}}),
		},
		{
			"rule with host bits", "host bits",
			rule(from(dataplane.Match{NotNets: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/8")}})),
		},
		{"name of a port", "not a port", rule(dataplane.Rule{
			Action: policy.Allow, Protocol: 6,
			Destination: dataplane.Match{Ports: []policy.Port{policy.PortName("http")}},
		})},
		{"port range", "not a port", rule(dataplane.Rule{
			Action: policy.Allow, Protocol: 6,
			Destination: dataplane.Match{NotPorts: []policy.Port{policy.PortRange(2, 1)}},
		})},
		{
			"ports of any protocol", "without a protocol",
			rule(from(dataplane.Match{Ports: []policy.Port{policy.PortNumber(1)}})),
		},
		{"rule ids", "occurs twice", []dataplane.Event{
			pol(polKey, dataplane.Rule{ID: "r", Action: policy.Allow}, dataplane.Rule{ID: "r", Action: policy.Deny}),
		}},
	})
}

func TestMirrorRefusesEndpoints(t *testing.T) {
	ep := func(change func(*dataplane.Endpoint)) []dataplane.Event {
		return []dataplane.Event{endpoint(otherKey, change)}
	}
	requireRefused(t, base, []refusal{
		{"no endpoint", "no endpoint", []dataplane.Event{&dataplane.EndpointUpdate{Key: otherKey}}},
		{"endpoint key", "key is not", []dataplane.Event{endpoint(polKey, nil)}},
		{"no interface", "no interface", ep(func(e *dataplane.Endpoint) { e.Interface = "" })},
		{"mapped address", "not canonical", ep(func(e *dataplane.Endpoint) {
			e.Addresses[0] = netip.MustParseAddr("::ffff:10.0.0.1")
		})},
		{"addresses", "not distinct", ep(func(e *dataplane.Endpoint) {
			e.Addresses = append(e.Addresses, e.Addresses[0])
		})},
		{"profiles", "duplicate profile", ep(func(e *dataplane.Endpoint) { e.Profiles = []string{"prof", "prof"} })},
		{"absent profile", "absent profile q", ep(func(e *dataplane.Endpoint) { e.Profiles = []string{"q"} })},
		{"absent policy", "absent policy StagedPolicy/p", ep(func(e *dataplane.Endpoint) {
			e.Ingress[0].Policies[0] = stagedKey
		})},
		{"empty tier", "has no policy", ep(func(e *dataplane.Endpoint) { e.Ingress[0].Policies = nil })},
		{"nameless tier", "without a name", ep(func(e *dataplane.Endpoint) { e.Ingress[0].Tier = "" })},
		{"tier action", "unknown default action", ep(func(e *dataplane.Endpoint) {
			e.Ingress[0].DefaultAction = policy.Allow
		})},
		{"tier twice", "duplicate tier", ep(func(e *dataplane.Endpoint) {
			e.Ingress = append(e.Ingress, e.Ingress[0])
		})},
		{"policy twice", "duplicate policy", ep(func(e *dataplane.Endpoint) {
			e.Ingress[0].Policies = []policy.Key{polKey, polKey}
		})},
	})
}

func TestMirrorRefusesEarlyEndpoint(t *testing.T) { // S97
	m := dptest.NewMirror()
	events := []dataplane.Event{pol(polKey), profile("prof"), endpoint(endpointKey, nil)}
	require.ErrorContains(t, m.Play(dataplane.Batch{Events: events}), "before the batch that carries in-sync")

	m = dptest.NewMirror()
	require.ErrorContains(t, m.Play(dataplane.Batch{Events: []dataplane.Event{&dataplane.InSync{}, set("s:a")}}),
		"out of order")
}

// TestMirrorFollows plays changes that keep all promises. The last one removes everything.
func TestMirrorFollows(t *testing.T) {
	m := base(t)
	play := func(events ...dataplane.Event) { require.NoError(t, m.Play(dataplane.Batch{Events: events})) }
	play(&dataplane.IPSetDelta{
		ID: "s:a", Added: []dataplane.Member{member("0.0.0.0/0")}, Removed: []dataplane.Member{member("10.0.0.0/8")},
	})
	require.Equal(t, []dataplane.Member{member("0.0.0.0/0"), member("10.0.0.1/32"), member("fd00::/8")},
		m.State().Sets["s:a"].Members)
	before := m.State()
	// the policy stops using it in the same batch (S18)
	play(pol(polKey), profile("prof"), &dataplane.IPSetRemove{ID: "p:a"})
	require.Equal(t, []string{"ipset s:a"}, m.Unused())
	require.False(t, before.Equal(m.State()))
	require.Contains(t, before.Sets, dataplane.IPSetID("p:a"), "State is a copy")
	play(set("s:a", member("::/0")), endpoint(endpointKey, func(e *dataplane.Endpoint) { e.Profiles = nil }))
	require.Equal(t, []string{"ipset s:a", "profile prof"}, m.Unused())
	play(&dataplane.EndpointRemove{Key: endpointKey}, &dataplane.ProfileRemove{Name: "prof"},
		&dataplane.PolicyRemove{Key: polKey}, &dataplane.IPSetRemove{ID: "s:a"})
	require.Equal(t, "in-sync\n", m.State().String())
}

func TestStateString(t *testing.T) {
	m := base(t)
	require.Equal(t, `ipset p:a ports [10.0.0.1,tcp:80]
ipset s:a nets [10.0.0.0/8 10.0.0.1/32 fd00::/8]
policy Policy/p tier default: ingress allow src s:a !ports p:a
profile prof: egress allow src !s:a
endpoint WorkloadEndpoint/n/w1 wl1 [10.0.0.1] ingress default:deny[Policy/p] egress - profiles [prof]
in-sync
`, m.State().String())
	require.True(t, dptest.Transition(m.State(), base(t).State()).Empty())
}
