// SPDX-License-Identifier: Apache-2.0

package prove_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/prove"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// bridgedShop returns the table of shop where web-1 and db are ports of a bridge.
func bridgedShop(t *testing.T, classes render.ClassesConfig) (*ruleset.Table, map[string]string) {
	t.Helper()
	graph, err := calcgraph.New(calcgraph.Config{Node: node})
	require.NoError(t, err)
	for key, r := range shop() {
		graph.Update(policy.Update{Key: key, Resource: r})
	}
	graph.InSync()
	r, err := render.New(render.Config{Classes: classes, Bridges: []string{"br0"}})
	require.NoError(t, err)
	of := map[string]string{"way1": "br0", "way3": "br0"}
	for name, bridge := range of {
		r.SetMaster(name, render.Master{Name: bridge, Kind: "bridge"})
	}
	r.Update(graph.Flush())
	table, errs := r.Table()
	require.Empty(t, errs)
	return table, of
}

// at returns a mutant that changes the element for br0 and an address in a map.
func at(address string, change func(e *ruleset.Element) bool) func([]ruleset.Element) ([]ruleset.Element, bool) {
	return func(list []ruleset.Element) (out []ruleset.Element, changed bool) {
		for _, e := range list {
			if len(e.Key) == 2 && bytes.Equal(e.Key[0], ruleset.Ifname("br0")) && bytes.Equal(e.Key[1], addr(address)) {
				changed = true
				if !change(&e) {
					continue
				}
			}
			out = append(out, e)
		}
		return out, changed
	}
}

// S171: bridged endpoints are proved with the interface of their bridge. A change of the elements
// that distinguish them is found.
func TestBridgedEndpoints(t *testing.T) {
	missing := func(*ruleset.Element) bool { return false }
	leads := func(chain string) func(*ruleset.Element) bool {
		return func(e *ruleset.Element) bool {
			v := *e.Verdict
			v.Chain = chain
			e.Verdict = &v
			return true
		}
	}
	for _, classes := range nfttest.Forms() {
		table, of := bridgedShop(t, classes)
		cfg := prove.Config{World: shop(), Node: node, Table: table, Bridges: of, Limit: 1}
		r, err := prove.Table(t.Context(), cfg)
		require.NoError(t, err)
		require.True(t, r.Agrees(), "%s", r)
		require.Equal(t, 3, r.Groups, "web-2 has the same policy as web-1 and no bridge")
		require.Contains(t, r.Incomplete[0], "to addresses behind a bridge")
		for name, change := range map[string]mutant{
			"cannot send":               elements("bridge-senders4", at("10.0.0.1", missing)),
			"cannot receive":            elements("bridge-receivers4", at("10.0.0.1", missing)),
			"cannot receive over IPv6":  elements("bridge-receivers6", at("fd00::3", missing)),
			"sends by another chain":    elements("bridge-senders4", at("10.0.0.1", leads("from/shop/db"))),
			"receives by another chain": elements("bridge-receivers4", at("10.0.0.3", leads("to/shop/web-1"))),
			"the host cannot send":      elements("source4", at("10.0.0.1", missing)),
			"unknown sources pass": eachRule("sender", func(c *ruleset.Chain, i int) bool {
				if c.Rules[i].Comment != "no endpoint of the bridge has the address" {
					return false
				}
				c.Rules = c.Rules[:i]
				return true
			}),
		} {
			table, _ := bridgedShop(t, classes)
			require.True(t, change(table), name)
			cfg.Table = table
			r, err := prove.Table(t.Context(), cfg)
			require.NoError(t, err, name)
			require.False(t, r.Agrees(), name)
		}
		cfg.Table, cfg.Bridges = table, nil
		r, err = prove.Table(t.Context(), cfg)
		require.NoError(t, err)
		require.False(t, r.Agrees(), "without the bridges, packets of ports have their own interfaces")
	}
}

// S171: tables of random worlds with host endpoints, where workloads are ports of bridges.
func TestBridgedClusters(t *testing.T) {
	bridged := 0
	for _, seed := range worldFlags.Seeds(40, 3) {
		for _, classes := range nfttest.Forms() {
			c := nfttest.NewBridgedCluster(t, seed, classes)
			for range 20 {
				c.Mutate()
			}
			c.Renderer.Update(c.Graph.Flush())
			c.Bridge()
			c.Renderer.SetInterfaces(c.Known())
			bridged += len(c.Ports)
			table, errs := c.Renderer.Table()
			require.Empty(t, errs)
			r, err := prove.Table(t.Context(), prove.Config{
				World: c.Resources, Verdict: c.Settings, Node: node, Table: table, InterfacePrefix: "wl", Limit: 2,
				Bridges: c.Ports,
			})
			require.NoError(t, err)
			require.True(t, r.Agrees(), "seed %d\n%s\n%s", seed, r, table)
			t.Log(seed, r.Packets, r.Evaluations, r.Endpoints, r.Groups, r.AddressClasses, c.Ports)
		}
	}
	require.Positive(t, bridged)
}
