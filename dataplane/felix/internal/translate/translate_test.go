// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
	"github.com/wayleave/wayleave/dataplane/felix/internal/translate"
	"github.com/wayleave/wayleave/policy"
)

// collector collects messages as text.
type collector struct{ texts []string }

// send adds a message, without the outermost braces and quotes.
func (c *collector) send(m *felixpb.ToDataplane) {
	data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	var buf bytes.Buffer
	if err == nil {
		err = json.Compact(&buf, data) // protojson varies its spaces
	}
	if err != nil {
		panic(err)
	}
	c.texts = append(c.texts, strings.ReplaceAll(buf.String()[1:buf.Len()-1], `"`, ""))
}

// sent applies events, and returns the messages for them.
func sent(t *translate.Translator, events ...dataplane.Event) []string {
	var c collector
	t.Apply(dataplane.Batch{Events: events}, c.send)
	return c.texts
}

// snapshot returns all messages for a state.
func snapshot(t *translate.Translator) []string {
	var c collector
	t.Snapshot(c.send)
	return c.texts
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func nets(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, prefix(s))
	}
	return out
}

func policyKey(namespace, name string) policy.Key {
	return policy.Key{Kind: policy.KindPolicy, Namespace: namespace, Name: name}
}

// ruleText returns how a rule is sent, and the fault of its policy.
func ruleText(t *testing.T, r dataplane.Rule) (text string, fault error) {
	tr := translate.New(translate.Tiers)
	list := sent(tr, &dataplane.PolicyUpdate{
		Key: policyKey("", "p"), Policy: &dataplane.Policy{Tier: "t", Ingress: []dataplane.Rule{r}},
	})
	require.Len(t, list, 1)
	text = strings.TrimPrefix(list[0], "active_policy_update:{id:{tier:t,name:p},policy:{")
	text = strings.TrimSuffix(strings.TrimPrefix(text, "inbound_rules:[{"), "}]}}")
	if faults := tr.Faults(); len(faults) > 0 {
		fault = faults[0]
	}
	return strings.TrimSuffix(text, "}}"), fault
}

func one(n int) *int { return &n }

func icmpRule(m policy.HeaderMatch) dataplane.Rule {
	return dataplane.Rule{Action: policy.Allow, Protocol: policy.ProtocolICMP, HeaderMatch: m}
}

// Each field of a rule has a field in the message.
func TestRules(t *testing.T) {
	src := func(m dataplane.Match) dataplane.Rule { return dataplane.Rule{Action: policy.Allow, Source: m} }
	dst := func(m dataplane.Match) dataplane.Rule { return dataplane.Rule{Action: policy.Allow, Destination: m} }
	ports := []policy.Port{policy.PortNumber(80), policy.PortRange(90, 99)}
	for _, tt := range []struct {
		rule dataplane.Rule
		want string
	}{
		{dataplane.Rule{Action: policy.Allow}, "action:allow"},
		{dataplane.Rule{Action: policy.Deny}, "action:deny"},
		{dataplane.Rule{Action: policy.Pass}, "action:next-tier"},
		{dataplane.Rule{Action: policy.Log}, "action:log"},
		{dataplane.Rule{Action: policy.Allow, ID: "x"}, "action:allow,rule_id:x"},
		{dataplane.Rule{Action: policy.Allow, IPVersion: 4}, "action:allow,ip_version:IPV4"},
		{dataplane.Rule{Action: policy.Allow, IPVersion: 6}, "action:allow,ip_version:IPV6"},
		{dataplane.Rule{Action: policy.Allow, Protocol: policy.ProtocolTCP}, "action:allow,protocol:{name:tcp}"},
		{
			dataplane.Rule{Action: policy.Allow, Protocol: policy.ProtocolUDPLite},
			"action:allow,protocol:{name:udplite}",
		},
		{dataplane.Rule{Action: policy.Allow, Protocol: policy.ProtocolSCTP}, "action:allow,protocol:{name:sctp}"},
		{dataplane.Rule{Action: policy.Allow, Protocol: 47}, "action:allow,protocol:{number:47}"},
		{dataplane.Rule{Action: policy.Allow, NotProtocol: policy.ProtocolUDP}, "action:allow,not_protocol:{name:udp}"},
		{
			dataplane.Rule{Action: policy.Allow, Protocol: policy.ProtocolICMP},
			"action:allow,ip_version:IPV4,protocol:{name:icmp}",
		},
		{
			dataplane.Rule{Action: policy.Allow, Protocol: policy.ProtocolICMPv6},
			"action:allow,ip_version:IPV6,protocol:{name:icmpv6}",
		},
		{
			dataplane.Rule{Action: policy.Allow, NotProtocol: policy.ProtocolICMP},
			"action:allow,not_protocol:{name:icmp}",
		},
		{
			icmpRule(policy.HeaderMatch{ICMP: &policy.ICMP{Type: one(0)}}),
			"action:allow,ip_version:IPV4,protocol:{name:icmp},icmp_type:0",
		},
		{
			icmpRule(policy.HeaderMatch{ICMP: &policy.ICMP{Type: one(3), Code: one(0)}}),
			"action:allow,ip_version:IPV4,protocol:{name:icmp},icmp_type_code:{type:3}",
		},
		{
			icmpRule(policy.HeaderMatch{NotICMP: &policy.ICMP{Type: one(8)}}),
			"action:allow,ip_version:IPV4,protocol:{name:icmp},not_icmp_type:8",
		},
		{
			icmpRule(policy.HeaderMatch{NotICMP: &policy.ICMP{Type: one(3), Code: one(4)}}),
			"action:allow,ip_version:IPV4,protocol:{name:icmp},not_icmp_type_code:{type:3,code:4}",
		},
		{src(dataplane.Match{Nets: nets("10.0.0.0/8", "fd00::/8")}), "action:allow,src_net:[10.0.0.0/8,fd00::/8]"},
		{dst(dataplane.Match{Nets: nets("10.0.0.0/8")}), "action:allow,dst_net:[10.0.0.0/8]"},
		{src(dataplane.Match{NotNets: nets("0.0.0.0/0")}), "action:allow,not_src_net:[0.0.0.0/0]"},
		{dst(dataplane.Match{NotNets: nets("::/0")}), "action:allow,not_dst_net:[::/0]"},
		{src(dataplane.Match{Sets: []dataplane.IPSetID{"s:a", "v:b"}}), "action:allow,src_ip_set_ids:[s:a,v:b]"},
		{dst(dataplane.Match{Sets: []dataplane.IPSetID{"s:a"}}), "action:allow,dst_ip_set_ids:[s:a]"},
		{src(dataplane.Match{NotSets: []dataplane.IPSetID{"s:a"}}), "action:allow,not_src_ip_set_ids:[s:a]"},
		{dst(dataplane.Match{NotSets: []dataplane.IPSetID{"s:a"}}), "action:allow,not_dst_ip_set_ids:[s:a]"},
		{src(dataplane.Match{Ports: ports}), "action:allow,src_ports:[{first:80,last:80},{first:90,last:99}]"},
		{dst(dataplane.Match{Ports: ports}), "action:allow,dst_ports:[{first:80,last:80},{first:90,last:99}]"},
		{src(dataplane.Match{NotPorts: ports}), "action:allow,not_src_ports:[{first:80,last:80},{first:90,last:99}]"},
		{dst(dataplane.Match{NotPorts: ports}), "action:allow,not_dst_ports:[{first:80,last:80},{first:90,last:99}]"},
		{src(dataplane.Match{PortSets: []dataplane.IPSetID{"p:a"}}), "action:allow,src_named_port_ip_set_ids:[p:a]"},
		{dst(dataplane.Match{PortSets: []dataplane.IPSetID{"p:a"}}), "action:allow,dst_named_port_ip_set_ids:[p:a]"},
		{
			src(dataplane.Match{NotPortSets: []dataplane.IPSetID{"p:a"}}),
			"action:allow,not_src_named_port_ip_set_ids:[p:a]",
		},
		{
			dst(dataplane.Match{NotPortSets: []dataplane.IPSetID{"p:a"}}),
			"action:allow,not_dst_named_port_ip_set_ids:[p:a]",
		},
		// The set of a service must match as a whole. Beside other ports it is one of a list.
		{dst(dataplane.Match{PortSets: []dataplane.IPSetID{"v:a"}}), "action:allow,dst_ip_port_set_ids:[v:a]"},
		{
			dst(dataplane.Match{PortSets: []dataplane.IPSetID{"v:a"}, NotPorts: ports[:1]}),
			"action:allow,dst_ip_port_set_ids:[v:a],not_dst_ports:[{first:80,last:80}]",
		},
		{
			dst(dataplane.Match{PortSets: []dataplane.IPSetID{"v:a", "v:b"}}),
			"action:allow,dst_named_port_ip_set_ids:[v:a,v:b]",
		},
		{
			dst(dataplane.Match{PortSets: []dataplane.IPSetID{"v:a"}, Ports: ports[:1]}),
			"action:allow,dst_ports:[{first:80,last:80}],dst_named_port_ip_set_ids:[v:a]",
		},
		{src(dataplane.Match{PortSets: []dataplane.IPSetID{"v:a"}}), "action:allow,src_named_port_ip_set_ids:[v:a]"},
		{
			dst(dataplane.Match{NotPortSets: []dataplane.IPSetID{"v:a"}}),
			"action:allow,not_dst_named_port_ip_set_ids:[v:a]",
		},
	} {
		text, fault := ruleText(t, tt.rule)
		require.NoError(t, fault, tt.rule.String())
		require.Equal(t, tt.want, text, tt.rule.String())
	}
}

// A rule that the messages cannot express lets nothing through, and is reported.
func TestClosedRules(t *testing.T) {
	tcp := dataplane.Rule{Protocol: policy.ProtocolTCP, Source: dataplane.Match{Nets: nets("10.0.0.0/8")}}
	with := func(change func(r *dataplane.Rule)) dataplane.Rule {
		r := tcp
		change(&r)
		return r
	}
	for field, r := range map[string]dataplane.Rule{
		"DSCP":                        with(func(r *dataplane.Rule) { r.DSCP = []policy.DSCP{46} }),
		"no field for DSCP":           with(func(r *dataplane.Rule) { r.NotDSCP = []policy.DSCP{0} }),
		"the IP version":              with(func(r *dataplane.Rule) { r.IPVersion = 5 }),
		"an ICMP code without a type": with(func(r *dataplane.Rule) { r.ICMP = &policy.ICMP{Code: one(1)} }),
		"without a type":              with(func(r *dataplane.Rule) { r.NotICMP = &policy.ICMP{} }),
	} {
		for action, want := range map[policy.Action]string{
			policy.Allow: "", policy.Log: "",
			policy.Deny: "action:deny,protocol:{name:tcp},src_net:[10.0.0.0/8]",
			policy.Pass: "action:deny,protocol:{name:tcp},src_net:[10.0.0.0/8]",
		} {
			r.Action = action
			text, fault := ruleText(t, r)
			require.Equal(t, want, text, r.String())
			require.ErrorContains(t, fault, "felix: translate Policy/p: ingress rule 0 (")
			require.ErrorContains(t, fault, field)
		}
	}
	for action, want := range map[policy.Action]string{
		"Reject": "action:deny,protocol:{name:tcp},src_net:[10.0.0.0/8]",
		"":       "action:deny,protocol:{name:tcp},src_net:[10.0.0.0/8]",
	} {
		text, fault := ruleText(t, with(func(r *dataplane.Rule) { r.Action = action }))
		require.Equal(t, want, text)
		require.ErrorContains(t, fault, "no field for the action")
	}
}

// A rule of an IP version that does not have its protocol matches nothing. It is omitted, and that
// is not a fault.
func TestContradictoryRules(t *testing.T) {
	for _, action := range []policy.Action{policy.Allow, policy.Deny, policy.Pass, policy.Log} {
		for _, r := range []dataplane.Rule{
			{Action: action, IPVersion: 6, Protocol: policy.ProtocolICMP},
			{Action: action, IPVersion: 4, Protocol: policy.ProtocolICMPv6},
		} {
			text, fault := ruleText(t, r)
			require.NoError(t, fault)
			require.Empty(t, text)
		}
	}
}

// Pass in a profile denies (S32). Drivers go on to the next profile, so it is sent as Deny.
func TestPassInProfile(t *testing.T) {
	pass := []dataplane.Rule{{Action: policy.Pass, ID: "x"}}
	require.Equal(t, []string{
		"active_profile_update:{id:{name:p},profile:{inbound_rules:[{action:deny,rule_id:x}]," +
			"outbound_rules:[{action:deny,rule_id:x}]}}",
	}, sent(translate.New(translate.Tiers), &dataplane.ProfileUpdate{
		Name: "p", Profile: &dataplane.Profile{Ingress: pass, Egress: pass},
	}))
	require.Equal(t, policy.Pass, pass[0].Action, "the event is not changed")
}

// Each field of a rule is translated, or closes the rule. This test fails for a new field, because
// it lists the fields.
func TestEveryFieldOfRulesIsKnown(t *testing.T) {
	fields := func(v any) (names []string) {
		for f := range reflect.TypeOf(v).NumField() {
			names = append(names, reflect.TypeOf(v).Field(f).Name)
		}
		return names
	}
	require.Equal(t, []string{
		"ID", "Action", "IPVersion", "Protocol", "NotProtocol", "HeaderMatch", "Source", "Destination",
	}, fields(dataplane.Rule{}))
	require.Equal(t, []string{"ICMP", "NotICMP", "DSCP", "NotDSCP"}, fields(policy.HeaderMatch{}))
	require.Equal(t, []string{
		"Nets", "NotNets", "Sets", "NotSets", "Ports", "PortSets", "NotPorts", "NotPortSets",
	}, fields(dataplane.Match{}))
	require.Equal(t, []string{
		"Interface", "Addresses", "MAC", "Down", "Ingress", "Egress", "Profiles", "NATs", "AllowedSources",
	}, fields(dataplane.Endpoint{}))
	require.Equal(t, []string{
		"Interface", "Addresses", "Ingress", "Egress", "ForwardIngress", "ForwardEgress", "UntrackedIngress",
		"UntrackedEgress", "PreDNATIngress", "Profiles",
	}, fields(dataplane.HostEndpoint{}))
	require.Equal(t, []string{
		"Dst", "Type", "Node", "NodeAddress", "Pool", "SameSubnet", "Borrowed", "NATOutgoing",
	}, fields(dataplane.Route{}))
}

// Faults change and end with their objects.
func TestFaultsFollowObjects(t *testing.T) {
	tr := translate.New(translate.Tiers)
	bad := []dataplane.Rule{{Action: policy.Allow, HeaderMatch: policy.HeaderMatch{DSCP: []policy.DSCP{1}}}}
	objects := func() (keys []string) {
		for _, err := range tr.Faults() {
			keys = append(keys, err.(*dataplane.ApplyError).Object.String())
		}
		return keys
	}
	key := policyKey("n", "p")
	sent(tr, &dataplane.PolicyUpdate{Key: key, Policy: &dataplane.Policy{Tier: "t", Egress: bad}},
		&dataplane.ProfileUpdate{Name: "x", Profile: &dataplane.Profile{Ingress: bad}})
	require.Equal(t, []string{"Policy/n/p", "Profile/x"}, objects())
	snapshot(tr)
	require.Equal(t, []string{"Policy/n/p", "Profile/x"}, objects())
	sent(tr, &dataplane.PolicyUpdate{Key: key, Policy: &dataplane.Policy{Tier: "t"}},
		&dataplane.ProfileRemove{Name: "x"})
	require.Empty(t, objects())
	sent(tr, &dataplane.PolicyUpdate{Key: key, Policy: &dataplane.Policy{Tier: "t", Egress: bad}})
	sent(tr, &dataplane.PolicyRemove{Key: key})
	require.Empty(t, objects())
}

// A batch that changes nothing sends nothing.
func TestRepeatedEventsSendNothing(t *testing.T) {
	tr := translate.New(translate.Tiers)
	key := policyKey("", "p")
	member := dataplane.Member{Prefix: prefix("10.0.0.1/32")}
	events := func() []dataplane.Event {
		return []dataplane.Event{
			&dataplane.IPSetUpdate{ID: "s:a", Members: []dataplane.Member{member}},
			&dataplane.PolicyUpdate{Key: key, Policy: &dataplane.Policy{Tier: "t"}},
			&dataplane.ProfileUpdate{Name: "x", Profile: &dataplane.Profile{}},
			&dataplane.RouteUpdate{Route: &dataplane.Route{Dst: prefix("10.0.0.0/26"), Node: "n"}},
			&dataplane.NodeUpdate{Node: &dataplane.Node{Name: "n"}},
			&dataplane.PoolUpdate{Pool: &dataplane.Pool{
				Name: "p", CIDR: prefix("10.0.0.0/16"), Type: dataplane.PoolDirect,
			}},
			&dataplane.NamespaceUpdate{Namespace: &dataplane.Namespace{Name: "n"}},
			&dataplane.ServiceAccountUpdate{ServiceAccount: &dataplane.ServiceAccount{
				Key: dataplane.ServiceAccountKey{Namespace: "n", Name: "a"},
			}},
		}
	}
	require.Len(t, sent(tr, events()...), 9) // and Encapsulation
	require.Empty(t, sent(tr, events()...))
	require.Empty(t, sent(tr, &dataplane.IPSetDelta{ID: "s:a", Added: []dataplane.Member{member}},
		&dataplane.IPSetDelta{ID: "s:other", Added: []dataplane.Member{member}}, &dataplane.ServiceUpdate{},
		&dataplane.EndpointRemove{}, &dataplane.HostEndpointRemove{},
		&dataplane.ProfileRemove{}, &dataplane.PolicyRemove{},
		&dataplane.IPSetRemove{}, &dataplane.RouteRemove{}, &dataplane.TunnelRemove{}, &dataplane.NodeRemove{},
		&dataplane.PoolRemove{}, &dataplane.ServiceRemove{}, &dataplane.NamespaceRemove{},
		&dataplane.ServiceAccountRemove{}))
}

// Sets have members of both families.
func TestSets(t *testing.T) {
	tr := translate.New(translate.Tiers)
	a, b, c := dataplane.Member{Prefix: prefix("10.0.0.0/8")}, dataplane.Member{Prefix: prefix("10.0.0.1/32")},
		dataplane.Member{Prefix: prefix("fd00::/64")}
	require.Equal(t, []string{"ipset_update:{id:s:a,members:[10.0.0.0/8,fd00::/64],type:NET}"},
		sent(tr, &dataplane.IPSetUpdate{ID: "s:a", Members: []dataplane.Member{a, c}}))
	require.Equal(t, []string{"ipset_delta_update:{id:s:a,added_members:[10.0.0.1/32],removed_members:[fd00::/64]}"},
		sent(tr, &dataplane.IPSetDelta{ID: "s:a", Added: []dataplane.Member{b}, Removed: []dataplane.Member{c}}))
	require.Equal(t, []string{"ipset_delta_update:{id:s:a,added_members:[fd00::/64],removed_members:[10.0.0.0/8]}"},
		sent(tr, &dataplane.IPSetUpdate{ID: "s:a", Members: []dataplane.Member{b, c}}))
	require.Equal(t, []string{"ipset_remove:{id:s:a}"}, sent(tr, &dataplane.IPSetRemove{ID: "s:a"}))
	port := func(addr string, p policy.Protocol) dataplane.Member {
		return dataplane.Member{Prefix: prefix(addr), Protocol: p, Port: 80}
	}
	require.Equal(t, []string{
		"ipset_update:{id:p:a,members:[10.0.0.1,tcp:80,10.0.0.2,udp:80,fd00::1,sctp:80],type:IP_AND_PORT}",
	}, sent(tr, &dataplane.IPSetUpdate{ID: "p:a", Type: dataplane.IPSetPorts, Members: []dataplane.Member{
		port("10.0.0.1/32", policy.ProtocolTCP), port("10.0.0.2/32", policy.ProtocolUDP),
		port("fd00::1/128", policy.ProtocolSCTP),
	}}))
	require.Equal(t, []string{"ipset_update:{id:p:a,type:NET}"}, sent(tr, &dataplane.IPSetUpdate{ID: "p:a"}),
		"another type")
}

// Policies have the identities that Felix gives them in each dialect. A staged one is not sent.
func TestIdentitiesOfPolicies(t *testing.T) {
	for dialect, want := range map[translate.Dialect][]string{
		translate.Tiers: {"{tier:t,name:n/p}", "{tier:t,name:p}"},
		translate.Kinds: {"{name:p,namespace:n,kind:NetworkPolicy}", "{name:p,kind:GlobalNetworkPolicy}"},
	} {
		tr := translate.New(dialect)
		rules, tier := "namespace:n", ""
		if dialect == translate.Kinds {
			tier = "tier:t"
			rules += "," + tier
		}
		named, global := policyKey("n", "p"), policyKey("", "p")
		require.Equal(t, []string{
			"active_policy_update:{id:" + want[0] + ",policy:{" + rules + "}}",
			"active_policy_update:{id:" + want[1] + ",policy:{untracked:true,pre_dnat:true" +
				strings.Replace(tier, "tier", ",tier", 1) + "}}",
		}, sent(tr, &dataplane.PolicyUpdate{Key: named, Policy: &dataplane.Policy{Tier: "t"}},
			&dataplane.PolicyUpdate{Key: global, Policy: &dataplane.Policy{Tier: "t", Untracked: true, PreDNAT: true}},
			&dataplane.PolicyUpdate{
				Key:    policy.Key{Kind: policy.KindStagedPolicy, Name: "p"},
				Policy: &dataplane.Policy{Tier: "t", Staged: true},
			}))
		require.Equal(t, []string{
			"active_policy_remove:{id:" + want[0] + "}", "active_policy_remove:{id:" + want[1] + "}",
		}, sent(tr, &dataplane.PolicyRemove{Key: named}, &dataplane.PolicyRemove{Key: global},
			&dataplane.PolicyRemove{Key: policy.Key{Kind: policy.KindStagedPolicy, Name: "p"}}))
	}
}

// By kind, policies of Kubernetes have kinds of their own, and no two policies have the same
// identity.
func TestKindsOfKubernetes(t *testing.T) {
	for key, want := range map[policy.Key]string{
		policyKey("n", "knp.default.p"):      "{name:p,namespace:n,kind:KubernetesNetworkPolicy}",
		policyKey("", "kcnp.p"):              "{name:p,kind:KubernetesClusterNetworkPolicy}",
		policyKey("", "knp.default.p"):       "{name:knp.default.p,kind:GlobalNetworkPolicy}",
		policyKey("n", "kcnp.p"):             "{name:kcnp.p,namespace:n,kind:NetworkPolicy}",
		policyKey("n", "knp.default."):       "{name:knp.default.,namespace:n,kind:NetworkPolicy}",
		policyKey("n", "knp.default.kcnp.p"): "{name:kcnp.p,namespace:n,kind:KubernetesNetworkPolicy}",
	} {
		require.Equal(t, []string{"active_policy_remove:{id:" + want + "}"}, removed(translate.Kinds, key))
	}
	require.Equal(t, []string{"active_policy_remove:{id:{tier:t,name:n/knp.default.p}}"},
		removed(translate.Tiers, policyKey("n", "knp.default.p")))
}

// removed returns the messages for the removal of a policy.
func removed(dialect translate.Dialect, key policy.Key) []string {
	tr := translate.New(dialect)
	sent(tr, &dataplane.PolicyUpdate{Key: key, Policy: &dataplane.Policy{Tier: "t"}})
	return sent(tr, &dataplane.PolicyRemove{Key: key})
}

// A policy that changes its tier has another identity. The old one is removed after the endpoints
// refer to the new one, and before its sets.
func TestPolicyChangesTier(t *testing.T) {
	key, e := policyKey("n", "p"), policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "n", Name: "e"}
	in := func(tier string) []dataplane.Event {
		rule := dataplane.Rule{Action: policy.Allow, Source: dataplane.Match{Sets: []dataplane.IPSetID{
			dataplane.IPSetID("s:" + tier),
		}}}
		return []dataplane.Event{
			&dataplane.IPSetUpdate{ID: dataplane.IPSetID("s:" + tier)},
			&dataplane.PolicyUpdate{Key: key, Policy: &dataplane.Policy{Tier: tier, Ingress: []dataplane.Rule{rule}}},
			&dataplane.EndpointUpdate{Key: e, Endpoint: &dataplane.Endpoint{
				Interface: "i",
				Ingress: []dataplane.TierPolicies{
					{Tier: tier, DefaultAction: policy.Deny, Policies: []policy.Key{key}},
				},
			}},
		}
	}
	tr := translate.New(translate.Tiers)
	sent(tr, in("a")...)
	var kinds []string
	for _, text := range sent(tr, append(in("b"), &dataplane.IPSetRemove{ID: "s:a"})...) {
		kind, _, _ := strings.Cut(text, ":")
		kinds = append(kinds, kind)
	}
	require.Equal(t, []string{
		"ipset_update", "active_policy_update", "workload_endpoint_update", "active_policy_remove", "ipset_remove",
	}, kinds)
	require.Empty(t, tr.Faults())
}

// Each type of a route has the number of both versions, and each pool its type.
func TestRoutes(t *testing.T) {
	for _, tt := range []struct {
		route dataplane.Route
		tiers string
	}{
		{
			dataplane.Route{Type: dataplane.RoutePool, Pool: dataplane.PoolDirect},
			"ip_pool_type:NO_ENCAP,dst:10.0.0.1/32",
		},
		{
			dataplane.Route{Type: dataplane.RouteLocalWorkload, Node: "n", NATOutgoing: true},
			"type:LOCAL_WORKLOAD,dst:10.0.0.1/32,dst_node_name:n,nat_outgoing:true,local_workload:true,types:4",
		},
		{
			dataplane.Route{Type: dataplane.RouteBlackhole, Node: "n", Borrowed: true},
			"type:LOCAL_WORKLOAD,dst:10.0.0.1/32,dst_node_name:n,borrowed:true,types:4",
		},
		{
			dataplane.Route{
				Type: dataplane.RouteRemoteWorkload, Node: "n", Pool: dataplane.PoolVXLANCrossSubnet, SameSubnet: true,
				NodeAddress: netip.MustParseAddr("192.0.2.1"),
			},
			"type:REMOTE_WORKLOAD,ip_pool_type:VXLAN,dst:10.0.0.1/32,dst_node_name:n,dst_node_ip:192.0.2.1," +
				"same_subnet:true,types:1",
		},
		{
			dataplane.Route{Type: dataplane.RouteRemoteHost, Node: "n"},
			"type:REMOTE_HOST,dst:10.0.0.1/32,dst_node_name:n,types:2",
		},
		{
			dataplane.Route{Type: dataplane.RouteLocalHost, Node: "n"},
			"type:LOCAL_HOST,dst:10.0.0.1/32,dst_node_name:n,types:8",
		},
		{
			dataplane.Route{Type: dataplane.RouteRemoteTunnel, Node: "n", Pool: dataplane.PoolIPIP},
			"type:REMOTE_TUNNEL,ip_pool_type:IPIP,dst:10.0.0.1/32,dst_node_name:n,tunnel_type:{ipip:true},types:16",
		},
		{
			dataplane.Route{Type: dataplane.RouteLocalTunnel, Node: "n", Pool: dataplane.PoolVXLAN},
			"type:LOCAL_TUNNEL,ip_pool_type:VXLAN,dst:10.0.0.1/32,dst_node_name:n,tunnel_type:{vxlan:true},types:32",
		},
	} {
		tt.route.Dst = prefix("10.0.0.1/32")
		want := "route_update:{" + tt.tiers + "}"
		require.Equal(t, []string{want}, sent(translate.New(translate.Tiers), &dataplane.RouteUpdate{Route: &tt.route}))
		if strings.HasPrefix(tt.tiers, "type:") {
			_, rest, _ := strings.Cut(tt.tiers, ",")
			want = "route_update:{" + rest + "}"
		}
		require.Equal(t, []string{want}, sent(translate.New(translate.Kinds), &dataplane.RouteUpdate{Route: &tt.route}))
	}
}

// A route to a prefix without a path is not sent. If there was a path before, its route is removed.
func TestUnreachableRoutes(t *testing.T) {
	tr := translate.New(translate.Kinds)
	route := dataplane.Route{Dst: prefix("10.0.0.0/26"), Type: dataplane.RouteRemoteUnreachable, Node: "n"}
	require.Empty(t, sent(tr, &dataplane.RouteUpdate{Route: &route}))
	require.Empty(t, sent(tr, &dataplane.RouteRemove{Dst: route.Dst}))
	path := route
	path.Type = dataplane.RouteRemoteWorkload
	require.Len(t, sent(tr, &dataplane.RouteUpdate{Route: &path}), 1)
	remove := []string{"route_remove:{dst:10.0.0.0/26}"}
	require.Equal(t, remove, sent(tr, &dataplane.RouteUpdate{Route: &route}))

	// The tunnel of the route is removed in the same batch: the route first.
	tunnel := &dataplane.Tunnel{Node: "n", IPVersion: 4, Address: netip.MustParseAddr("10.0.0.1")}
	require.Len(t, sent(tr, &dataplane.TunnelUpdate{Tunnel: tunnel}, &dataplane.RouteUpdate{Route: &path}), 2)
	require.Equal(t, append(remove, "vtep_remove:{node:n}"), sent(tr,
		&dataplane.TunnelRemove{Key: tunnel.Key()}, &dataplane.RouteUpdate{Route: &route}))
}

// The VXLAN devices of a node are one message. Those of IP in IP have none.
func TestTunnels(t *testing.T) {
	tr := translate.New(translate.Tiers)
	tunnel := func(version int, addr, mac, parent string) *dataplane.TunnelUpdate {
		return &dataplane.TunnelUpdate{Tunnel: &dataplane.Tunnel{
			Node: "n", IPVersion: version, Address: netip.MustParseAddr(addr), MAC: mac,
			ParentAddress: netip.MustParseAddr(parent),
		}}
	}
	four := tunnel(4, "10.0.0.1", "02:00:00:00:00:04", "192.0.2.1")
	six := tunnel(6, "fd00::1", "02:00:00:00:00:06", "2001:db8::1")
	const text4 = "node:n,mac:02:00:00:00:00:04,ipv4_addr:10.0.0.1,parent_device_ip:192.0.2.1"
	const text6 = "mac_v6:02:00:00:00:00:06,ipv6_addr:fd00::1,parent_device_ipv6:2001:db8::1"
	require.Equal(t, []string{"vtep_update:{" + text4 + "}", "vtep_update:{" + text4 + "," + text6 + "}"},
		sent(tr, four, six))
	require.Empty(t, sent(tr, four, six))
	ipip := &dataplane.Tunnel{Node: "n", IPVersion: 4, Encapsulation: dataplane.EncapIPIP}
	require.Empty(t, sent(tr, &dataplane.TunnelUpdate{Tunnel: ipip}, &dataplane.TunnelRemove{Key: ipip.Key()}))
	require.Equal(t, []string{"vtep_update:{node:n," + text6 + "}"},
		sent(tr, &dataplane.TunnelRemove{Key: four.Tunnel.Key()}))
	require.Equal(t, []string{"vtep_remove:{node:n}"}, sent(tr, &dataplane.TunnelRemove{Key: six.Tunnel.Key()}))
}

// Nodes have the messages of their version of Felix.
func TestNodes(t *testing.T) {
	node := func(addrs ...string) *dataplane.NodeUpdate {
		return &dataplane.NodeUpdate{Node: &dataplane.Node{
			Name: "n", Addresses: nets(addrs...), Labels: map[string]string{"a": "b"},
		}}
	}
	both := "hostname:n,ipv4_addr:192.0.2.1/24,ipv6_addr:2001:db8::1/64,labels:{a:b}"
	tr := translate.New(translate.Tiers)
	require.Equal(t, []string{
		"host_metadata_update:{hostname:n,ipv4_addr:192.0.2.1}",
		"host_metadata_v6_update:{hostname:n,ipv6_addr:2001:db8::1}",
		"host_metadata_v4v6_update:{" + both + "}",
	}, sent(tr, node("192.0.2.1/24", "2001:db8::1/64", "192.0.2.2/24")))
	require.Equal(t, []string{
		"host_metadata_remove:{hostname:n}", "host_metadata_v6_update:{hostname:n,ipv6_addr:2001:db8::1}",
		"host_metadata_v4v6_update:{hostname:n,ipv6_addr:2001:db8::1/64,labels:{a:b}}",
	}, sent(tr, node("2001:db8::1/64")))
	require.Equal(t, []string{"host_metadata_v6_remove:{hostname:n}", "host_metadata_v4v6_remove:{hostname:n}"},
		sent(tr, &dataplane.NodeRemove{Name: "n"}))

	tr = translate.New(translate.Kinds)
	require.Equal(t, []string{"host_metadata_update:{" + both + "}"},
		sent(tr, node("192.0.2.1/24", "2001:db8::1/64")))
	require.Equal(t, []string{"host_metadata_remove:{hostname:n}"}, sent(tr, &dataplane.NodeRemove{Name: "n"}))

	tr = translate.New(translate.KindsV4V6)
	require.Equal(t, []string{"host_metadata_v4v6_update:{" + both + "}"},
		sent(tr, node("192.0.2.1/24", "2001:db8::1/64")))
	require.Equal(t, []string{"host_metadata_v4v6_remove:{hostname:n}"}, sent(tr, &dataplane.NodeRemove{Name: "n"}))
}

// Pools are identified by their range: of two pools with one range, only the one with the smaller
// name is sent.
func TestPools(t *testing.T) {
	tr := translate.New(translate.Tiers)
	pool := func(name, cidr string, typ dataplane.PoolType, nat bool) *dataplane.PoolUpdate {
		return &dataplane.PoolUpdate{Pool: &dataplane.Pool{Name: name, CIDR: prefix(cidr), Type: typ, NATOutgoing: nat}}
	}
	for _, tt := range []struct {
		event dataplane.Event
		want  string
	}{
		{
			pool("b", "10.0.0.0/16", dataplane.PoolVXLAN, true),
			"ipam_pool_update:{id:10.0.0.0-16,pool:{cidr:10.0.0.0/16,masquerade:true,vxlan_mode:always}} " +
				"encapsulation:{vxlan_enabled:true}",
		},
		{
			pool("a", "10.0.0.0/16", dataplane.PoolIPIPCrossSubnet, false),
			"ipam_pool_update:{id:10.0.0.0-16,pool:{cidr:10.0.0.0/16,ipip_mode:cross-subnet}} " +
				"encapsulation:{ipip_enabled:true,vxlan_enabled:true}",
		},
		{
			pool("a", "10.1.0.0/16", dataplane.PoolIPIP, false),
			"ipam_pool_update:{id:10.0.0.0-16,pool:{cidr:10.0.0.0/16,masquerade:true,vxlan_mode:always}} " +
				"ipam_pool_update:{id:10.1.0.0-16,pool:{cidr:10.1.0.0/16,ipip_mode:always}}",
		},
		{
			&dataplane.PoolRemove{Name: "b"},
			"ipam_pool_remove:{id:10.0.0.0-16} encapsulation:{ipip_enabled:true}",
		},
		{
			pool("c", "fd00::/64", dataplane.PoolVXLANCrossSubnet, false),
			"ipam_pool_update:{id:fd00::-64,pool:{cidr:fd00::/64,vxlan_mode:cross-subnet}} " +
				"encapsulation:{ipip_enabled:true,vxlan_enabled_v6:true}",
		},
		{
			pool("d", "10.2.0.0/16", dataplane.PoolDirect, false),
			"ipam_pool_update:{id:10.2.0.0-16,pool:{cidr:10.2.0.0/16}} " +
				"encapsulation:{ipip_enabled:true,vxlan_enabled_v6:true,no_encap_enabled:true}",
		},
	} {
		require.Equal(t, tt.want, strings.Join(sent(tr, tt.event), " "))
	}
}

// Namespaces and service accounts have their labels. Services are not sent.
func TestNames(t *testing.T) {
	tr := translate.New(translate.Tiers)
	account := dataplane.ServiceAccountKey{Namespace: "n", Name: "a"}
	labels := map[string]string{"k": "v"}
	require.Equal(t, []string{
		"namespace_update:{id:{name:n},labels:{k:v}}", "service_account_update:{id:{namespace:n,name:a},labels:{k:v}}",
	}, sent(tr, &dataplane.ServiceUpdate{Service: &dataplane.Service{Name: "s"}},
		&dataplane.NamespaceUpdate{Namespace: &dataplane.Namespace{Name: "n", Labels: labels}},
		&dataplane.ServiceAccountUpdate{ServiceAccount: &dataplane.ServiceAccount{Key: account, Labels: labels}}))
	require.Equal(t, []string{"namespace_remove:{id:{name:n}}", "service_account_remove:{id:{namespace:n,name:a}}"},
		sent(tr, &dataplane.NamespaceRemove{Name: "n"}, &dataplane.ServiceAccountRemove{Key: account}))
}

// Events before the first send are kept for a snapshot, which ends with InSync.
func TestSnapshot(t *testing.T) {
	s := dptest.NewState()
	s.InSync = true
	s.Namespaces["n"] = &dataplane.Namespace{Name: "n"}
	tr := translate.New(translate.Tiers)
	require.False(t, tr.InSync())
	tr.Apply(dptest.Transition(dptest.NewState(), s), nil)
	require.True(t, tr.InSync())
	want := []string{"encapsulation:{}", "namespace_update:{id:{name:n}}", "in_sync:{}"}
	require.Equal(t, want, snapshot(tr))
	require.Equal(t, want, snapshot(tr))
	require.Equal(t, fmt.Sprint([]string(nil)), fmt.Sprint(sent(tr, &dataplane.InSync{})))
}
