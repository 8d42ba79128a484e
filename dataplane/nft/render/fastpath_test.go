// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// The verdict on a forwarded packet of an established connection does not depend on policy. The
// verdict stays the same if all chains of policy drop everything.
func TestKnownPacketsMeetNoPolicy(t *testing.T) { nfttest.EachForm(t, testKnownPacketsMeetNoPolicy) }

func testKnownPacketsMeetNoPolicy(t *testing.T, classes render.ClassesConfig) {
	for _, s := range scenarios(classes) {
		t.Run(s.Name, func(t *testing.T) {
			table, _ := s.rendered(t)
			dropping := *table
			dropping.Chains = slices.Clone(table.Chains)
			replaced := 0
			for i, c := range dropping.Chains {
				if !render.AffectsEstablished(&ruleset.Delta{Chains: []*ruleset.Chain{c}}) {
					require.Nil(t, c.Hook, c.Name)
					dropping.Chains[i] = &ruleset.Chain{Name: c.Name, Rules: []ruleset.Rule{
						{Statements: []ruleset.Statement{ruleset.Verdict{Kind: ruleset.Drop}}},
					}}
					replaced++
				}
			}
			if s.Name == "example" {
				require.NotZero(t, replaced)
			}
			before, after := newSimTable(t, table).after, newSimTable(t, &dropping).after
			interfaces := []string{"way1", "way2", "wayx", "eth0"}
			addresses := []string{"10.0.0.1", "10.0.0.2", "192.0.2.9"}
			for _, in := range interfaces {
				for _, out := range interfaces {
					for _, src := range addresses {
						for _, dst := range addresses {
							p := tcpPacket(in, src, out, dst, ruleset.CtEstablished)
							want := p.Run(t, before, ruleset.Forward).Allowed
							require.Equal(t, want, p.Run(t, after, ruleset.Forward).Allowed, "%+v", p)
						}
					}
				}
			}
		})
	}
}

// Changes of policies and IP sets do not affect established connections. Changes of endpoints, host
// endpoints and nodes do.
func TestAffectsEstablished(t *testing.T) { nfttest.EachForm(t, testAffectsEstablished) }

func testAffectsEstablished(t *testing.T, classes render.ClassesConfig) {
	r, err := render.New(render.Config{Classes: classes, Host: policy.HostConfig{VXLANFromNodesOnly: true}})
	require.NoError(t, err)
	at := dptest.NewState()
	step := func(to dptest.State, want bool, why string) {
		t.Helper()
		r.Update(dptest.Transition(at, to))
		delta := r.Flush()
		require.Equal(t, want, render.AffectsEstablished(delta), "%s: %v", why, delta)
		at = to.Clone()
	}
	s := exampleState()
	web, key := nfttest.PolicyKey("allow-web"), nfttest.EndpointKey("web-1")
	step(s, true, "the first table")
	s.Sets["s:shop"] = nfttest.NetSet("10.0.0.3/32")
	step(s, false, "a member of an IP set is removed")
	s.Sets["s:shop"] = nfttest.NetSet("10.0.0.3/32", "10.0.0.9/32", "10.7.0.0/16")
	step(s, false, "two others, one of them a prefix")
	changed := *s.Policies[web]
	changed.Ingress = append([]dataplane.Rule{{
		ID: "new", Action: policy.Deny, Protocol: policy.ProtocolSCTP, Destination: dataplane.Match{
			Nets: nfttest.Nets("10.0.0.1/32"),
		},
	}}, changed.Ingress...)
	s.Policies[web] = &changed
	step(s, false, "another rule")
	step(s, false, "nothing")
	rich := *s.Policies[web]
	rich.Ingress = append([]dataplane.Rule{
		{ID: "nets", Action: policy.Allow, Source: dataplane.Match{
			Nets: nfttest.Nets(
				"10.8.0.0/24", "10.8.2.0/24", "10.8.4.0/24", "fd00:8::/64", "fd00:9::/64", "fd00:a::/64",
			),
		}},
		{ID: "ports", Action: policy.Allow, Protocol: policy.ProtocolTCP, Destination: dataplane.Match{
			Ports: []policy.Port{{First: 80, Last: 90}, {First: 443, Last: 450}, {First: 8080, Last: 8090}},
		}},
	}, rich.Ingress...)
	s.Policies[web] = &rich
	step(s, false, "rules with lists")
	s.Policies[web] = &changed
	step(s, false, "without these rules")
	down := *s.Endpoints[key]
	down.Down = true
	s.Endpoints[key] = &down
	step(s, true, "the endpoint is down")
	delete(s.Endpoints, key)
	step(s, true, "the endpoint is removed")
	s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "eth0"}] = &dataplane.HostEndpoint{
		Interface: "eth0",
	}
	step(s, true, "a host endpoint")
}

// FastPathAddresses returns the own addresses of endpoints that are up, unless other policy decides
// about packets of established connections.
func TestFastPathAddresses(t *testing.T) {
	known := func(cfg render.Config, s dptest.State) map[string][]netip.Addr {
		r, err := render.New(cfg)
		require.NoError(t, err)
		r.Update(nfttest.Transition(s))
		return r.FastPathAddresses()
	}
	s := hostState()
	all := known(render.Config{}, s)
	require.NotEmpty(t, all)
	for key, e := range s.Endpoints {
		if e.Down {
			require.NotContains(t, all, e.Interface)
			continue
		}
		require.ElementsMatch(t, e.Addresses, all[e.Interface], key)
		down := s.Clone()
		changed := *e
		changed.Down = true
		down.Endpoints[key] = &changed
		require.NotContains(t, known(render.Config{}, down), e.Interface)
	}
	require.Nil(t, known(render.Config{ReversePath: true}, s))
	require.Nil(t, known(render.Config{InterfacePrefix: "other"}, s), "interfaces without the prefix")

	raw := policy.Key{Kind: policy.KindPolicy, Name: "raw"}
	tiers := []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Pass, Policies: []policy.Key{raw}}}
	for name, h := range map[string]*dataplane.HostEndpoint{
		"untracked":  {Interface: "eth0", UntrackedIngress: tiers},
		"pre-DNAT":   {Interface: "eth0", PreDNATIngress: tiers},
		"by address": {Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}},
	} {
		with := s.Clone()
		with.Policies[raw] = &dataplane.Policy{
			Tier: "default", Untracked: name == "untracked", PreDNAT: name == "pre-DNAT",
			Ingress: []dataplane.Rule{{ID: "all", Action: policy.Deny}},
		}
		with.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}] = h
		require.Nil(t, known(render.Config{}, with), name)
	}
}
