// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// large returns a world of n endpoints and n policies. Each policy selects one endpoint in groups,
// and none allows, so that all are evaluated.
func large(n, groups int) (verdict.World, verdict.Flow) {
	w := verdict.World{}
	for i := range n {
		addr := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		w.Set(
			&policy.WorkloadEndpoint{
				Name: fmt.Sprint("w", i), Node: "n", Interface: fmt.Sprint("veth", i), Addresses: []netip.Addr{addr},
				Labels: map[string]string{"app": fmt.Sprint(i % groups)},
			},
			&policy.Policy{
				Name: fmt.Sprint("p", i), Selector: fmt.Sprintf("app == '%d'", i%groups),
				Ingress: []policy.Rule{
					{Action: policy.Allow, Source: policy.EntityRule{Selector: fmt.Sprintf("peer == '%d'", i)}},
				},
			},
		)
	}
	return w, verdict.Flow{
		Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), Protocol: policy.ProtocolTCP,
		DstPort: 80,
	}
}

// BenchmarkEvaluator measures the construction of an Evaluator, and one flow in three cases:
//
//   - 1,000 of 10,000 policies select the destination of the flow.
//   - All policies select the destination.
//   - The flow passes a node. All policies select the destination, and the host endpoint at which
//     the flow enters.
//
// Some variants have staged policies, which replace others with the same name and select the same
// endpoints.
func BenchmarkEvaluator(b *testing.B) {
	for _, c := range []struct {
		name   string
		groups int
		staged int
		atNode bool
	}{
		{"eps=10k/pols=10k/selecting=1k", 10, 0, false},
		{"eps=10k/pols=10k/selecting=10k", 1, 0, false},
		{"eps=10k/pols=10k/selecting=10k/staged=1", 1, 1, false},
		{"eps=10k/pols=10k/selecting=10k/staged=1k", 1, 1_000, false},
		{"eps=10k/pols=10k/selecting=10k/node", 1, 0, true},
		{"eps=10k/pols=10k/selecting=10k/node/staged=1", 1, 1, true},
		{"eps=10k/pols=10k/selecting=10k/node/staged=1k", 1, 1_000, true},
	} {
		w, flow := large(10_000, c.groups)
		for i := range c.staged {
			key := policy.Key{Kind: policy.KindPolicy, Name: fmt.Sprint("p", i*10)}
			p := policy.Clone(w[key]).(*policy.Policy)
			p.Staged = true
			w.Set(p)
		}
		if c.atNode {
			flow.Node, flow.InInterface, flow.Src = "n", "eth0", netip.MustParseAddr("192.0.2.1")
			w.Set(&policy.HostEndpoint{
				Name: "h", Node: "n", InterfaceName: "eth0", Labels: map[string]string{"app": "0"},
			})
			for _, r := range w {
				if p, ok := r.(*policy.Policy); ok {
					p.ApplyOnForward = true
				}
			}
		}
		b.Run("New/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				verdict.New(w)
			}
		})
		e := verdict.New(w)
		b.Run("Evaluate/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e.Evaluate(flow)
			}
		})
		b.Run("Explain/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e.Explain(flow)
			}
		})
	}
}
