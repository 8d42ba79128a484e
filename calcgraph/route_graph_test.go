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

// TestRandomNetworksThroughGraph is TestRandomNetworks for the whole graph: the mirror sees to the
// order and the references of every batch (S96), and in the end holds what a computation from
// scratch gives.
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

// TestNamesPassedOn: namespaces and service accounts are the profiles that stand for them, with the
// labels that their names had; they and services come only if configured.
func TestNamesPassedOn(t *testing.T) {
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
	require.Equal(t, "in-sync\n", eventLines(p.flush()), "not asked for")

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

// TestRoutesWaitForInSync: neither routes nor tunnels come before endpoints may (S97).
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

// TestSnapshotOfNetwork: the snapshot makes in one batch what the batches so far have made.
func TestSnapshotOfNetwork(t *testing.T) {
	p := newPipeline(t)
	p.graph.InSync()
	p.update(mustParse(t, vxlanPool+localNode+remoteNode+remoteBlock+localBlock)...)
	p.flush()
	late := dptest.NewMirror()
	require.NoError(t, late.Play(p.graph.Snapshot()))
	require.Equal(t, p.state(), late.State().String())
}

// TestRouteStats counts pieces and routes, in the graph and, after all is gone, none.
func TestRouteStats(t *testing.T) {
	p := newPipeline(t)
	p.graph.InSync()
	updates := mustParse(t, vxlanPool+localNode+remoteNode+remoteBlock+"block 10.0.2.0/29 node unknown\n")
	p.update(updates...)
	p.flush()
	// The block of the unknown node is known, but there is no way there.
	require.Equal(t, calcgraph.RouteStats{Pools: 1, Blocks: 2, Nodes: 3, Prefixes: 7, Routes: 6},
		p.graph.Stats().Routes)
	for _, u := range updates {
		p.update(policy.Update{Key: u.Key})
	}
	p.flush()
	require.Zero(t, p.graph.Stats().Routes)
}
