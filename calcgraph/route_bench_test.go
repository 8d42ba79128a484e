// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

// bigNetwork returns a VXLAN pool and nodes with blocks. This node is one of them.
func bigNetwork(nodes, blocks int) []policy.Update {
	pool := &policy.IPPool{Name: "p", CIDR: netip.MustParsePrefix("10.0.0.0/8"), VXLANMode: policy.EncapCrossSubnet}
	updates := []policy.Update{update(pool)}
	for i := range nodes {
		n := &policy.Node{
			Name: fmt.Sprintf("node-%d", i), IPv4VXLANTunnelAddr: blockOf(i, 0, blocks).Addr(),
			Addresses: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, byte(i >> 8), byte(i)}), 24)},
		}
		if i == 0 {
			n.Name = node
		}
		updates = append(updates, update(n))
		for j := range blocks {
			updates = append(updates, update(&policy.Block{CIDR: blockOf(i, j, blocks), Node: n.Name}))
		}
	}
	return updates
}

// blockOf returns block j of node i, a /26.
func blockOf(i, j, blocks int) netip.Prefix {
	at := (i*blocks + j) << 6
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(at >> 16), byte(at >> 8), byte(at)}), 26)
}

// quiet returns a network that only counts events.
func quiet(t testing.TB) *network {
	n := newNetwork(t)
	n.quiet = true
	return n
}

func (n *network) flushOnce() {
	n.resolvers.tunnels.Flush()
	n.resolvers.routes.Flush()
}

func BenchmarkRoutes(b *testing.B) {
	const nodes, blocks = 5000, 4
	updates := bigNetwork(nodes, blocks)
	name := fmt.Sprintf("nodes=%d/blocks=%d/", nodes, nodes*blocks)
	b.Run(name+"load", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := quiet(b)
			n.update(updates...)
			n.flushOnce()
			require.Equal(b, 1+nodes*(2+blocks), n.resolvers.routes.Stats().Routes)
		}
	})
	n := quiet(b)
	n.update(updates...)
	n.flushOnce()
	cidr := blockOf(4321, 2, blocks)
	near, far := *updates[1+4000*(1+blocks)].Resource.(*policy.Node), *updates[1+
		4000*(1+blocks)].Resource.(*policy.Node)
	far.Addresses = []netip.Prefix{netip.MustParsePrefix("172.17.0.1/24")}
	loan := []policy.BorrowedAddress{{Address: cidr.Addr().Next(), Node: "node-7"}}
	pool := updates[0].Resource.(*policy.IPPool)
	nat := *pool
	nat.NATOutgoing = true
	for _, c := range []struct {
		name  string
		there []policy.Update
		back  []policy.Update
	}{
		{"block moves", []policy.Update{update(&policy.Block{CIDR: cidr, Node: "node-7"})}, []policy.Update{
			update(&policy.Block{CIDR: cidr, Node: "node-4321"}),
		}},
		{
			"block lends",
			[]policy.Update{update(&policy.Block{CIDR: cidr, Node: "node-4321", Borrowed: loan})},
			[]policy.Update{update(&policy.Block{CIDR: cidr, Node: "node-4321"})},
		},
		{"node moves", []policy.Update{update(&far)}, []policy.Update{update(&near)}},
		{"node repeated", []policy.Update{update(&near)}, []policy.Update{update(&near)}},
		{"pool changes", []policy.Update{update(&nat)}, []policy.Update{update(pool)}},
		{"nothing", nil, nil},
	} {
		b.Run(name+c.name, func(b *testing.B) {
			b.ReportAllocs()
			n.events = 0
			for b.Loop() {
				n.update(c.there...)
				n.flushOnce()
				c.there, c.back = c.back, c.there
			}
			b.ReportMetric(float64(n.events)/float64(b.N), "events/op")
		})
	}
}

// TestRouteAllocations: the allocations of a change do not depend on the size of the network.
func TestRouteAllocations(t *testing.T) {
	for _, nodes := range []int{50, 1000} {
		n := quiet(t)
		n.update(bigNetwork(nodes, 4)...)
		n.flushOnce()
		cidr := blockOf(30, 2, 4)
		there, back := update(&policy.Block{CIDR: cidr, Node: "node-7"}), update(&policy.Block{
			CIDR: cidr, Node: "node-30",
		})
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
			n.update(there)
			n.flushOnce()
			there, back = back, there
		}), 4.0, "a block moves, nodes=%d", nodes)
		require.Zero(t, testing.AllocsPerRun(100, n.flushOnce), "nothing to do, nodes=%d", nodes)
		pool := bigNetwork(1, 0)[0]
		require.Zero(t, testing.AllocsPerRun(100, func() {
			n.update(pool)
			n.flushOnce()
		}), "the pool again, nodes=%d", nodes)
	}
}

// TestRouteMemory: removed resources take no memory.
func TestRouteMemory(t *testing.T) {
	updates := bigNetwork(2000, 4)
	n := quiet(t)
	start := int64(heap())
	n.update(updates...)
	n.flushOnce()
	peak := int64(heap()) - start
	for _, u := range updates {
		n.update(policy.Update{Key: u.Key})
	}
	n.flushOnce()
	left := int64(heap()) - start
	require.True(t, n.resolvers.routes.Empty() && n.resolvers.tunnels.Empty())
	require.Less(t, left, peak/3, "bytes, of %d at the peak: maps do not shrink", peak)
	t.Logf("%d bytes a block at the peak, %d after", peak/8000, left/8000)
	runtime.KeepAlive(n)
	runtime.KeepAlive(updates)
}
