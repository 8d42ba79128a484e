// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/worldtext"
	"github.com/wayleave/wayleave/policy"
)

// Resources of several cases: this node and a remote one in one subnet, a VXLAN pool, a block of
// each.
const (
	vxlanPool  = "pool p cidr 10.0.0.0/16 vxlan Always nat\n"
	remoteNode = "node remotehostname addrs 192.168.0.2/24 tunnel 10.0.1.1\n"
	localNode  = "node n1 addrs 192.168.0.1/24 tunnel 10.0.0.1\n"

	remoteBlock = "block 10.0.1.0/29 node remotehostname\n"
	localBlock  = "block 10.0.0.0/29 node n1\n"
)

// TestRouteScripts plays the scripts of the numbered cases to these two nodes alone. The output
// equals that of the graph in TestScripts, without repetitions. After all resources are removed,
// the nodes are empty.
func TestRouteScripts(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "route_*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			p, n := newPipeline(t), newNetwork(t)
			p.graph.InSync()
			for i, st := range readScript(t, path).steps {
				p.update(st.updates...)
				p.flush()
				n.update(st.updates...)
				n.flush()
				require.Equal(t, networkOf(p.mirror.State()), n.state(), "step %d", i+1)
				n.events = 0
				n.flush()
				n.update(st.updates...)
				n.flush()
				require.Zero(t, n.events, "sent twice in step %d", i+1)
			}
			for k := range n.current {
				n.update(policy.Update{Key: k})
			}
			n.flush()
			n.requireEmpty()
		})
	}
}

// TestTunnelMAC is S165.
func TestTunnelMAC(t *testing.T) {
	n := newNetwork(t)
	n.update(mustParse(t, "node remotehostname addrs 192.168.0.2/24,fd99::2/64 tunnel 10.0.1.1 tunnel6 fd00::1\n"+
		"node set addrs 192.168.0.3/24,fd99::3/64 tunnel 10.0.2.1 tunnel6 fd00::2 mac 02:AA:00:00:00:04 mac6 "+
		"02:aa:00:00:00:06")...)
	n.flush()
	mac := func(name string, version int) string {
		return n.tunnels[dataplane.TunnelKey{Node: name, IPVersion: version}].MAC
	}
	require.Equal(t, "66:3e:ca:a4:db:65", mac("remotehostname", 4))
	require.Equal(t, "66:a0:68:c9:4c:79", mac("remotehostname", 6))
	require.Equal(t, "02:aa:00:00:00:04", mac("set", 4), "a configured address, in the canonical form")
	require.Equal(t, "02:aa:00:00:00:06", mac("set", 6))
}

// TestRoutePermutations applies a few updates in all orders, with a flush after each or at the end
// (S100, S163).
func TestRoutePermutations(t *testing.T) {
	for name, text := range map[string]string{
		"pool, block and borrower": vxlanPool + localNode + remoteNode +
			"block 10.0.1.0/29 node remotehostname borrowed 10.0.1.2=n1\nendpoint n/w addrs 10.0.1.2\ndelete Node/r2\n",
		"cross-subnet": "pool p cidr 10.0.0.0/16 vxlan CrossSubnet\n" + localNode + remoteNode + remoteBlock +
			"pool inner cidr 10.0.1.0/24 ipip CrossSubnet\n" + "node r2 addrs 192.168.0.2/24 tunnel 10.0.1.1\n",
		"S163": "pool p cidr 10.0.0.7/32 vxlan Always\npool q cidr 10.0.0.7/32 ipip Always\n" +
			"block 10.0.0.7/32 node remotehostname\n" + remoteNode +
			"node r2 addrs 10.0.0.7/24\nendpoint n/w addrs 10.0.0.7\n",
		"nested blocks": vxlanPool + remoteNode + "block 10.0.1.0/24 node n1\nblock 10.0.1.0/29 node remotehostname\n" +
			"block 10.0.1.4/30\nendpoint n/w addrs 10.0.1.5\n",
	} {
		t.Run(name, func(t *testing.T) {
			updates := mustParse(t, text)
			straight := newNetwork(t)
			straight.update(updates...)
			straight.flush()
			for order := range permutations(len(updates)) {
				each, atEnd := newNetwork(t), newNetwork(t)
				for _, i := range order {
					each.update(updates[i])
					each.flush()
					atEnd.update(updates[i])
				}
				atEnd.flush()
				require.Equal(t, straight.state(), each.state(), "order %v", order)
				require.Equal(t, straight.state(), atEnd.state(), "order %v, one flush", order)
				for _, i := range order { // removed in the same order
					each.update(policy.Update{Key: updates[i].Key})
					each.flush()
				}
				each.requireEmpty()
			}
		})
	}
}

// permutations iterates over all orders of n items.
func permutations(n int) func(func([]int) bool) {
	return func(yield func([]int) bool) {
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		var permute func(k int) bool
		permute = func(k int) bool {
			if k == n {
				return yield(slices.Clone(order))
			}
			for i := k; i < n; i++ {
				order[k], order[i] = order[i], order[k]
				if !permute(k + 1) {
					return false
				}
				order[k], order[i] = order[i], order[k]
			}
			return true
		}
		permute(0)
	}
}

// TestRouteWork counts events: a change sends only the routes that depend on it.
func TestRouteWork(t *testing.T) {
	n := newNetwork(t)
	updates := mustParse(t, vxlanPool+"pool q cidr 10.1.0.0/16 vxlan CrossSubnet\n"+
		"node n1 addrs 192.168.0.1/24 tunnel 10.2.0.1")
	for i := range 50 {
		updates = append(updates, mustParse(t, fmt.Sprintf(
			"node r%d addrs 192.168.1.%d/24 tunnel 10.0.%d.1\nblock 10.0.%d.0/26 node r%d\nblock 10.1.%d.0/26 node r%d",
			i, i+1, i, i, i, i, i))...)
	}
	n.update(updates...)
	n.flush()
	for _, c := range []struct {
		update string
		events int
	}{
		{"node r7 addrs 192.168.1.8/24 tunnel 10.0.7.1 labels a=b", 0},
		{"block 10.0.7.0/26 node r7", 0},
		{"block 10.0.7.0/26 node r8", 2}, // the block, and the tunnel address in it, which is now borrowed
		{"block 10.0.7.0/26 node r8 borrowed 10.0.7.9=r9", 1},
		// Two host routes, the tunnel, its address, which is borrowed, and the remaining block.
		{"node r7 addrs 192.168.2.8/24 tunnel 10.0.7.1", 5},
		// Two host routes, the tunnel, its address and two blocks.
		{"node r20 addrs 192.168.0.20/24 tunnel 10.0.20.1", 6},
		// Two host routes, the tunnel, and the one block in a pool with CrossSubnet, because r20 is
		// now in another subnet.
		{"node n1 addrs 192.168.7.1/24 tunnel 10.2.0.1", 4},
		{"pool q cidr 10.1.0.0/16 vxlan CrossSubnet nat", 51},
		{"endpoint n/w addrs 10.0.3.3", 1},
		{"delete WorkloadEndpoint/n/w", 1},
	} {
		n.events = 0
		n.update(mustParse(t, c.update)...)
		n.flush()
		require.Equal(t, c.events, n.events, c.update)
	}
}

func TestUnroutableAddressesAreIgnored(t *testing.T) {
	n := newNetwork(t)
	n.update(mustParse(t, "node r addrs 127.0.0.1/8,0.0.0.0/0,fe80::1/64,::1/128,224.0.0.5/32 "+
		"tunnel 0.0.0.0 tunnel6 ::\n"+
		"endpoint n/w addrs fe80::2,0.0.0.0,ff02::1\nendpoint n/x addrs fe80::2 node r")...)
	n.update(policy.Update{
		Key: policy.Key{Kind: policy.KindIPPool, Name: "none"}, Resource: &policy.IPPool{Name: "none"},
	})
	n.resolvers.routes.UpdateBlock(&policy.Block{Node: "r"})
	n.resolvers.routes.DeleteBlock(policy.Key{Kind: policy.KindBlock, Name: "nonsense"})
	n.flush()
	require.Empty(t, n.state())

	mapped := netip.MustParsePrefix("::ffff:10.0.0.9/120")
	block := &policy.Block{CIDR: mapped, Node: node}
	n.resolvers.routes.UpdateBlock(block)
	n.flush()
	require.Equal(t, "10.0.0.0/24 blackhole node n1\n", n.state(), "in canonical form")
	n.resolvers.routes.DeleteBlock(policy.Key{Kind: policy.KindBlock, Name: "10.0.0.0/24"})
	n.flush()
	require.NotEmpty(t, n.state(), "another key")
	n.resolvers.routes.DeleteBlock(block.Key())
	n.flush()
	require.Empty(t, n.state())
}

func TestRouteResolverConfig(t *testing.T) {
	_, err := calcgraph.NewRouteResolver(calcgraph.RouteResolverConfig{})
	require.ErrorContains(t, err, "Node")
	require.ErrorContains(t, err, "Routes")
	_, err = calcgraph.NewTunnelResolver(calcgraph.TunnelResolverConfig{})
	require.ErrorContains(t, err, "Node")
	require.ErrorContains(t, err, "Tunnels")
}

func mustParse(t testing.TB, text string) []policy.Update {
	t.Helper()
	updates, _, err := worldtext.Parse(text)
	require.NoError(t, err)
	return updates
}
