// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// TestServiceSets: for a destination, a rule matches address, protocol and port of a service's set
// together. For a source, it matches only the address (S77).
func TestServiceSets(t *testing.T) { nfttest.EachForm(t, testServiceSets) }

func testServiceSets(t *testing.T, classes render.ClassesConfig) {
	r, err := render.New(render.Config{Classes: classes})
	require.NoError(t, err)
	backend := dataplane.Member{Prefix: netip.MustParsePrefix("10.0.0.9/32")}
	port := dataplane.Member{Prefix: backend.Prefix, Protocol: policy.ProtocolTCP, Port: 80}
	pol := policy.Key{Kind: policy.KindPolicy, Name: "p"}
	endpoint := policy.Key{Kind: policy.KindWorkloadEndpoint, Name: "w"}
	tiers := []dataplane.TierPolicies{{Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{pol}}}
	r.Update(dataplane.Batch{Events: []dataplane.Event{
		&dataplane.IPSetUpdate{ID: "v:addrs", Members: []dataplane.Member{backend}},
		&dataplane.IPSetUpdate{ID: "v:ports", Type: dataplane.IPSetPorts, Members: []dataplane.Member{port}},
		&dataplane.PolicyUpdate{Key: pol, Policy: &dataplane.Policy{
			Tier: "default",
			Ingress: []dataplane.Rule{{Action: policy.Allow, Source: dataplane.Match{
				Sets: []dataplane.IPSetID{"v:addrs"},
			}}},
			Egress: []dataplane.Rule{{Action: policy.Allow, Destination: dataplane.Match{
				PortSets: []dataplane.IPSetID{"v:ports"},
			}}},
		}},
		&dataplane.EndpointUpdate{Key: endpoint, Endpoint: &dataplane.Endpoint{
			Interface: "way1", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Ingress: tiers, Egress: tiers,
		}},
		&dataplane.InSync{},
	}})
	table, errs := r.Table()
	require.Empty(t, errs)
	require.NoError(t, table.Validate())
	text := table.String()
	require.Contains(t, text, "elements = { 10.0.0.9 . tcp . 80 }")
	require.Contains(t, text, "ip daddr . meta l4proto . th dport @v4-ports ")
	if !classes.TestHook.HasChains() {
		require.Contains(t, text, "\tmap class4 {\n\t\ttype ipv4_addr : classid\n\t\telements = { 10.0.0.9 : ")
	}
	require.NotContains(t, text, "v6-", "the sets have no IPv6 address")
}
