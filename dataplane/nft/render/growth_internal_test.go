// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/testhook"
	"github.com/wayleave/wayleave/policy"
)

// forms equals nfttest.Forms, which this test cannot import.
func forms() []ClassesConfig {
	return []ClassesConfig{{}, {TestHook: testhook.Chains()}}
}

func eachForm(t *testing.T, test func(*testing.T, ClassesConfig)) {
	t.Helper()
	for _, classes := range forms() {
		t.Run(fmt.Sprintf("%+v", classes), func(t *testing.T) { test(t, classes) })
	}
}

// sizes returns the number of entries of each kind in the renderer, except caches and scratch
// space.
func sizes(r *Renderer) map[string]int {
	return FieldSizes(r, "github.com/wayleave/wayleave/dataplane/nft/",
		"classIndex.edits", "classIndex.unions", "classIndex.predicates", "classIndex.key", "indexes.scratch",
		"measurement.sizes",
		"LocalAddresses.sorted")
}

// After objects are added and removed, valid or not, the renderer is as small as before.
func TestRemovedObjectsLeaveNothing(t *testing.T) { eachForm(t, testRemovedObjectsLeaveNothing) }

func testRemovedObjectsLeaveNothing(t *testing.T, classes ClassesConfig) {
	r, err := New(Config{Classes: classes})
	require.NoError(t, err)
	r.Flush()
	start := sizes(r)
	for i := range 30 {
		pk := policy.Key{Kind: policy.KindPolicy, Name: fmt.Sprint("p", i)}
		gone := policy.Key{Kind: policy.KindPolicy, Name: fmt.Sprint("gone", i)}
		good := policy.Key{Kind: policy.KindPolicy, Name: fmt.Sprint("good", i)}
		gk := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "n", Name: fmt.Sprint("g", i)}
		ek := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "n", Name: fmt.Sprint("e", i)}
		hk := policy.Key{Kind: policy.KindHostEndpoint, Name: fmt.Sprint("h", i)}
		id := dataplane.IPSetID(fmt.Sprint("s:", i))
		tiers := []dataplane.TierPolicies{
			{Tier: "t", DefaultAction: policy.Deny, Policies: []policy.Key{pk}},
			{Tier: "u", DefaultAction: policy.Deny, Policies: []policy.Key{gone}},
		}
		a := netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", i))
		up := []dataplane.Event{
			&dataplane.IPSetUpdate{ID: id, Members: []dataplane.Member{{Prefix: netip.PrefixFrom(a, 32)}}},
			&dataplane.PolicyUpdate{Key: pk, Policy: &dataplane.Policy{Ingress: []dataplane.Rule{{
				ID: "x", Action: policy.Allow, Source: dataplane.Match{Sets: []dataplane.IPSetID{id, "s:never"}},
			}}}},
			&dataplane.PolicyUpdate{Key: good, Policy: &dataplane.Policy{Ingress: []dataplane.Rule{
				{ID: "y", Action: policy.Allow, Source: dataplane.Match{Sets: []dataplane.IPSetID{id}}},
			}}},
			&dataplane.EndpointUpdate{Key: gk, Endpoint: &dataplane.Endpoint{
				Interface: fmt.Sprint("good", i),
				Ingress: []dataplane.TierPolicies{{
					Tier: "t", DefaultAction: policy.Deny, Policies: []policy.Key{good},
				}},
			}},
			&dataplane.ProfileUpdate{Name: fmt.Sprint("q", i), Profile: &dataplane.Profile{}},
			&dataplane.EndpointUpdate{Key: ek, Endpoint: &dataplane.Endpoint{
				Interface: fmt.Sprint("way", i), Addresses: []netip.Addr{a}, Ingress: tiers,
				Profiles: []string{fmt.Sprint("q", i), fmt.Sprint("r", i)},
				NATs: []policy.IPNAT{{
					InternalIP: a, ExternalIP: netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", i)),
				}},
			}},
			&dataplane.HostEndpointUpdate{Key: hk, HostEndpoint: &dataplane.HostEndpoint{
				Interface: fmt.Sprint("eth", i), Ingress: tiers, Addresses: []netip.Addr{a},
			}},
		}
		down := []dataplane.Event{
			&dataplane.IPSetRemove{ID: id}, &dataplane.PolicyRemove{Key: pk},
			&dataplane.ProfileRemove{Name: fmt.Sprint("q", i)},
			&dataplane.EndpointRemove{Key: ek}, &dataplane.HostEndpointRemove{Key: hk},
			&dataplane.PolicyRemove{Key: good}, &dataplane.EndpointRemove{Key: gk},
		}
		if i%2 == 0 {
			for l, r := 0, len(down)-1; l < r; l, r = l+1, r-1 {
				down[l], down[r] = down[r], down[l]
			}
		}
		if i%4 == 1 {
			r.SetInterfaces(map[string]Interface{
				fmt.Sprint("way", i): {Master: Master{Name: "br0"}}, "other": {Master: Master{Name: "br0"}},
			})
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
		r.SetInterfaces(nil)
		require.Equal(t, start, sizes(r), "i %d", i)
	}
}
