// SPDX-License-Identifier: Apache-2.0

package prove_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/prove"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
	"github.com/wayleave/wayleave/policy/worlds"
)

var worldFlags = nfttest.NewWorldFlags()

// node is the name of the node of the tables.
const node = worlds.Node

// rendered returns the table of a world.
func rendered(t testing.TB, cfg render.Config, world verdict.World) *ruleset.Table {
	t.Helper()
	graph, err := calcgraph.New(calcgraph.Config{Node: node})
	require.NoError(t, err)
	for key, r := range world {
		graph.Update(policy.Update{Key: key, Resource: r})
	}
	graph.InSync()
	table, _ := nfttest.Rendered(t, cfg, graph.Flush())
	return table
}

// randomWorld returns a world with three endpoints and an address on the node.
func randomWorld(seed uint64) verdict.World {
	w := verdict.World{}
	w.Set(worlds.New(worlds.Config{
		Seed: seed, Interfaces: []string{"way1", "way2", "way3"}, Open: seed%3 != 0,
	}).World()...)
	w.Set(&policy.Node{Name: node, Addresses: []netip.Prefix{
		netip.MustParsePrefix("10.0.0.250/24"), netip.MustParsePrefix("fd00::250/64"),
	}})
	return w
}

func proved(t testing.TB, w verdict.World, table *ruleset.Table) prove.Report {
	t.Helper()
	r, err := prove.Table(t.Context(), prove.Config{World: w, Node: node, Table: table})
	require.NoError(t, err)
	return r
}

func TestRandomWorlds(t *testing.T) {
	for _, seed := range worldFlags.Seeds(60, 3) {
		w := randomWorld(seed)
		for _, classes := range nfttest.Forms() {
			table := rendered(t, render.Config{LogRate: -1, Classes: classes}, w)
			r := proved(t, w, table)
			require.True(t, r.Agrees(), "seed %d\n%s\n%s", seed, r, table)
			t.Log(seed, r.Packets, r.Evaluations, r.Endpoints, r.Groups, r.AddressClasses)
		}
	}
}

// TestClusters proves tables of random worlds with host endpoints and settings of all kinds.
func TestClusters(t *testing.T) {
	for _, seed := range worldFlags.Seeds(40, 2) {
		for _, classes := range nfttest.Forms() {
			c := nfttest.NewCluster(t, seed, classes)
			for range 20 {
				c.Mutate()
			}
			c.Renderer.Update(c.Graph.Flush())
			table, errs := c.Renderer.Table()
			require.Empty(t, errs)
			r, err := prove.Table(t.Context(), prove.Config{
				World: c.Resources, Verdict: c.Settings, Node: node, Table: table, InterfacePrefix: "wl", Limit: 2,
			})
			require.NoError(t, err)
			require.True(t, r.Agrees(), "seed %d\n%s\n%s", seed, r, table)
			t.Log(seed, r.Packets, r.Evaluations, r.Endpoints, r.Groups, r.AddressClasses, r.Incomplete)
		}
	}
}
