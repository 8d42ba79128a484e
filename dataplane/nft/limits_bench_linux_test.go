// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// limitForms are limits for a group of a cost: the group is within the limit, over it, or just over
// it. A change by one class crosses only the last limit: the group becomes lookups, and with the
// next change chains.
func limitForms(cost int) []form {
	limited := func(limit int) render.Config {
		return render.Config{Classes: render.ClassesConfig{MaxPerGroup: limit, MaxTotal: 1 << 30}}
	}
	return []form{{"under", limited(2 * cost)}, {"over", limited(cost / 2)}, {"crossing", limited(cost - 1)}}
}

// BenchmarkPolicyLimits compares a group within its limit with one over it. In a world in which
// each address is a class, with its own outcome or a shared one, it measures an apply from empty,
// its kernel memory, and the change of one address. In a judged world, it measures packets.
func BenchmarkPolicyLimits(b *testing.B) {
	pin(b)
	c := &contest{}
	for _, bits := range sized([]int{8, 10, 12}, []int{8}) {
		c.bitWorld(b, fmt.Sprintf("/own-outcomes/classes=%d", 1<<bits-1), bits, func(i int) uint16 {
			return 1000 + 2*uint16(i)
		})
		c.bitWorld(b, fmt.Sprintf("/one-outcome/classes=%d", 1<<bits-1), bits, func(int) uint16 { return 1000 })
	}
	for _, n := range sized([]int{10, 100, 1000}, []int{10}) {
		w := judged{policies: n}
		_, _, d := w.program(b, form{"", render.Config{}})
		cost := d.ClassStats().Largest.Cost
		for _, f := range limitForms(cost)[:2] {
			r, _, _ := w.program(b, f)
			c.packets(r, fmt.Sprintf("/policies=%d/cost=%d", n, cost), f.name)
		}
	}
	c.run(b, sized(5, 2))
}

// bitWorld measures a world of nfttest.BitWorld.
func (c *contest) bitWorld(b *testing.B, name string, bits int, port func(i int) uint16) {
	first := dataplane.Batch{Events: append(nfttest.BitWorld(bits, port), &dataplane.InSync{})}
	r, err := render.New(render.Config{Classes: render.ClassesConfig{MaxPerGroup: 1 << 30, MaxTotal: 1 << 30}})
	require.NoError(b, err)
	r.Update(first)
	cost := r.ClassStats().Largest.Cost
	name = fmt.Sprintf("%s/cost=%d", name, cost)
	member := nfttest.BitWorld(1, port)[0].(*dataplane.IPSetUpdate).Members
	for _, f := range limitForms(cost) {
		var used, changed float64
		c.add("program"+name, f.name, "ns", func(b *testing.B) float64 {
			d, err := nft.New(nft.Config{Renderer: f.config, NetNS: nstest.New(b).FD()})
			require.NoError(b, err)
			memory := kernelMemory(b)
			begin := time.Now()
			require.NoError(b, d.Apply(b.Context(), first))
			took := time.Since(begin)
			used = kernelMemory(b) - memory
			begin = time.Now()
			for _, e := range []dataplane.Event{
				&dataplane.IPSetDelta{ID: "s:1", Added: member}, &dataplane.IPSetDelta{ID: "s:1", Removed: member},
			} {
				require.NoError(b, d.ApplyVisible(b.Context(), dataplane.Batch{Events: []dataplane.Event{e}}))
			}
			changed = float64(time.Since(begin)) / 2
			require.NoError(b, d.Close())
			return float64(took)
		})
		c.add("change"+name, f.name, "ns", func(*testing.B) float64 { return changed })
		if f.name == "crossing" {
			continue
		}
		c.add("memory"+name, f.name, "B", func(*testing.B) float64 { return used })
	}
}
