// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/policy"
)

// heapKB returns the heap memory in use.
func heapKB() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc) >> 10
}

// manyNodes returns nodes with an address, a tunnel and two blocks each, and a pool.
func manyNodes(count int) []policy.Resource {
	all := []policy.Resource{
		&policy.IPPool{Name: "p", CIDR: netip.MustParsePrefix("10.0.0.0/8"), VXLANMode: policy.EncapAlways},
	}
	for i := range count {
		high, low := byte(i>>8), byte(i)
		name := fmt.Sprint("node-", i)
		all = append(
			all,
			&policy.Node{
				Name: name, Addresses: []netip.Prefix{
					netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, high, low}), 16),
				},
				IPv4VXLANTunnelAddr: netip.AddrFrom4([4]byte{10, 200, high, low}),
			},
			&policy.Block{CIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, high, low, 0}), 26), Node: name},
			&policy.Block{CIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, high, low, 64}), 26), Node: name},
		)
	}
	return all
}

// Removed resources take no memory, with and without an earlier InSync.
func TestRoutesReleaseMemory(t *testing.T) {
	for _, inSync := range []bool{false, true} {
		t.Run(fmt.Sprint(inSync), func(t *testing.T) {
			graph, err := calcgraph.New(calcgraph.Config{Node: node})
			require.NoError(t, err)
			if inSync {
				graph.InSync()
			}
			all := manyNodes(5000)
			before := heapKB()
			for _, r := range all {
				graph.Update(policy.Update{Key: r.Key(), Resource: r})
			}
			graph.Flush()
			full := heapKB() - before
			for _, r := range all {
				graph.Update(policy.Update{Key: r.Key()})
			}
			if inSync {
				graph.Flush()
			}
			require.Zero(t, graph.Stats().Routes)
			graph.Flush()
			left := heapKB() - before
			t.Logf("%d KB of %d", left, full)
			require.Less(t, left, full/20)
			runtime.KeepAlive(all)
			runtime.KeepAlive(graph)
		})
	}
}
