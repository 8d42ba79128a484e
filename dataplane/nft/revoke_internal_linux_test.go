// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/revoke"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// recorder is a revoker that records the changes, and needs the whole table after three deltas.
type recorder struct {
	revoker
	deltas int
	whole  *ruleset.Table
}

func (r *recorder) Changed(_ *ruleset.Delta, whole *ruleset.Table) {
	r.deltas++
	if whole != nil {
		r.deltas, r.whole = 0, whole
	}
}

func (r *recorder) NeedsTable() bool { return r.deltas >= 3 }

// While programming fails, the whole table replaces many deltas.
func TestRevokerGetsTableAfterManyFailures(t *testing.T) {
	nfttest.EachForm(t, testRevokerGetsTableAfterManyFailures)
}

func testRevokerGetsTableAfterManyFailures(t *testing.T, classes render.ClassesConfig) {
	r, err := render.New(render.Config{Classes: classes})
	require.NoError(t, err)
	record := &recorder{}
	d := &Dataplane{renderer: r, revoker: record}
	d.applier, err = applier.New(applier.Config{Name: "wayleave", NetNS: nstest.New(t).FD()})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.applier.Close()) }()
	failing, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 10 {
		r.Update(dataplane.Batch{Events: append(
			basics(), endpointUpdate("open", "way3", nil, nil, fmt.Sprintf("fd00::1:%x", i)),
		)})
		require.Error(t, d.write(failing, r.Flush()))
		require.LessOrEqual(t, record.deltas, 3)
	}
	require.NotNil(t, record.whole)
	require.NotEmpty(t, record.whole.Chains)
}

// BenchmarkJudge measures a change and a verdict with 10,000 policies of five rules on 200 endpoints, and
// a set of 250,000 addresses.
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
		keys[i] = objectKey(policy.KindPolicy, fmt.Sprint("p", i))
		events = append(events, &dataplane.PolicyUpdate{Key: keys[i], Policy: p})
	}
	for i := range local {
		name := fmt.Sprint("way", i)
		events = append(events, endpointUpdate(
			name, name, keys[i*policies/local:(i+1)*policies/local], nil, fmt.Sprint("10.0.0.", i),
		))
	}
	h, w := newAddressOwners(), newJudge(outside())
	r.Update(dataplane.Batch{Events: events})
	h.update(dataplane.Batch{Events: events})
	require.NoError(b, w.Apply(&revoke.Change{Deltas: []*ruleset.Delta{r.Flush()}, Addresses: h.takeChanges()}))
	flow := newFlow(protocolTCP, "203.0.113.9:4000", "10.0.0.77:65535", "") // all fifty policies say no
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
