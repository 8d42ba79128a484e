// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// sizes tells how much the renderer holds of each kind.
func sizes(r *Renderer) string {
	n := 0
	for _, e := range r.elements {
		n += len(e.elements) + len(e.changed)
	}
	return fmt.Sprint(len(r.sets), len(r.owners), len(r.tiers), len(r.subjects), len(r.interfaces), len(r.hosts.placed), len(r.hosts.subjects), r.hosts.count,
		len(r.nat.pools), len(r.nat.nodes), len(r.nat.floating), len(r.nat.internal), n, len(r.chains), len(r.changed), len(r.faults),
		len(r.dirtySets), len(r.dirtyOwners), len(r.dirtyTiers), len(r.dirtySubjects), len(r.dirtyInterfaces), len(r.dirtyFloating), len(r.changedSets), len(r.hashes))
}

// TestNothingStays: after objects that come and go, whatever was wrong with them, the renderer is as small as before.
func TestNothingStays(t *testing.T) { EachForm(t, testNothingStays) }

func testNothingStays(t *testing.T, classes ClassesConfig) {
	r, err := NewRenderer(RendererConfig{Classes: classes})
	require.NoError(t, err)
	r.Flush()
	start := sizes(r)
	for i := range 30 {
		pk := policy.Key{Kind: policy.KindPolicy, Name: fmt.Sprint("p", i)}
		gone := policy.Key{Kind: policy.KindPolicy, Name: fmt.Sprint("gone", i)}
		ek := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "n", Name: fmt.Sprint("e", i)}
		hk := policy.Key{Kind: policy.KindHostEndpoint, Name: fmt.Sprint("h", i)}
		id := dataplane.IPSetID(fmt.Sprint("s:", i))
		tiers := []dataplane.TierPolicies{{Tier: "t", DefaultAction: policy.Deny, Policies: []policy.Key{pk}}, {Tier: "u", DefaultAction: policy.Deny, Policies: []policy.Key{gone}}}
		a := netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", i))
		up := []dataplane.Event{
			&dataplane.IPSetUpdate{ID: id, Members: []dataplane.Member{{Prefix: netip.PrefixFrom(a, 32)}}},
			&dataplane.PolicyUpdate{Key: pk, Policy: &dataplane.Policy{Ingress: []dataplane.Rule{{ID: "x", Action: policy.Allow, Source: dataplane.Match{Sets: []dataplane.IPSetID{id, "s:never"}}}}}},
			&dataplane.ProfileUpdate{Name: fmt.Sprint("q", i), Profile: &dataplane.Profile{}},
			&dataplane.EndpointUpdate{Key: ek, Endpoint: &dataplane.Endpoint{
				Interface: fmt.Sprint("way", i), Addresses: []netip.Addr{a}, Ingress: tiers, Profiles: []string{fmt.Sprint("q", i), fmt.Sprint("r", i)},
				NATs: []policy.IPNAT{{InternalIP: a, ExternalIP: netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", i))}},
			}},
			&dataplane.HostEndpointUpdate{Key: hk, HostEndpoint: &dataplane.HostEndpoint{Interface: fmt.Sprint("eth", i), Ingress: tiers, Addresses: []netip.Addr{a}}},
		}
		down := []dataplane.Event{
			&dataplane.IPSetRemove{ID: id}, &dataplane.PolicyRemove{Key: pk}, &dataplane.ProfileRemove{Name: fmt.Sprint("q", i)},
			&dataplane.EndpointRemove{Key: ek}, &dataplane.HostEndpointRemove{Key: hk},
		}
		if i%2 == 0 {
			for l, r := 0, len(down)-1; l < r; l, r = l+1, r-1 {
				down[l], down[r] = down[r], down[l]
			}
		}
		r.Update(dataplane.Batch{Events: up})
		if i%3 > 0 {
			r.Flush()
		}
		if i%5 == 0 {
			for _, e := range down {
				r.Update(dataplane.Batch{Events: []dataplane.Event{e}})
				r.Flush()
			}
		} else {
			r.Update(dataplane.Batch{Events: down})
		}
		r.Flush()
		require.Equal(t, start, sizes(r), "i %d", i)
	}
}
