// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// TestRandomNetworksThroughGraph is TestRandomNetworks for the whole graph: the mirror checks the
// order and the references of every batch (S96). At the end, its state equals a computation from
// scratch.
func TestRandomNetworksThroughGraph(t *testing.T) {
	for seed := uint64(1); seed <= 8; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runNetworkThroughGraph(t, seed) })
	}
}

func runNetworkThroughGraph(t *testing.T, seed uint64) {
	gen := networkGen{rand.New(rand.NewPCG(seed, 6))}
	p := newPipeline(t)
	graph, err := calcgraph.New(calcgraph.Config{Node: node, Names: gen.IntN(2) == 0})
	require.NoError(t, err)
	p.graph = graph
	m := model{current: map[policy.Key]policy.Resource{}}
	inSyncAt := gen.IntN(100)
	for step := range 600 {
		if step == inSyncAt {
			p.graph.InSync()
		}
		u := gen.update()
		if w, ok := u.Resource.(*policy.WorkloadEndpoint); ok {
			w.Interface = "wl" + w.Name
		}
		if u.Validate() != nil {
			continue // rejected: absent from the model
		}
		if delete(m.current, u.Key); u.Resource != nil {
			m.current[u.Key] = u.Resource
		}
		p.update(u)
		if gen.IntN(4) > 0 {
			continue
		}
		p.flush()
		if p.mirror.State().InSync {
			require.Equal(t, m.state(), networkOf(p.mirror.State()), "seed %d, step %d", seed, step)
		}
	}
	keys := slices.SortedFunc(maps.Keys(m.current), policy.Key.Compare)
	gen.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, k := range keys {
		p.update(policy.Update{Key: k})
		p.flush()
	}
	require.Equal(t, "in-sync\n", p.state())
}

// networkOf returns the tunnels and routes of a state, as network.state does.
func networkOf(s dptest.State) string {
	tunnels, routes := map[dataplane.TunnelKey]dataplane.Tunnel{}, map[netip.Prefix]dataplane.Route{}
	for k, t := range s.Tunnels {
		tunnels[k] = *t
	}
	for dst, r := range s.Routes {
		routes[dst] = *r
	}
	return networkState(tunnels, routes)
}

// TestNamesAreRelayed: namespaces and service accounts are those of the profiles with their names,
// with the original labels. They and services have events only if configured.
func TestNamesAreRelayed(t *testing.T) {
	updates := []policy.Update{
		{Resource: &policy.Profile{
			Name: "kns.shop", LabelsToApply: map[string]string{"pcns.env": "prod", "other": "x"},
		}},
		{Resource: &policy.Profile{
			Name: "ksa.shop.web.front", LabelsToApply: map[string]string{"pcsa.tier": "a", "pcsa.": "x"},
		}},
		{Resource: &policy.Profile{Name: "ksa.shop"}},
		{Resource: &policy.Profile{Name: "kns."}},
		{Resource: &policy.Profile{Name: "plain", LabelsToApply: map[string]string{"pcns.env": "prod"}}},
		{Resource: &policy.ServiceBackends{
			Namespace: "shop", Name: "web-1", Service: "web",
			Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")},
			Ports:     []policy.ServicePort{{Protocol: policy.ProtocolTCP, Port: 80}},
		}},
	}
	for i := range updates {
		updates[i].Key = updates[i].Resource.Key()
	}
	p := newPipeline(t)
	p.graph.InSync()
	p.update(updates...)
	require.Equal(t, "in-sync\n", eventLines(p.flush()), "not configured")

	graph, err := calcgraph.New(calcgraph.Config{Node: node, Names: true})
	require.NoError(t, err)
	p = newPipeline(t)
	p.graph = graph
	p.graph.InSync()
	p.update(updates...)
	require.Equal(t, `service ServiceBackends/shop/web-1 of web [10.0.0.1 10.0.0.2] ports tcp:80
namespace shop labels env=prod
serviceaccount shop/web.front labels tier=a
in-sync
`, eventLines(p.flush()))
	p.update(updates...)
	require.Empty(t, p.flush().Events, "S99")
	updates[0].Resource = &policy.Profile{Name: "kns.shop", LabelsToApply: map[string]string{"pcns.env": "test"}}
	p.update(updates[0])
	require.Equal(t, "namespace shop labels env=test\n", eventLines(p.flush()))
	for _, u := range updates {
		p.update(policy.Update{Key: u.Key})
	}
	require.Equal(t, `remove service ServiceBackends/shop/web-1
remove namespace shop
remove serviceaccount shop/web.front
`, eventLines(p.flush()))
}

// TestRoutesWaitForInSync: routes and tunnels are withheld until InSync, as endpoints are (S97).
func TestRoutesWaitForInSync(t *testing.T) {
	p := newPipeline(t)
	p.update(mustParse(t, "pool p cidr 10.0.0.0/16 vxlan Always\nnode n2 addrs 192.168.0.2/24 tunnel 10.0.1.1\n"+
		"block 10.0.1.0/29 node n2\n")...)
	require.Equal(t, "node n2 [192.168.0.2/24]\npool p 10.0.0.0/16 vxlan\n", eventLines(p.flush()))
	p.graph.InSync()
	p.flush()
	require.Len(t, p.mirror.State().Routes, 4)
	require.Len(t, p.mirror.State().Tunnels, 1)
}

// TestSnapshotOfNetwork: the snapshot has the same effect as all batches so far.
func TestSnapshotOfNetwork(t *testing.T) {
	p := newPipeline(t)
	p.graph.InSync()
	p.update(mustParse(t, vxlanPool+localNode+remoteNode+remoteBlock+localBlock)...)
	p.flush()
	late := dptest.NewMirror()
	require.NoError(t, late.Play(p.graph.Snapshot()))
	require.Equal(t, p.state(), late.State().String())
}

// TestRouteStats counts resources and routes of a graph. After all are removed, the counts are
// zero.
func TestRouteStats(t *testing.T) {
	p := newPipeline(t)
	p.graph.InSync()
	updates := mustParse(t, vxlanPool+localNode+remoteNode+remoteBlock+"block 10.0.2.0/29 node unknown\n")
	p.update(updates...)
	p.flush()
	// The block of an unknown node is counted, but has no route.
	require.Equal(t, calcgraph.RouteStats{Pools: 1, Blocks: 2, Nodes: 3, Prefixes: 7, Routes: 6},
		p.graph.Stats().Routes)
	for _, u := range updates {
		p.update(policy.Update{Key: u.Key})
	}
	p.flush()
	require.Zero(t, p.graph.Stats().Routes)
}
