// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// large is a world in which each policy selects one endpoint in ten.
func large(n int) (verdict.World, verdict.Flow) {
	w := verdict.World{}
	for i := range n {
		addr := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		w.Set(
			&policy.WorkloadEndpoint{
				Name: fmt.Sprint("w", i), Node: "n", Interface: "veth", Addresses: []netip.Addr{addr},
				Labels: map[string]string{"app": fmt.Sprint(i % 10)},
			},
			&policy.Policy{
				Name: fmt.Sprint("p", i), Selector: fmt.Sprintf("app == '%d'", i%10),
				Ingress: []policy.Rule{{Action: policy.Allow, Source: policy.EntityRule{Selector: fmt.Sprintf("peer == '%d'", i)}}},
			},
		)
	}
	return w, verdict.Flow{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), Protocol: policy.ProtocolTCP, DstPort: 80}
}

func BenchmarkEvaluator(b *testing.B) {
	w, flow := large(10_000)
	b.Run("New/eps=10k/pols=10k", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			verdict.New(w)
		}
	})
	e := verdict.New(w)
	b.Run("Evaluate/eps=10k/pols=10k", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e.Evaluate(flow)
		}
	})
	b.Run("Explain/eps=10k/pols=10k", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e.Explain(flow)
		}
	})
}
