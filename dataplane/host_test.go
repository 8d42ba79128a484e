// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

func fullHostEndpoint() *dataplane.HostEndpoint {
	tier := func(name string) []dataplane.TierPolicies {
		return []dataplane.TierPolicies{
			{Tier: "default", DefaultAction: policy.Pass, Policies: []policy.Key{policyKey(name)}},
		}
	}
	return &dataplane.HostEndpoint{
		Interface: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("192.168.0.1")}, Profiles: []string{"p"},
		Ingress: tier("i"), Egress: tier("e"), ForwardIngress: tier("fi"), ForwardEgress: tier("fe"),
		UntrackedIngress: tier("ui"), UntrackedEgress: tier("ue"), PreDNATIngress: tier("d"),
	}
}

func TestHostEndpointStrings(t *testing.T) {
	key := policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}
	batch := dataplane.Batch{Events: []dataplane.Event{
		&dataplane.PolicyUpdate{
			Key: policyKey("u"), Policy: &dataplane.Policy{Tier: "t", Forward: true, Untracked: true},
		},
		&dataplane.PolicyUpdate{
			Key: policyKey("d"), Policy: &dataplane.Policy{Tier: "t", Staged: true, Forward: true, PreDNAT: true},
		},
		&dataplane.HostEndpointUpdate{Key: key, HostEndpoint: fullHostEndpoint()},
		&dataplane.HostEndpointUpdate{Key: key, HostEndpoint: &dataplane.HostEndpoint{}},
		&dataplane.HostEndpointUpdate{Key: key},
		&dataplane.HostEndpointRemove{Key: key},
	}}
	require.Equal(t, `policy Policy/u tier t forward untracked: no rules
policy Policy/d tier t staged forward pre-dnat: no rules
host endpoint HostEndpoint/h eth0 [192.168.0.1] `+
		`ingress default:pass[Policy/i] egress default:pass[Policy/e] profiles [p] `+
		`forward-ingress default:pass[Policy/fi] forward-egress default:pass[Policy/fe] `+
		`untracked-ingress default:pass[Policy/ui] untracked-egress default:pass[Policy/ue] `+
		`pre-dnat default:pass[Policy/d]
host endpoint HostEndpoint/h - [] ingress - egress - profiles []
host endpoint HostEndpoint/h nil
remove host endpoint HostEndpoint/h`, batch.String())
}

func TestHostEndpointEqual(t *testing.T) {
	var none *dataplane.HostEndpoint
	require.True(t, none.Equal(nil))
	require.False(t, none.Equal(fullHostEndpoint()))
	require.True(t, fullHostEndpoint().Equal(fullHostEndpoint()))
	for name, change := range map[string]func(h *dataplane.HostEndpoint){
		"interface": func(h *dataplane.HostEndpoint) { h.Interface = "eth1" },
		"addresses": func(h *dataplane.HostEndpoint) { h.Addresses = nil },
		"profiles":  func(h *dataplane.HostEndpoint) { h.Profiles = nil },
		"ingress":   func(h *dataplane.HostEndpoint) { h.Ingress = nil },
		"egress":    func(h *dataplane.HostEndpoint) { h.Egress[0].Tier = "x" },
		"forward":   func(h *dataplane.HostEndpoint) { h.ForwardIngress[0].DefaultAction = policy.Deny },
		"back":      func(h *dataplane.HostEndpoint) { h.ForwardEgress[0].Policies[0] = policyKey("x") },
		"untracked": func(h *dataplane.HostEndpoint) { h.UntrackedIngress = append(h.UntrackedIngress, h.Ingress...) },
		"and back":  func(h *dataplane.HostEndpoint) { h.UntrackedEgress = nil },
		"pre-DNAT":  func(h *dataplane.HostEndpoint) { h.PreDNATIngress = nil },
	} {
		h := fullHostEndpoint()
		change(h)
		require.False(t, h.Equal(fullHostEndpoint()), name)
		require.False(t, fullHostEndpoint().Equal(h), name)
	}
}

func TestEqualComparesFlagsAndSources(t *testing.T) {
	for name, p := range map[string]dataplane.Policy{
		"forward": {Forward: true}, "untracked": {Untracked: true}, "pre-DNAT": {PreDNAT: true},
	} {
		require.False(t, p.Equal(&dataplane.Policy{}), name)
	}
	e := fullEndpoint()
	e.NATs = []policy.IPNAT{{ExternalIP: netip.MustParseAddr("192.0.2.1"), InternalIP: netip.MustParseAddr("10.0.0.1")}}
	require.False(t, e.Equal(fullEndpoint()))
	require.Contains(t, e.String(), " nat 192.0.2.1>10.0.0.1")
	e.NATs, e.AllowedSources = nil, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	require.False(t, e.Equal(fullEndpoint()))
	require.Contains(t, e.String(), " sources [10.0.0.0/8]")
}

// Equal does not read lists that two endpoints share, so it is fast however long they are.
func TestEqualOfSharedLists(t *testing.T) {
	a, b := fullEndpoint(), fullEndpoint()
	keys := make([]policy.Key, 1_000_000)
	a.Ingress = []dataplane.TierPolicies{{Tier: "t", Policies: keys}}
	b.Ingress = a.Ingress
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for range 10_000 { // it would take a minute to compare every key
			if !a.Equal(b) {
				t.Fail()
			}
		}
	}))
}
