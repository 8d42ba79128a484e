// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
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
	limited := func(name string, limit int) form {
		classes := render.ClassesConfig{MaxPerGroup: limit, MaxTotal: 1 << 30}
		return form{name: name, config: render.Config{Classes: classes}}
	}
	return []form{limited("under", 2*cost), limited("over", cost/2), limited("crossing", cost-1)}
}

// BenchmarkPolicyLimits compares a group within its limit with one over it. In some worlds, each
// address is a class, with its own outcome or a shared one. There, the benchmark measures an apply
// from empty, its kernel memory, and the change of one address. In a judged world, it measures
// packets.
func BenchmarkPolicyLimits(b *testing.B) {
	pin(b)
	c := &comparison{}
	for _, bits := range sized([]int{8, 10, 12}, []int{8}) {
		const address = "10.0.0.1/32"
		own := func(i int) uint16 { return 1000 + 2*uint16(i) }
		c.limitWorld(b, fmt.Sprintf("/own-outcomes/classes=%d", 1<<bits-1), address, nfttest.BitWorld(bits, own))
		c.limitWorld(b, fmt.Sprintf("/one-outcome/classes=%d", 1<<bits-1), address,
			nfttest.BitWorld(bits, func(int) uint16 { return 1000 }))
		c.limitWorld(b, fmt.Sprintf("/prefixes/classes=%d", 1<<bits-1), "10.0.0.0/13", prefixWorld(bits, own))
	}
	c.defaultLimits(b, sized(10, 6))
	for _, n := range sized([]int{10, 100, 1000}, []int{10}) {
		w := judged{policies: n}
		_, _, d := w.program(b, form{})
		cost := d.ClassStats().Largest.Cost
		for _, f := range limitForms(cost)[:2] {
			r, _, _ := w.program(b, f)
			c.packets(r, fmt.Sprintf("/policies=%d/cost=%d", n, cost), f.name)
		}
	}
	c.run(b, sized(5, 2))
}

// prefixWorld returns nfttest.BitWorld with overlapping lists of prefixes. Set i has the 2^i
// prefixes of 10.0.0.0/8 with a length of 9+i whose last bit is set.
func prefixWorld(bits int, port func(i int) uint16) []dataplane.Event {
	events := nfttest.BitWorld(bits, port)
	for i := range bits {
		set := &dataplane.IPSetUpdate{ID: dataplane.IPSetID(fmt.Sprint("s:", i))}
		for last := range uint32(1) << i {
			var addr [4]byte
			binary.BigEndian.PutUint32(addr[:], 10<<24|(2*last+1)<<(23-i))
			prefix := netip.PrefixFrom(netip.AddrFrom4(addr), 9+i)
			set.Members = append(set.Members, dataplane.Member{Prefix: prefix})
		}
		events[2*i] = set
	}
	return events
}

// defaultLimits measures as many groups as fit into the default limits. Each has the sets of
// nfttest.BitWorld and ports of its own, so all outcomes are distinct.
func (c *comparison) defaultLimits(b *testing.B, bits int) {
	var events []dataplane.Event
	for group := 0; ; group++ {
		more := append(slices.Clone(events), groupOf(bits, group)...)
		r, err := render.New(render.Config{})
		require.NoError(b, err)
		r.Update(dataplane.Batch{Events: more})
		if stats := r.ClassStats(); stats.ChainGroups > 0 || group == sized(100, 3) {
			break
		}
		events = more
	}
	name := fmt.Sprintf("/all-groups/classes=%d", 1<<bits-1)
	c.limitWorld(b, name, "10.0.0.1/32", events, form{name: "under"})
}

// groupOf returns nfttest.BitWorld with other names of policies and endpoint, and other ports.
func groupOf(bits, group int) []dataplane.Event {
	events := nfttest.BitWorld(bits, func(i int) uint16 { return uint16(1000 + 100*group + 2*i) })
	ep := events[len(events)-1].(*dataplane.EndpointUpdate)
	ep.Endpoint.Interface = fmt.Sprint("way", group)
	ep.Endpoint.Addresses = nfttest.Addresses(fmt.Sprint("10.255.0.", group+1))
	ep.Key = nfttest.EndpointKey(ep.Endpoint.Interface)
	for i := range bits {
		p := events[2*i+1].(*dataplane.PolicyUpdate)
		p.Key.Name = fmt.Sprint(group, "-", i)
		ep.Endpoint.Ingress[0].Policies[i] = p.Key
	}
	return events
}

// limitWorld measures the events from empty, and the change of one member of the set s:1. Without
// forms, those of limitForms are compared.
func (c *comparison) limitWorld(b *testing.B, name, member string, events []dataplane.Event, forms ...form) {
	first := dataplane.Batch{Events: append(events, &dataplane.InSync{})}
	r, err := render.New(render.Config{Classes: render.ClassesConfig{MaxPerGroup: 1 << 30, MaxTotal: 1 << 30}})
	require.NoError(b, err)
	r.Update(first)
	stats := r.ClassStats()
	name = fmt.Sprintf("%s/cost=%d", name, stats.Cost)
	if forms == nil {
		forms = limitForms(stats.Largest.Cost)
	}
	members := []dataplane.Member{{Prefix: netip.MustParsePrefix(member)}}
	for _, f := range forms {
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
				&dataplane.IPSetDelta{ID: "s:1", Added: members}, &dataplane.IPSetDelta{ID: "s:1", Removed: members},
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
