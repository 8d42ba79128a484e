// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// namesCollide has a global policy "shop" with a Log rule of two alternatives, and a policy of the
// namespace of that name called "log-0".
func namesCollide() dptest.State {
	s := nfttest.RulesState()
	global := policy.Key{Kind: policy.KindPolicy, Name: "shop"}
	ns := policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "log-0"}
	s.Policies[global] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{{
		ID: "g", Action: policy.Log, Protocol: policy.ProtocolTCP, Destination: dataplane.Match{
			Ports: nfttest.PortList(policy.PortNumber(80)), PortSets: []dataplane.IPSetID{"p:http"},
		},
	}}}
	s.Policies[ns] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{nfttest.AllowAll("n")}}
	s.Endpoints[nfttest.EndpointKey("web1")].Ingress = []dataplane.TierPolicies{{
		Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{global},
	}}
	s.Endpoints[nfttest.EndpointKey("web2")] = &dataplane.Endpoint{
		Interface: "way2", Addresses: nfttest.Addresses("10.0.0.2"),
		Ingress: []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{ns}}},
	}
	return s
}

// TestNamesOfLogChains: the chain of a Log rule and the chain of a policy have different names,
// whatever the name of the policy.
func TestNamesOfLogChains(t *testing.T) { nfttest.EachForm(t, testNamesOfLogChains) }

func testNamesOfLogChains(t *testing.T, classes render.ClassesConfig) {
	table, errs := nfttest.Rendered(t, render.Config{Classes: classes}, nfttest.Transition(namesCollide()))
	require.Empty(t, errs)
	allowed, _ := judgePacket(
		t, table, ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "way1", "10.0.0.1", ruleset.CtNew),
	)
	require.False(t, allowed, "%s", table)
	allowed, _ = judgePacket(
		t, table, ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "way2", "10.0.0.2", ruleset.CtNew),
	)
	require.True(t, allowed, "%s", table)
}

// S100: a staged policy, of which no rule is rendered, is not a missing policy.
func TestStagedPolicyIsNotMissing(t *testing.T) { nfttest.EachForm(t, testStagedPolicyIsNotMissing) }

func testStagedPolicyIsNotMissing(t *testing.T, classes render.ClassesConfig) {
	key := policy.Key{Kind: policy.KindStagedPolicy, Namespace: "shop", Name: "web"}
	with := stagedState()
	without := stagedState()
	delete(without.Policies, key)
	for name, way := range map[string][]dptest.State{"comes": {without, with}, "goes": {with, without}} {
		t.Run(name, func(t *testing.T) {
			r, err := render.New(render.Config{Classes: classes})
			require.NoError(t, err)
			r.Update(nfttest.Transition(way[0]))
			r.Flush()
			r.Update(dptest.Transition(way[0], way[1]))
			r.Flush()
			got, gotErrs := r.Table()
			want, wantErrs := nfttest.Rendered(t, render.Config{Classes: classes}, nfttest.Transition(way[1]))
			require.Equal(t, want.String(), got.String())
			require.Equal(t, len(wantErrs), len(gotErrs))
		})
	}
}

// TestFailedHostForAll (S105): packets of workloads that pre-DNAT policy denies still drop if
// another policy of the host endpoint is at fault.
func TestFailedHostForAll(t *testing.T) { nfttest.EachForm(t, testFailedHostForAll) }

func testFailedHostForAll(t *testing.T, classes render.ClassesConfig) {
	s := hostState()
	key := func(name string) policy.Key { return policy.Key{Kind: policy.KindPolicy, Name: name} }
	tier := func(name string) []dataplane.TierPolicies {
		return []dataplane.TierPolicies{{
			Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key(name)},
		}}
	}
	s.Policies[key("pre")] = &dataplane.Policy{
		Tier: "default", PreDNAT: true, Ingress: []dataplane.Rule{{ID: "d", Action: policy.Deny}},
	}
	s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "all"}] = &dataplane.HostEndpoint{
		Interface: "*", PreDNATIngress: tier("pre"), Ingress: tier("gone"),
	}
	cfg := render.Config{Classes: classes, Host: policy.HostConfig{EndpointToHostAction: policy.HostAccept}}
	table, errs := nfttest.Rendered(t, cfg, nfttest.Transition(s))
	require.Len(t, errs, 1)
	p := tcpPacket("way1", "10.0.0.1", "", "10.0.0.254", ruleset.CtNew)
	p.Local = nfttest.Addresses("10.0.0.254")
	a, _ := judgePacket(t, table, ruleset.Prerouting, p)
	b, _ := judgePacket(t, table, ruleset.Input, p)
	require.False(t, a && b, "%s", table)
}

// The table is valid although interfaces of the host have names that need quotes or escapes in nft.
func TestUnusualInterfaceNamesOfHost(t *testing.T) {
	nfttest.EachForm(t, testUnusualInterfaceNamesOfHost)
}

func testUnusualInterfaceNamesOfHost(t *testing.T, classes render.ClassesConfig) {
	s := hostState()
	s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "a"}] = &dataplane.HostEndpoint{
		Addresses: nfttest.Addresses("192.0.2.1"),
	}
	r, err := render.New(render.Config{Classes: classes})
	require.NoError(t, err)
	r.SetInterfaces(nfttest.InterfacesWith(map[string][]netip.Addr{
		"eth0": nfttest.Addresses(
			"192.0.2.1",
		), `od"d*`: nfttest.Addresses("192.0.2.7"), "x$y\\": nil, "way*": nil, "é": nil,
	}))
	r.Update(nfttest.Transition(s))
	table, errs := r.Table()
	require.Empty(t, errs)
	require.NoError(t, table.Validate())
}

// TestProfileIsAddedAgain (S84): one batch removes a profile and its last endpoint, and adds
// another endpoint that names the profile. When the profile is added again, that endpoint is
// rendered again, in whatever order the endpoints were rendered.
func TestProfileIsAddedAgain(t *testing.T) { nfttest.EachForm(t, testProfileIsAddedAgain) }

func testProfileIsAddedAgain(t *testing.T, classes render.ClassesConfig) {
	profile := &dataplane.Profile{
		Ingress: []dataplane.Rule{nfttest.AllowAll("in")}, Egress: []dataplane.Rule{nfttest.AllowAll("out")},
	}
	for range 20 {
		r, err := render.New(render.Config{Classes: classes})
		require.NoError(t, err)
		apply := func(events ...dataplane.Event) *ruleset.Table {
			r.Update(dataplane.Batch{Events: events})
			r.Flush()
			table, _ := r.Table()
			return table
		}
		one := func(name string) dataplane.Event {
			return &dataplane.EndpointUpdate{Key: nfttest.EndpointKey(name), Endpoint: &dataplane.Endpoint{
				Interface: name, Addresses: nfttest.Addresses("10.0.0.1"), Profiles: []string{"p"},
			}}
		}
		apply(&dataplane.ProfileUpdate{Name: "p", Profile: profile}, one("way1"))
		apply(&dataplane.ProfileRemove{Name: "p"}, &dataplane.EndpointRemove{
			Key: nfttest.EndpointKey("way1"),
		}, one("way2"))
		table := apply(&dataplane.ProfileUpdate{Name: "p", Profile: profile})
		allowed, _ := judgePacket(
			t, table, ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "way2", "10.0.0.1", ruleset.CtNew),
		)
		require.True(t, allowed, "%s", table)
	}
}

// TestLogOnceByHost (S28): packets of the host are evaluated in one of two hooks, also without
// connection tracking.
func TestLogOnceByHost(t *testing.T) { nfttest.EachForm(t, testLogOnceByHost) }

func testLogOnceByHost(t *testing.T, classes render.ClassesConfig) {
	s, key := hostState(), policy.Key{Kind: policy.KindPolicy, Name: "log"}
	s.Policies[key] = &dataplane.Policy{Tier: "default", Egress: []dataplane.Rule{
		{ID: "l", Action: policy.Log}, nfttest.AllowAll("all"),
	}}
	s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}] = &dataplane.HostEndpoint{
		Interface: "eth0",
		Egress:    []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key}}},
	}
	table, errs := nfttest.Rendered(t, render.Config{Classes: classes}, nfttest.Transition(s))
	require.Empty(t, errs)
	p := tcpPacket("", "10.0.0.254", "eth0", "8.8.8.8", ruleset.CtUntracked)
	p.Local = nfttest.Addresses("10.0.0.254")
	_, first := judgePacket(t, table, ruleset.Output, p)
	_, second := judgePacket(t, table, ruleset.Postrouting, p)
	require.Len(t, append(first, second...), 1, "%s", table)
}

// TestUntrackedAfterDNAT: untracked policy at the outgoing interface also denies a translated
// packet of the host, by its original destination (S76), except at failsafe ports.
func TestUntrackedAfterDNAT(t *testing.T) { nfttest.EachForm(t, testUntrackedAfterDNAT) }

func testUntrackedAfterDNAT(t *testing.T, classes render.ClassesConfig) {
	s, key := hostState(), policy.Key{Kind: policy.KindPolicy, Name: "raw"}
	s.Sets["p:web"] = nfttest.PortSet(policy.ProtocolTCP, 81, "10.96.0.1")
	to := func(id string, action policy.Action, m dataplane.Match) dataplane.Rule {
		return dataplane.Rule{ID: id, Action: action, Protocol: policy.ProtocolTCP, Destination: m}
	}
	s.Policies[key] = &dataplane.Policy{Tier: "default", Untracked: true, Egress: []dataplane.Rule{
		to("a", policy.Allow, dataplane.Match{Ports: nfttest.PortList(policy.PortNumber(80))}),
		to("b", policy.Deny, dataplane.Match{
			Nets: nfttest.Nets("10.96.0.0/16"), Ports: nfttest.PortList(policy.PortRange(82, 179)),
		}),
		to("c", policy.Deny, dataplane.Match{
			Nets: nfttest.Nets("10.97.0.0/16"), PortSets: []dataplane.IPSetID{"p:web"},
		}),
		to("d", policy.Pass, dataplane.Match{
			Nets: nfttest.Nets("10.98.0.0/16"), PortSets: []dataplane.IPSetID{"p:web"},
		}),
		to("e", policy.Pass, dataplane.Match{
			Nets: nfttest.Nets("10.98.0.0/16"), NotPortSets: []dataplane.IPSetID{"p:web"},
		}),
		to("f", policy.Allow, dataplane.Match{Nets: nfttest.Nets("10.98.0.0/16")}),
	}}
	later := policy.Key{Kind: policy.KindPolicy, Name: "later"}
	s.Policies[later] = &dataplane.Policy{Tier: "later", Untracked: true, Egress: []dataplane.Rule{
		to("all", policy.Deny, dataplane.Match{Nets: nfttest.Nets("10.98.0.0/16")}),
	}}
	s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}] = &dataplane.HostEndpoint{
		Interface: "eth0", Profiles: []string{"all"},
		UntrackedEgress: []dataplane.TierPolicies{{
			Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key},
		}, {
			Tier: "later", DefaultAction: policy.Deny, Policies: []policy.Key{later},
		}},
	}
	table, errs := nfttest.Rendered(t, render.Config{Classes: classes}, nfttest.Transition(s))
	require.Empty(t, errs)
	for _, c := range []struct {
		name, oif, dst string
		port           uint16
		ct             uint32
		want           bool
	}{
		{"allowed", "eth0", "10.96.0.1", 80, ruleset.CtNew, true},
		{"no rule", "eth0", "10.96.0.1", 81, ruleset.CtNew, true},
		{"denied", "eth0", "10.96.0.1", 82, ruleset.CtNew, false},
		{"denied, of a known connection", "eth0", "10.96.0.1", 82, ruleset.CtEstablished, false},
		{"by another interface", "eth1", "10.96.0.1", 82, ruleset.CtNew, true},
		{"to a workload", "way1", "10.96.0.1", 82, ruleset.CtNew, true},
		{"failsafe port", "eth0", "10.96.0.1", 179, ruleset.CtNew, true},
		{"named port, which cannot be looked up: fewer packets pass", "eth0", "10.97.0.1", 82, ruleset.CtNew, false},
		{"passed by a named port, and denied by a later tier", "eth0", "10.98.0.1", 81, ruleset.CtNew, false},
		{"passed by another port", "eth0", "10.98.0.1", 83, ruleset.CtNew, false},
	} {
		p := translatedPacket(c.oif, "8.8.8.8")
		p.OrigDst, p.OrigPort, p.CT = netip.MustParseAddr(c.dst), c.port, c.ct
		got, _ := judgePacket(t, table, ruleset.Postrouting, p)
		require.Equal(t, c.want, got, "%s\n%s", c.name, table)
	}
}

// The chain that classifies original destinations exists only if there is untracked policy for
// packets of the host.
func TestOriginalDestinationsAreClassifiedWhereNeeded(t *testing.T) {
	p, key := newPlayer(t, render.Config{}), policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}
	classifies := func() (original, present bool) {
		table, errs := p.r.Table()
		require.Empty(t, errs)
		text := table.String()
		return strings.Contains(text, "chain classify-original-egress"), strings.Contains(text, "chain classify-egress")
	}
	p.flush(
		&dataplane.PolicyUpdate{Key: classPolicy("raw"), Policy: &dataplane.Policy{
			Tier: "t", Untracked: true, Egress: []dataplane.Rule{nfttest.AllowAll("all")},
		}},
		&dataplane.HostEndpointUpdate{Key: key, HostEndpoint: &dataplane.HostEndpoint{
			Interface: "eth0", UntrackedEgress: []dataplane.TierPolicies{{
				Tier: "t", DefaultAction: policy.Deny, Policies: []policy.Key{classPolicy("raw")},
			}},
		}},
		classSubject("way0"),
	)
	original, present := classifies()
	require.True(t, original)
	require.True(t, present)
	p.flush(&dataplane.HostEndpointRemove{Key: key})
	original, present = classifies()
	require.False(t, original)
	require.True(t, present)
}

// TestFloatingWithoutPools: without a pool of its family, the packets of a workload to other
// workloads keep its own address, whatever else is excluded from translation. The receiver's policy
// depends on this address.
func TestFloatingWithoutPools(t *testing.T) {
	s := hostState()
	// The only pool is of the other family.
	s.Pools["six"] = &dataplane.Pool{Name: "six", CIDR: nfttest.Nets("fd00::/48")[0], Type: dataplane.PoolDirect}
	s.Endpoints[nfttest.EndpointKey("way1")].NATs = []policy.IPNAT{{
		InternalIP: nfttest.Addresses("10.0.0.1")[0], ExternalIP: nfttest.Addresses("192.0.2.1")[0],
	}}
	table, errs := nfttest.Rendered(
		t, render.Config{NAT: render.NATConfig{Exclude: nfttest.Nets("172.16.0.0/12")}}, nfttest.Transition(s),
	)
	require.Empty(t, errs)
	require.Contains(t, table.String(), "@floating-self4")
	require.NotContains(t, table.String(), "172.16.0.0/12", "%s", table)
}
