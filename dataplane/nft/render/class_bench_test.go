// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// hostMember is a full-length address as a member.
func hostMember(a netip.Addr) dataplane.Member {
	return dataplane.Member{Prefix: netip.PrefixFrom(a, a.BitLen())}
}

// wideGroup returns the events of one endpoint with many policies of five rules. Each rule has its
// own set with one address.
func wideGroup(policies int) (events []dataplane.Event, edited func(i int) dataplane.Event) {
	tier := dataplane.TierPolicies{Tier: "default", DefaultAction: policy.Deny}
	a := netip.MustParseAddr("10.0.0.0")
	build := func(i, port int) *dataplane.PolicyUpdate {
		p := &dataplane.Policy{Tier: "default"}
		for j := range 5 {
			p.Ingress = append(p.Ingress, dataplane.Rule{
				ID: fmt.Sprint(i, "-", j), Action: policy.Allow, Protocol: 6,
				Source:      dataplane.Match{Sets: []dataplane.IPSetID{dataplane.IPSetID(fmt.Sprint("s:", i, "-", j))}},
				Destination: dataplane.Match{Ports: []policy.Port{policy.PortNumber(uint16(port))}},
			})
		}
		return &dataplane.PolicyUpdate{Key: policy.Key{Kind: policy.KindPolicy, Name: fmt.Sprint("p", i)}, Policy: p}
	}
	for i := range policies {
		for j := range 5 {
			a = a.Next()
			events = append(events, &dataplane.IPSetUpdate{
				ID: dataplane.IPSetID(fmt.Sprint("s:", i, "-", j)), Members: []dataplane.Member{hostMember(a)},
			})
		}
		p := build(i, 1+i)
		tier.Policies = append(tier.Policies, p.Key)
		events = append(events, p)
	}
	events = append(events, &dataplane.EndpointUpdate{Key: nfttest.EndpointKey("way0"), Endpoint: &dataplane.Endpoint{
		Interface: "way0", Addresses: []netip.Addr{netip.MustParseAddr("10.9.9.9")},
		Ingress: []dataplane.TierPolicies{tier},
	}})
	return events, func(i int) dataplane.Event { return build(i%policies, 1+(i%policies+i/policies+1)%60000) }
}

// BenchmarkClasses measures the Renderer with many classes: a group that distinguishes 50,000, and
// a set of 10,000 prefixes.
func BenchmarkClasses(b *testing.B) {
	events, edited := wideGroup(10_000)
	cfg := render.Config{Classes: render.ClassesConfig{MaxPerGroup: 1 << 20}} // the group costs 150,000
	b.Run("group of 50k/from nothing", func(b *testing.B) {
		for b.Loop() {
			r, err := render.New(cfg)
			require.NoError(b, err)
			r.Update(dataplane.Batch{Events: events})
			sink = r.Flush()
		}
	})
	r, err := render.New(cfg)
	require.NoError(b, err)
	r.Update(dataplane.Batch{Events: events})
	r.Flush()
	require.Zero(b, r.ClassStats().ChainGroups)
	step := func(b *testing.B, next func(i int) dataplane.Event) {
		for i := 0; b.Loop(); i++ {
			r.Update(dataplane.Batch{Events: []dataplane.Event{next(i)}})
			sink = r.Flush()
		}
	}
	b.Run("group of 50k/policy edit", func(b *testing.B) { step(b, edited) })
	b.Run("group of 50k/address moves", func(b *testing.B) {
		step(b, func(i int) dataplane.Event {
			m := []dataplane.Member{hostMember(netip.MustParseAddr("10.0.0.1"))}
			if i%2 == 0 {
				return &dataplane.IPSetDelta{ID: "s:0-0", Removed: m}
			}
			return &dataplane.IPSetDelta{ID: "s:0-0", Added: m}
		})
	})
	// The policies of the group above, and one more with a set of 10,000 prefixes.
	var nets []dataplane.Member
	for i := range 10_000 {
		nets = append(nets, dataplane.Member{Prefix: netip.PrefixFrom(
			netip.AddrFrom4([4]byte{20, byte(i >> 7), byte(i << 1), 0}), 24,
		)})
	}
	r.Update(dataplane.Batch{Events: []dataplane.Event{
		&dataplane.IPSetUpdate{ID: "s:nets", Members: nets},
		&dataplane.PolicyUpdate{
			Key: policy.Key{Kind: policy.KindPolicy, Name: "nets"},
			Policy: &dataplane.Policy{Ingress: []dataplane.Rule{
				{ID: "n", Action: policy.Allow, Source: dataplane.Match{Sets: []dataplane.IPSetID{"s:nets"}}},
			}},
		},
		&dataplane.EndpointUpdate{Key: nfttest.EndpointKey("way1"), Endpoint: &dataplane.Endpoint{
			Interface: "way1", Addresses: []netip.Addr{netip.MustParseAddr("10.9.9.8")},
			Ingress: []dataplane.TierPolicies{{
				Tier: "t", DefaultAction: policy.Deny, Policies: []policy.Key{{Kind: policy.KindPolicy, Name: "nets"}},
			}},
		}},
	}})
	r.Flush()
	b.Run("set of 10k prefixes/one changes", func(b *testing.B) {
		step(b, func(i int) dataplane.Event {
			if i%2 == 0 {
				return &dataplane.IPSetDelta{ID: "s:nets", Removed: nets[5000:5001]}
			}
			return &dataplane.IPSetDelta{ID: "s:nets", Added: nets[5000:5001]}
		})
	})
}

// sink keeps a benchmark from being optimized away.
var sink *ruleset.Delta
