// SPDX-License-Identifier: Apache-2.0

package revoke_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/owners"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// BenchmarkJudge measures a change and a verdict with 10,000 policies of five rules on 200
// endpoints, and a set of 250,000 addresses.
func BenchmarkJudge(b *testing.B) {
	const policies, local, members = 10_000, 200, 250_000
	r, err := render.New(render.Config{})
	require.NoError(b, err)
	update := &dataplane.IPSetUpdate{ID: "s:all", Type: dataplane.IPSetNets}
	for i := range members {
		a := netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)})
		update.Members = append(update.Members, dataplane.Member{Prefix: netip.PrefixFrom(a, 32)})
	}
	events := []dataplane.Event{update}
	var keys [policies]policy.Key
	for i := range policies {
		p := &dataplane.Policy{Tier: "default"}
		for j := range 5 {
			p.Ingress = append(p.Ingress, dataplane.Rule{
				ID: fmt.Sprint(i, j), Action: policy.Allow, Protocol: policy.ProtocolTCP,
				Source:      dataplane.Match{Sets: []dataplane.IPSetID{"s:all"}},
				Destination: dataplane.Match{Ports: []policy.Port{policy.PortNumber(uint16(i))}},
			})
		}
		keys[i] = nfttest.ObjectKey(policy.KindPolicy, fmt.Sprint("p", i))
		events = append(events, &dataplane.PolicyUpdate{Key: keys[i], Policy: p})
	}
	for i := range local {
		name := fmt.Sprint("way", i)
		events = append(events, nfttest.EndpointUpdate(
			name, name, keys[i*policies/local:(i+1)*policies/local], nil, fmt.Sprint("10.0.0.", i),
		))
	}
	o, w := owners.New(), newJudge(outside())
	r.Update(dataplane.Batch{Events: events})
	o.Update(dataplane.Batch{Events: events})
	require.NoError(b, w.Apply(changeOf(r, o)))
	flow := newFlow(protocolTCP, "203.0.113.9:4000", "10.0.0.77:65535", "") // all fifty policies deny it
	b.Run("clone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.Clone()
		}
	})
	b.Run("first-flow", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.FreeScratch()
			require.Equal(b, conntrack.Denied, w.Judge(flow))
		}
	})
	b.Run("flow", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.Judge(flow)
		}
	})
}
